"""Ids of 16 bytes: UUID version 4, and version 7, which sorts by time."""

import os
import random
import time
from typing import Final

# The fewest first digits that abbreviate a version 4 id.
MIN_PREFIX: Final = 8
# The fewest last digits that abbreviate a version 7 id. Its first digits are its time, which the
# nodes of one tree share.
MIN_ENDING: Final = 4

_DIGITS: Final = frozenset("0123456789abcdef")
# The bits that say which version an id has.
_VERSION_4: Final = 4 << 76 | 0b10 << 62
_VERSION_7: Final = 7 << 76 | 0b10 << 62
_LAYOUT: Final = (8, 12, 16, 20)

# The time of the last version 7 id, in 1/4096 ms. It only increases.
_last_tick = 0


def uuid4() -> bytes:
    """Return a random id."""
    value = int.from_bytes(os.urandom(16))
    return (value & ~(0xF << 76 | 0b11 << 62) | _VERSION_4).to_bytes(16)


def uuid7() -> bytes:
    """Return an id that sorts after all earlier ones of this process."""
    global _last_tick
    tick = time.time_ns() * 4096 // 1_000_000
    _last_tick = tick = tick if tick > _last_tick else _last_tick + 1
    time_bits = (tick >> 12) << 80 | (tick & 0xFFF) << 64
    return (time_bits | _VERSION_7 | random.getrandbits(62)).to_bytes(16)


def text(value: bytes) -> str:
    """Return the id as text. The uuid module would take three times as long."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def span(written: str) -> tuple[bytes, bytes] | None:
    """Return the first and the last id with these first digits; None if the text is not an id."""
    digits = written.strip().lower()
    if "-" in digits:
        places = [number for number, char in enumerate(digits) if char == "-"]
        expected = [place + number for number, place in enumerate(_LAYOUT)]
        if places != expected[: len(places)]:
            return None
        digits = digits.replace("-", "")
    if not MIN_PREFIX <= len(digits) <= 32 or not _DIGITS.issuperset(digits):
        return None
    return bytes.fromhex(digits.ljust(32, "0")), bytes.fromhex(digits.ljust(32, "f"))


def ending(written: str) -> str | None:
    """Return the hex digits of an id or of its last digits; None if the text is neither."""
    digits = written.strip().lower()
    if "-" in digits:
        groups = digits.split("-")
        # Only the first group may be incomplete.
        lengths = [len(group) for group in groups]
        expected = (8, 4, 4, 4, 12)[-len(groups) :]
        if len(groups) > 5 or lengths[1:] != [*expected[1:]] or not 1 <= lengths[0] <= expected[0]:
            return None
        digits = "".join(groups)
    if not MIN_ENDING <= len(digits) <= 32 or not _DIGITS.issuperset(digits):
        return None
    return digits
