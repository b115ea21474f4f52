"""Guess the parameters of an example from their schema, as the user types them."""

from __future__ import annotations

from hubd.wire.lazy_pattern import lazy_pattern
from synapse.params.schemas import Schemas, dashed, one_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubd.wire.schema import JsonSchema

# The placeholder of a handle.
HANDLE = "plugin@1.0.0::method"
# Sample texts, in the order in which an example uses them.
TEXTS = ("hello", "world", "again")
# The greatest depth; a schema may contain itself.
MAX_DEPTH = 8

# An example in the description of a parameter.
_SUCH_AS = lazy_pattern(r"\b(?:such as|for example) `([^`\s]+)`")
_UUID = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UUID_LENGTH = 36
_FORMATS = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "uri": "http://localhost/",
    "plexus-handle": HANDLE,
}


class NoExample(Exception):
    """A value can't be guessed."""


def is_id(name: str) -> bool:
    """Return whether a parameter is an id."""
    return name == "id" or name.endswith("_id")


def needed(params: JsonSchema) -> list[str]:
    """Return the parameters of an example: the required ones, and the first of a choice."""
    return [*params.get("required", []), *one_of(params)[:1]]


def arguments(params: JsonSchema, existing: dict[str, str] | None = None) -> str | None:
    """Return the parameters of an example; None if a value can't be guessed.

    Args:
        params: The JSON Schema of the method's params.
        existing: Shell words for the values that exist in the hub, by parameter.
    """
    schemas = Schemas(params)
    existing = existing or {}
    words: list[str] = []
    used = set(existing.values())
    try:
        for name in needed(params):
            flag = f"--{dashed(name)}"
            if name in existing:
                words += [flag, existing[name]]
                continue
            value = _value(params["properties"].get(name, {}), schemas, 0)
            if isinstance(value, str) and (is_id(name) or _is_uuid(value)):
                raise NoExample  # Only the hub creates ids.
            if value in TEXTS:
                # Two names in one example differ.
                value = next((text for text in TEXTS if text not in used), value)
                used.add(value)
            words += _spelled(flag, value)
    except NoExample:
        return None
    return "".join(f" {word}" for word in words)


def _is_uuid(text: str) -> bool:
    return len(text) == UUID_LENGTH and _UUID.fullmatch(text) is not None


def _spelled(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    if isinstance(value, list):
        return [word for entry in value for word in (flag, _text(entry))]
    return [flag, _text(value)]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        import json

        value = json.dumps(value)
    text: str = value
    if text.isascii() and text.replace("_", "").isalnum():
        return text
    from shlex import quote

    return quote(text)


def _value(schema: JsonSchema, schemas: Schemas, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise NoExample
    if schema.get("examples"):
        return schema["examples"][0]
    schema = next(
        (entry for entry in schemas.variants(schema) if entry.get("type") != "null"), schema
    )
    for keyword in ("default", "const"):
        if schema.get(keyword) is not None:
            return schema[keyword]
    if schema.get("examples"):
        return schema["examples"][0]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "boolean":
        return True
    if kind == "array":
        return _array(schema, schemas, depth)
    if kind == "object":
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        return {name: _value(properties.get(name, {}), schemas, depth + 1) for name in required}
    return _string(schema)


def _number(schema: JsonSchema) -> Any:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", low + 2) - 1)
    step = schema.get("multipleOf")
    for candidate in (1, low, high, (low + high) / 2, step):
        if candidate is None or (schema["type"] == "integer" and candidate != int(candidate)):
            continue
        if (
            schema.get("minimum", candidate) <= candidate <= schema.get("maximum", candidate)
            and candidate > schema.get("exclusiveMinimum", candidate - 1)
            and candidate < schema.get("exclusiveMaximum", candidate + 1)
            and (step is None or candidate % step == 0)
        ):
            return int(candidate) if schema["type"] == "integer" else candidate
    raise NoExample


def _array(schema: JsonSchema, schemas: Schemas, depth: int) -> list[Any]:
    fixed = [_value(entry, schemas, depth + 1) for entry in schema.get("prefixItems", [])]
    if fixed:
        return fixed
    items = schema.get("items")
    one = _value(items, schemas, depth + 1) if isinstance(items, dict) else "hello"
    return [one] * max(1, schema.get("minItems", 1))


def _string(schema: JsonSchema) -> str:
    description = schema.get("description", "")
    # A match needs a backtick. Without one, `re` is not imported.
    if "`" in description and (given := _SUCH_AS.search(description)):
        return given[1]
    if "pattern" in schema or schema.get("format") == "uuid":
        raise NoExample
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    shortest, longest = int(schema.get("minLength", 0)), int(schema.get("maxLength", 5))
    return ("hello" * (shortest // 5 + 1))[: max(shortest, min(longest, 5), 1)]
