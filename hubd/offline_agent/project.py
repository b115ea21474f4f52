"""The name of the directory in which `claude` stores the sessions of a working directory.

Standard library only, because the offline agent imports this at every start.
"""

from typing import Final

# The directory of the offline agent's sessions, below the hub's data directory.
SESSIONS_DIRECTORY: Final = "offline_agent"
# A longer name is cut to this length, and a hash is appended.
LONGEST_NAME: Final = 200

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def name_of(real_path: str) -> str:
    """Return the name of the directory for the sessions of a real path.

    As in claude 2.1.325, each UTF-16 unit that is not an ASCII letter or digit becomes a dash. The
    path is not normalised.
    """
    units = _utf16_units(real_path)
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{_hash(units)}"


def _utf16_units(text: str) -> list[int]:
    # Bytes that are not UTF-8 are single surrogates in Python.
    data = text.encode("utf-16-le", "surrogatepass")
    return [low | high << 8 for low, high in zip(data[::2], data[1::2], strict=True)]


def _hash(units: list[int]) -> str:
    """Return the usual JavaScript hash of a string, as a signed 32-bit number in base 36."""
    number = 0
    for unit in units:
        number = (number * 31 + unit) & 0xFFFFFFFF
    if number & 0x80000000:
        number = 0x100000000 - number
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
