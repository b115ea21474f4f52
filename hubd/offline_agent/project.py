"""How `claude` names the directory that holds the sessions of a working directory.

Standard library only: the offline agent imports it at every start.
"""

from typing import Final

# The offline agent keeps its sessions here, below the hub's data directory.
SESSIONS_DIRECTORY: Final = "offline_agent"
# A longer name is cut here, and a hash of the whole makes it unique again.
LONGEST_NAME: Final = 200

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def name_of(real_path: str) -> str:
    """The name of the directory for the sessions of a real path, or of any text.

    As 2.1.325 does it: not brought to a normal form, every UTF-16 unit that is no ASCII letter or
    digit becomes a dash.
    """
    units = _utf16_units(real_path)
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{_hash(units)}"


def _utf16_units(text: str) -> list[int]:
    # A name may hold bytes that are no UTF-8; Python has them as lone surrogates.
    data = text.encode("utf-16-le", "surrogatepass")
    return [low | high << 8 for low, high in zip(data[::2], data[1::2], strict=True)]


def _hash(units: list[int]) -> str:
    """JavaScript's usual hash of a string: 31 times and add, as a signed 32-bit number."""
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
