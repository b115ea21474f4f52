"""Explain in plain words why params do not fit the schema of a method."""

from collections.abc import Iterable
from typing import Any, Final

from pydantic_core import ErrorDetails

_REASONS: Final = {
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
    "set_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "none_required": "must be null",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "const": "must be {expected}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "multiple_of": "must be a multiple of {multiple_of}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "uuid_type": "must be a UUID",
    "uuid_parsing": "must be a UUID",
    "uuid_version": "must be a UUID of version {expected_version}",
    "missing": "is missing",
    "extra_forbidden": "is not a parameter",
    "union_tag_invalid": "must have {discriminator} {expected_tags}",
    "union_tag_not_found": "must have {discriminator}",
}
_MUST_BE: Final = "must be "


def place(problem: ErrorDetails) -> str:
    """Return the dotted name of the param, without the names of the types that were tried."""
    head, *rest = problem["loc"] or ("params",)
    return ".".join(str(part) for part in (head, *rest) if part == head or not _is_type(part))


def reason(problems: Iterable[ErrorDetails]) -> str:
    """Return the reason why a param is invalid. A union has a problem for each of its types."""
    reasons = list(dict.fromkeys(map(_reason, problems)))
    if len(reasons) > 1 and all(text.startswith(_MUST_BE) for text in reasons):
        return _MUST_BE + " or ".join(text.removeprefix(_MUST_BE) for text in reasons)
    return reasons[0]


def _reason(problem: ErrorDetails) -> str:
    context: dict[str, Any] = problem.get("ctx", {})
    template = _REASONS.get(problem["type"])
    if template is not None:
        if context.get("min_length") == 1 or context.get("max_length") == 1:
            template = template.replace("characters", "character").replace("entries", "entry")
        try:
            return template.format_map(context)
        except KeyError:
            pass
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return message.replace("Input should be", "must be").replace("Input should", "must")


def _is_type(part: int | str) -> bool:
    """Return whether a part of a place names a type of a union, as `str` or `list[…]` do."""
    return isinstance(part, str) and (
        part in ("str", "int", "float", "bool", "none", "dict", "list")
        or "[" in part
        or part.startswith(("function-", "constrained-", "lax-or-strict", "json-or-python"))
    )
