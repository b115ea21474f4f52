"""Content encodings: gzip and deflate, decoded in bounded pieces.

Requests accept only these, so no other is decoded. A small input can never fill the memory,
because the decoder hands out at most `PIECE_BYTES` at a time and the reader counts them.
"""

import zlib
from collections.abc import Iterator
from typing import Final, Protocol

# The value of Accept-Encoding.
ACCEPTED: Final = "gzip, deflate"
PIECE_BYTES: Final = 64 * 1024
# Encodings of one response. More than one is legal and hardly used.
MAX_ENCODINGS: Final = 2

_GZIP: Final = 16 + zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS


class BadEncoding(Exception):
    """The body is not encoded as its header says."""


class Decoder(Protocol):
    """Decodes a body piece by piece."""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes, in pieces of at most `PIECE_BYTES`."""

    def finish(self) -> None:
        """Check that the body is complete."""


def decoder(header: str) -> Decoder:
    """Return the decoder for the value of Content-Encoding.

    Raises:
        BadEncoding: The value names an encoding that was not accepted.
    """
    names = [name for part in header.split(",") if (name := part.strip().lower())]
    names = [name for name in names if name != "identity"]
    if len(names) > MAX_ENCODINGS:
        raise BadEncoding(f"it has {len(names)} content encodings")
    chain: Decoder = _Identity()
    for name in names:
        if name in ("gzip", "x-gzip"):
            chain = _Chain(_Zlib(_GZIP), chain)
        elif name == "deflate":
            chain = _Chain(_Zlib(zlib.MAX_WBITS), chain)
        else:
            raise BadEncoding(f"its content encoding '{name[:40]}' is not supported")
    return chain


class _Identity:
    def decode(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), PIECE_BYTES):
            yield data[start : start + PIECE_BYTES]

    def finish(self) -> None:
        pass


class _Zlib:
    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inflate = zlib.decompressobj(wbits)
        self._has_data = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        piece = b""
        # After a full piece there may be more, although all input was taken.
        while data or len(piece) == PIECE_BYTES:
            if self._inflate.eof:
                # A gzip file may have several members. Other bytes after the end are padding.
                if self._wbits != _GZIP or not data.startswith(b"\x1f\x8b"):
                    return
                self._inflate = zlib.decompressobj(self._wbits)
            piece = self._step(data)
            self._has_data = True
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            if piece:
                yield piece

    def finish(self) -> None:
        if self._has_data and not self._inflate.eof:
            raise BadEncoding("its compressed body is incomplete")

    def _step(self, data: bytes) -> bytes:
        try:
            return self._inflate.decompress(data, PIECE_BYTES)
        except zlib.error as error:
            if self._wbits != zlib.MAX_WBITS or self._has_data:
                raise BadEncoding(f"its compressed body is invalid: {error}") from None
        # Some servers send deflate without its header.
        self._wbits = _RAW
        self._inflate = zlib.decompressobj(_RAW)
        return self._step(data)


class _Chain:
    """One encoding, applied after the others were."""

    def __init__(self, outer: Decoder, inner: Decoder) -> None:
        self._outer = outer
        self._inner = inner

    def decode(self, data: bytes) -> Iterator[bytes]:
        for piece in self._outer.decode(data):
            yield from self._inner.decode(piece)

    def finish(self) -> None:
        self._outer.finish()
        self._inner.finish()
