"""Convert texts to JSON values that the hub accepts, and values to short texts."""

from hubd.wire.envelope import dumps
from synapse.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# The hub accepts a nesting of 200; the request around the params takes some of it.
MAX_NESTING = 190
# The digits that a float keeps. A longer number stays a text where texts are allowed.
EXACT_DIGITS = 15
# The length of a value or a name in a message, in characters.
MAX_SHOWN = 60

NOT_JSON = object()
_TOO_DEEP = object()


def try_json(where: str, text: str) -> "Any":
    """Return the value of a JSON text, or `NOT_JSON`.

    Raises:
        UsageError: The hub does not accept this JSON.
    """
    import json

    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except ValueError:
        return NOT_JSON
    except RecursionError:
        value = _TOO_DEEP
    openings = text.count("[") + text.count("{")
    if value is _TOO_DEEP or (openings > MAX_NESTING and _depth(value) > MAX_NESTING):
        raise UsageError(f"{where} is nested more than {MAX_NESTING} deep")
    if "\\u" in text and not is_text(json.dumps(value, ensure_ascii=False)):
        raise UsageError(f"{where} contains half a surrogate pair")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(text)
    return number


def _depth(value: "Any") -> int:
    depth, level = 0, [value]
    while level := [entry for entry in level if isinstance(entry, dict | list)]:
        depth += 1
        parts = (entry.values() if isinstance(entry, dict) else entry for entry in level)
        level = [below for part in parts for below in part]
    return depth


def json_object(where: str, text: str) -> "dict[str, Any]":
    """Return the object of a JSON text.

    Raises:
        UsageError: The text is not a JSON object.
    """
    value = try_json(where, text)
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a JSON object, not {brief(text)}")
    return value


def is_text(text: str) -> bool:
    """Return whether a text can be sent. Python decodes bytes outside UTF-8 as lone surrogates."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def number_or_word(text: str, kind: str) -> "Any":
    """Return a number, true, false or null; `NOT_JSON` if the text is not of this type."""
    words = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text] if is_kind(words[text], kind) else NOT_JSON
    if kind not in ("integer", "number"):
        return NOT_JSON
    digits = text[1:] if text[:1] in ("-", "+") else text
    if (
        not digits.isascii()
        or not digits.replace(".", "")
        .replace("e", "")
        .replace("E", "")
        .replace("-", "")
        .replace("+", "")
        .isdigit()
    ):
        return NOT_JSON
    try:
        if digits.isdigit():
            return int(text)
        number = float(text)
    except ValueError:
        return NOT_JSON
    if abs(number) == float("inf"):
        return NOT_JSON
    if kind == "number":
        return number
    # In JSON Schema, 1.0 and 1e3 are whole numbers.
    return int(number) if number.is_integer() else NOT_JSON


def count_digits(text: str) -> int:
    """Return the number of digits before the exponent."""
    return sum(map(str.isdigit, text.lower().partition("e")[0]))


def is_kind(value: "Any", kind: "Any") -> bool:
    """Return whether a value is of a JSON Schema type."""
    if isinstance(value, bool):
        return bool(kind == "boolean")
    if isinstance(value, int):
        return kind in ("integer", "number")
    if isinstance(value, float):
        return kind == "number" or (kind == "integer" and value.is_integer())
    kinds = {str: "string", list: "array", dict: "object", type(None): "null"}
    return bool(kinds.get(type(value)) == kind)


def spelled(value: "Any") -> str:
    """Return a value as the user types it."""
    return value if isinstance(value, str) else dumps(value)


def brief(value: "Any") -> str:
    """Return a value for a message, in quotes if it is a text."""
    from hubd.wire.text import shorten

    return shorten(repr(value), MAX_SHOWN)


def printable(name: str) -> str:
    """Return a name for a message: on one line, without control characters."""
    if name.isprintable() and len(name) <= MAX_SHOWN:
        return name
    from hubd.wire.text import shorten

    return shorten(name if name.isprintable() else repr(name)[1:-1], MAX_SHOWN)
