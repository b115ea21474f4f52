"""The type of a content: from the header, else from its first bytes."""

import re
from typing import Final, NamedTuple

from hubd.wire.lazy_pattern import lazy_pattern

UNKNOWN: Final = "application/octet-stream"
HTML: Final = frozenset(("text/html", "application/xhtml+xml"))
# The first bytes that show whether a content is text.
SNIFFED_BYTES: Final = 4096

_TYPE: Final = lazy_pattern(r"[a-z0-9!#$&^_.+-]{1,63}/[a-z0-9!#$&^_.+-]{1,63}")
_CHARSET: Final = lazy_pattern(r""";\s*charset\s*=\s*["']?([\w.:-]{1,40})""", re.I)
_TEXT_TYPES: Final = frozenset(
    f"application/{name}"
    for name in (
        *("json", "xml", "xhtml+xml", "javascript", "ecmascript", "x-javascript", "typescript"),
        *("x-ndjson", "ndjson", "jsonl", "graphql", "sql", "toml", "yaml", "x-yaml", "x-sh"),
        *("x-www-form-urlencoded", "xml-dtd", "rtf", "x-tex", "x-httpd-php"),
    )
)
_HTML_START: Final = lazy_pattern(
    rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype html|html|head|body)\b", re.I | re.S
)
# Bytes that no text contains in any of the character sets.
_BINARY: Final = lazy_pattern(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class MediaType(NamedTuple):
    """The type of a content."""

    mime_type: str
    # The character set in the header, not checked.
    charset: str | None
    is_text: bool

    @property
    def is_html(self) -> bool:
        """Whether the content is a page with markup."""
        return self.mime_type in HTML


def media_type(header: str | None, beginning: bytes) -> MediaType:
    """Return the type of a content.

    Args:
        header: The value of Content-Type, if the server sent one.
        beginning: The first bytes of the content.
    """
    header = (header or "")[:1000]
    named = header.partition(";")[0].strip().lower()
    charset = match[1] if (match := _CHARSET.search(header)) else None
    if not _TYPE.fullmatch(named) or named == UNKNOWN:
        named = _sniffed(beginning)
    return MediaType(named, charset, _is_text(named) and not _is_binary(beginning, charset))


def _sniffed(beginning: bytes) -> str:
    if _HTML_START.match(beginning):
        return "text/html"
    return UNKNOWN if _is_binary(beginning, None) else "text/plain"


def _is_text(mime_type: str) -> bool:
    return mime_type.startswith("text/") or (
        mime_type in _TEXT_TYPES or mime_type.endswith(("+json", "+xml", "+yaml"))
    )


def _is_binary(beginning: bytes, charset: str | None) -> bool:
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")) or "16" in (charset or ""):
        return False  # UTF-16 has such bytes.
    return _BINARY.search(beginning[:SNIFFED_BYTES]) is not None
