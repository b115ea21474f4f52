"""Texts to values: JSON, numbers and words, as far as the hub would read them."""

from __future__ import annotations

from synapse.errors import UsageError
from synapse.plainjson import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# The hub refuses messages nested deeper than 200; the request around the params takes some.
MAX_NESTING = 190
# A float keeps so many; a longer number that may also be a text, as a Decimal may, stays one.
EXACT_DIGITS = 15

NOT_JSON = object()
_TOO_DEEP = object()


def try_json(where: str, text: str) -> Any:
    """The value that a JSON text stands for, or `NOT_JSON`.

    Raises:
        UsageError: It is JSON that the hub would not read.
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
        raise UsageError(f"{where} has half a surrogate pair in it")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(text)
    return number


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [entry for entry in level if isinstance(entry, dict | list)]:
        depth += 1
        parts = (entry.values() if isinstance(entry, dict) else entry for entry in level)
        level = [below for part in parts for below in part]
    return depth


def json_object(where: str, text: str) -> dict[str, Any]:
    value = try_json(where, text)
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a JSON object, not {brief(text)}")
    return value


def is_text(text: str) -> bool:
    """Whether it can be sent: bytes that are not UTF-8 arrive as halves of surrogate pairs."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def number_or_word(text: str, kind: str) -> Any:
    """A number, true, false or null from its text; `NOT_JSON` if it is none of the kind."""
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
    # 1.0 and 1e3 are whole numbers, as JSON Schema has it.
    return int(number) if number.is_integer() else NOT_JSON


def count_digits(text: str) -> int:
    return sum(map(str.isdigit, text.lower().partition("e")[0]))


def is_kind(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return bool(kind == "boolean")
    if isinstance(value, int):
        return kind in ("integer", "number")
    if isinstance(value, float):
        return kind == "number" or (kind == "integer" and value.is_integer())
    kinds = {str: "string", list: "array", dict: "object", type(None): "null"}
    return bool(kinds.get(type(value)) == kind)


def spelled(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def printable(name: str) -> str:
    """A name as part of one line."""
    if not name.isprintable():
        name = repr(name)[1:-1]
    return name if len(name) <= 60 else f"{name[:59]}…"
