"""The limits of one message, which keep a client from delaying the others.

A parser holds the interpreter until the whole message is parsed. The cost of a message is therefore
estimated from its bytes before it is parsed, in one or two milliseconds per MiB.
"""

from typing import Final, NamedTuple

MIB: Final = 1024 * 1024
# The default of the setting `max_message_mib`.
MAX_MESSAGE_MIB: Final = 8
# The longest time from the first byte of a message to its last.
MESSAGE_SECONDS: Final = 60.0

# Smaller messages take a few milliseconds at most, so they are not checked.
LARGE_BYTES: Final = 64 * 1024
# The parser refuses deeper nesting.
MAX_DEPTH: Final = 200
# Reading a number takes time that grows with the square of its length. A number with fewer digits
# always passes, and one with twice as many never does.
MAX_DIGITS: Final = 500
# Strings that contain brackets, commas or colons.
MAX_BUSY_STRINGS: Final = 200_000

# The costs add up: only two of the three counts may be at their limit at once.
MAX_SHARES: Final = 2

_CHUNK: Final = 256 * 1024
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b"[{,:"))
_NOT_STRUCTURE_OR_QUOTE: Final = bytes(set(_NOT_STRUCTURE) - set(b'"'))


class Counts(NamedTuple):
    """The largest counts of one message."""

    # Arrays and objects.
    containers: int
    # Values in arrays and objects, counted by their commas.
    values: int
    # Keys of objects, counted by their colons. A key costs several times as much as a value.
    keys: int


# Each step of work on a message within these takes 50 ms at most.
RPC_COUNTS: Final = Counts(100_000, 200_000, 100_000)
# The MCP SDK parses a message three times in one step, with slower parsers.
MCP_COUNTS: Final = Counts(20_000, 80_000, 40_000)


def excess(message: bytes, limits: Counts = RPC_COUNTS) -> str | None:
    """Return the limit that a message exceeds, as a sentence; None if it may be parsed."""
    if len(message) <= LARGE_BYTES:
        return None
    reason = _count_all(message, limits)
    if reason is not None or _has_long_digits(message):
        # Punctuation and digits inside strings are cheap, so they are counted again without these.
        return _count_outside_strings(message, limits)
    return None


def _count_all(message: bytes, limits: Counts) -> str | None:
    counter = _Counter(limits)
    for start in range(0, len(message), _CHUNK):
        structure = message[start : start + _CHUNK].translate(None, _NOT_STRUCTURE)
        if (reason := counter.add(structure)) is not None:
            return reason
    return None


def _count_outside_strings(message: bytes, limits: Counts) -> str | None:
    counter = _Counter(limits)
    start, busy, is_in_string = 0, 0, False
    while start < len(message):
        end = _end_of_chunk(message, start)
        chunk = message[start:end]
        if b"\\" in chunk:
            chunk = chunk.replace(rb"\\", b"").replace(rb"\"", b"")
        structure = chunk.translate(None, _NOT_STRUCTURE_OR_QUOTE)
        if is_in_string:
            structure = b'"' + structure
        # Most strings are empty now. Removing them is much faster than splitting at their quotes.
        structure = structure.replace(b'""', b"")
        quotes = structure.count(b'"')
        busy += quotes // 2
        if busy > MAX_BUSY_STRINGS:
            return f"it has more than {MAX_BUSY_STRINGS:,} strings with brackets, commas or colons"
        outside = b"".join(structure.split(b'"')[::2]) if quotes else structure
        if (reason := counter.add(outside)) is not None:
            return reason
        if _has_long_digits(chunk) and _has_long_number(chunk, is_in_string=is_in_string):
            return f"it has a number with more than {MAX_DIGITS} digits"
        is_in_string = quotes % 2 == 1
        start = end
    return None


def _end_of_chunk(message: bytes, start: int) -> int:
    """Return the end of the next chunk, which is never inside an escape."""
    end = start + _CHUNK
    while message[end - 1 : end] == b"\\":
        end += 1
    return end


def _has_long_digits(text: bytes) -> bool:
    """Return whether a text has too many digits in a row, in a string or not."""
    blocks = range(0, len(text) - MAX_DIGITS + 1, MAX_DIGITS)
    return any(text[start : start + MAX_DIGITS].isdigit() for start in blocks)


def _has_long_number(chunk: bytes, *, is_in_string: bool) -> bool:
    outside = chunk.split(b'"')[int(is_in_string) :: 2]
    return any(map(_has_long_digits, outside))


class _Counter:
    """Adds up the counts of the pieces of one message."""

    def __init__(self, limits: Counts) -> None:
        self._limits = limits
        self._containers = self._values = self._keys = 0

    def add(self, structure: bytes) -> str | None:
        """Count one piece; return the exceeded limit, or None."""
        self._containers += structure.count(b"[") + structure.count(b"{")
        self._values += structure.count(b",")
        self._keys += structure.count(b":")
        if self._containers > self._limits.containers:
            return f"it has more than {self._limits.containers:,} arrays and objects"
        if self._values > self._limits.values:
            return f"it has more than {self._limits.values:,} values"
        if self._keys > self._limits.keys:
            return f"it has more than {self._limits.keys:,} keys"
        counts = (self._containers, self._values, self._keys)
        pairs = zip(counts, self._limits, strict=True)
        if sum(count / limit for count, limit in pairs if count) > MAX_SHARES:
            return "it has too many arrays, objects, values and keys together"
        return None
