r"""Bytes as text: UTF-8, or escaped so that the exact bytes can be read back.

In escaped text, `\xNN` is one byte that is not UTF-8, and `\\` is a backslash.
"""


def escape(data: bytes) -> tuple[str, bool]:
    """Return bytes as text, and whether it is escaped because they are not UTF-8."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace"), True


def unescape(text: str) -> bytes:
    """Return the bytes of escaped text."""
    first, *others = text.encode().split(b"\\")
    data = bytearray(first)
    # An empty part follows the first backslash of two: the next part then begins with the second.
    parts = iter(others)
    for part in parts:
        if part:
            data += bytes([int(part[1:3], 16)]) + part[3:]
        else:
            data += b"\\" + next(parts, b"")
    return bytes(data)
