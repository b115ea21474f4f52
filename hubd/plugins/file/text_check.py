"""Decide whether a content is text, while it is read in pieces."""

import codecs
from typing import Final

TEXT: Final = "text/plain"
BINARY: Final = "application/octet-stream"


class TextCheck:
    """A content is text if it is UTF-8 without NUL."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_text = True

    def add(self, chunk: bytes) -> None:
        """Look at the next piece."""
        if self._is_text:
            self._is_text = b"\0" not in chunk and self._decodes(chunk, final=False)

    def ends_as_text(self) -> bool:
        """Return whether the whole content is text."""
        return self._is_text and self._decodes(b"", final=True)

    def _decodes(self, chunk: bytes, *, final: bool) -> bool:
        try:
            self._decoder.decode(chunk, final)
        except UnicodeDecodeError:
            return False
        return True


def mime_type(name: str, *, is_text: bool) -> str:
    """Return the type that the name suggests, else the plain type of text or bytes."""
    # Imported here, because the start of the daemon does not need it.
    import mimetypes

    guess, encoding = mimetypes.guess_type(name)
    if encoding is not None:  # Compressed: the type would be that of the content.
        return f"application/{encoding}" if not is_text else TEXT
    if guess is None or (is_text and not _can_be_text(guess)):
        return TEXT if is_text else BINARY
    return guess


def _can_be_text(guess: str) -> bool:
    main, _, subtype = guess.partition("/")
    return main in ("text", "application") or subtype.endswith(("+xml", "+json"))
