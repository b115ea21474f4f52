"""Validate JSON that is parsed already, by the rules of pydantic's strict JSON mode.

A message is parsed once, and its params are validated as the Python values that came out.
Pydantic has two strict modes: from JSON text a string is a valid UUID, from Python values only a
UUID is. This module changes a model's core schema so that both modes accept the same values. A
part of another type (a nested model, a date) is written as JSON again and validated from that
text.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import (
    PydanticSerializationError,
    SchemaValidator,
    core_schema,
    from_json,
    to_json,
)

from hubd.errors import InvalidParams

Node = Mapping[str, Any]

# Types for which both strict modes accept the same values of JSON.
_STRICT: Final = frozenset(("bool", "dict", "float", "int", "list", "str"))
_MODELESS: Final = frozenset(("any", "literal", "none"))
# Types for which the lax Python mode accepts, of all values of JSON, just those of JSON mode.
_LAX: Final = frozenset(("frozenset", "set", "tuple", "uuid"))
# Types around another type; the modes differ only in the inner one.
_WRAPPERS: Final = frozenset(
    (
        "chain",
        "default",
        "function-after",
        "function-before",
        "function-plain",
        "function-wrap",
        "nullable",
        "tagged-union",
        "typed-dict",
        "typed-dict-field",
        "union",
    )
)
# The keys of a node that hold other nodes: one, a list or a dictionary of them.
_INNER: Final = (
    "schema",
    "items_schema",
    "keys_schema",
    "values_schema",
    "extras_schema",
    "choices",
    "steps",
    "fields",
)


def to_json_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of a call inside this process as a client's parsed message has them.

    Raises:
        InvalidParams: A value has no JSON, such as a text with half a character.
    """
    try:
        values: dict[str, Any] = from_json(to_json(params))
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidParams(f"the params are not JSON: {error}") from None
    return values


@cache
def params_validator(model: type[BaseModel]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function that validates parsed params strictly and returns them by name.

    The function raises pydantic's `ValidationError`.
    """
    model.model_rebuild()
    schema = model.__pydantic_core_schema__
    if schema["type"] != "model" or schema["schema"]["type"] != "model-fields":
        # Validators of the whole model, or types that refer to themselves.
        return _validate_text(model)
    fields = dict(schema["schema"])
    fields["fields"] = {
        name: {**field, "schema": _from_python(field["schema"])}
        for name, field in fields["fields"].items()
    }
    validator = SchemaValidator(fields, schema.get("config"))

    def validate(params: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = validator.validate_python(params)[0]
        return values

    return validate


def _validate_text(model: type[BaseModel]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    def validate(params: Mapping[str, Any]) -> dict[str, Any]:
        validated = model.__pydantic_validator__.validate_json(to_json(params), strict=True)
        return {name: getattr(validated, name) for name in model.model_fields}

    return validate


def _from_python(node: Node) -> Any:
    """Return a schema that accepts the parsed values for which JSON mode accepts their text."""
    kind = node["type"]
    if kind == "json-or-python":
        return _from_python(node["json_schema"])
    if kind in _STRICT:
        node = {**node, "strict": True}
    elif kind not in _LAX | _MODELESS | _WRAPPERS:
        return _from_text(node)
    elif kind == "union" and not all(map(_is_same, _inner_nodes(node))):
        # A union prefers the type that fits most strictly, and the modes differ in that.
        return _from_text(node)
    return {name: _changed(value) if name in _INNER else value for name, value in node.items()}


def _is_same(node: Node) -> bool:
    """Return whether both strict modes treat every part of a schema alike."""
    return node["type"] in _STRICT | _MODELESS | _WRAPPERS and all(
        map(_is_same, _inner_nodes(node))
    )


def _inner_nodes(node: Node) -> list[Node]:
    nodes: list[Node] = []
    for name in _INNER:
        value = node.get(name, [])
        if isinstance(value, dict):
            nodes += [value] if _is_node(value) else value.values()
        else:
            nodes += [entry[0] if isinstance(entry, tuple) else entry for entry in value]
    return nodes


def _is_node(value: Mapping[str, Any]) -> bool:
    """Return whether a dictionary is one schema; else it maps names, such as `type`, to schemas."""
    return isinstance(value.get("type"), str)


def _changed(value: Any) -> Any:
    """Return the value of a key that holds schemas, with each schema changed."""
    if isinstance(value, list):
        return [
            (_from_python(entry[0]), entry[1]) if isinstance(entry, tuple) else _from_python(entry)
            for entry in value
        ]
    if not _is_node(value):
        return {name: _from_python(entry) for name, entry in value.items()}
    return _from_python(value)


def _from_text(node: Node) -> Any:
    """Return a schema that validates a value from its JSON text."""
    validator = SchemaValidator(node)
    return core_schema.no_info_plain_validator_function(
        lambda value: validator.validate_json(to_json(value), strict=True)
    )
