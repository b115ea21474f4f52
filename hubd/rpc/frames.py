"""Read and write the text frames of a WebSocket; nearly every message is one.

All other frames (control frames, fragments, long or malformed ones) go to the protocol of
`websockets`, byte for byte. No I/O.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from hubd.wire.jsonrpc import TooLarge
from hubd.wire.limits import MAX_MESSAGE_MIB, MIB

try:
    from websockets.speedups import apply_mask
except ImportError:  # The package was built without its compiled part.
    from websockets.utils import apply_mask

# Longer messages go through the protocol, which keeps only one copy of them.
MAX_SHORT_BYTES: Final = 0xFFFF

# The first byte of a frame that is a whole text message.
_WHOLE_TEXT: Final = 0x81
_FINAL: Final = 0x80
_CONTROL: Final = 0x08
_MASKED: Final = 0x80
_LENGTH: Final = 0x7F
# With these values, the length follows in two or in eight bytes.
_IN_TWO_BYTES: Final = 126
_IN_EIGHT_BYTES: Final = 127
_KEY_BYTES: Final = 4
# The bytes before a masked payload, if its length is in the second byte or in two more.
_SHORT_HEAD: Final = 6
_LONG_HEAD: Final = 8


# The bytes before the payload of a frame of a server.
_SHORT_HEADS: Final = tuple(bytes((_WHOLE_TEXT, size)) for size in range(_IN_TWO_BYTES))
_head_of_two: Final = Struct("!BBH").pack
_head_of_eight: Final = Struct("!BBQ").pack


class Splitter:
    """Splits a client's bytes into frames, starting with the first frame."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_MIB * MIB) -> None:
        # The longest message. It may change at any time.
        self.max_bytes = max_bytes
        # The start of an incomplete frame.
        self._partial = b""
        # Bytes of the current frame that the protocol still has to receive.
        self._foreign = 0
        # Whether that frame is too large and its bytes are dropped.
        self._is_dropping = False
        # Whether a message in fragments is incomplete. The protocol receives all fragments.
        self._in_fragments = False

    @property
    def is_unfinished(self) -> bool:
        """Whether a frame or a message in fragments is incomplete."""
        return bool(self._partial or self._foreign) or self._in_fragments

    def whole(self, data: bytes) -> bytes | None:
        """Return the message if the bytes are one whole frame with a short text: the usual case.

        Otherwise return None, and `split` must read the bytes.
        """
        if len(data) < _LONG_HEAD or data[0] != _WHOLE_TEXT:
            return None
        if self._partial or self._foreign or self._in_fragments:
            return None
        size, start = data[1] - _MASKED, _SHORT_HEAD
        if size == _IN_TWO_BYTES:
            size, start = int.from_bytes(data[2:4]), _LONG_HEAD
        elif not 0 <= size < _IN_TWO_BYTES:
            return None
        if size > self.max_bytes or len(data) != start + size:
            return None
        return apply_mask(data[start:], data[start - _KEY_BYTES : start])

    def split(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield whole messages (True) and bytes for the protocol (False), in order.

        Raises:
            TooLarge: A frame is longer than a message may be.
        """
        if self._partial:
            data = self._partial + data
            self._partial = b""
        at = 0
        while at < len(data):
            if self._foreign:
                piece = data[at : at + self._foreign]
                self._foreign -= len(piece)
                at += len(piece)
                if not self._is_dropping:
                    yield piece, False
                self._is_dropping = self._is_dropping and self._foreign > 0
                continue
            start, end = _extent(data, at)
            if not start:
                self._partial = data[at:]
                return
            if end - start > self.max_bytes and not data[at] & _CONTROL:
                # The rest is dropped on arrival, so that the next frames can be read.
                self._foreign = max(0, end - len(data))
                self._is_dropping = self._foreign > 0
                raise TooLarge.in_bytes(self.max_bytes)
            if not self._is_message(data[at], data[at + 1], end - start):
                self._foreign = end - at
            elif end > len(data):
                self._partial = data[at:]
                return
            else:
                yield apply_mask(data[start:end], data[start - _KEY_BYTES : start]), True
                at = end

    def _is_message(self, first: int, second: int, size: int) -> bool:
        if first == _WHOLE_TEXT and not self._in_fragments:
            return bool(second & _MASKED) and size <= MAX_SHORT_BYTES
        if not first & _CONTROL:
            self._in_fragments = not first & _FINAL
        return False


def add_text_frame(frames: list[bytes], message: bytes) -> int:
    """Append a message as a text frame of a server, in two pieces; return the number of bytes."""
    size = len(message)
    if size < _IN_TWO_BYTES:
        head = _SHORT_HEADS[size]
    elif size <= MAX_SHORT_BYTES:
        head = _head_of_two(_WHOLE_TEXT, _IN_TWO_BYTES, size)
    else:
        head = _head_of_eight(_WHOLE_TEXT, _IN_EIGHT_BYTES, size)
    frames += (head, message)
    return len(head) + size


def _extent(data: bytes, at: int) -> tuple[int, int]:
    """Return where the payload of a frame starts and ends; (0, 0) if more bytes are needed."""
    if len(data) < at + 2:
        return 0, 0
    length, start = data[at + 1] & _LENGTH, at + 2
    if length >= _IN_TWO_BYTES:
        start += 2 if length == _IN_TWO_BYTES else 8
        length = int.from_bytes(data[at + 2 : start])
    if data[at + 1] & _MASKED:
        start += _KEY_BYTES
    return (start, start + length) if len(data) >= start else (0, 0)
