"""Check params against their schema before they are sent: types, names and allowed values."""

from synapse.errors import UsageError, suggestion
from synapse.params.schemas import allowed_values, dashed, is_handle, kind_name, one_of
from synapse.params.values import brief, is_kind, printable, spelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubd.wire.schema import JsonSchema
    from synapse.params.schemas import Schemas


def check_params(schemas: "Schemas", params: "dict[str, Any]") -> None:
    """Check all params of a method.

    Raises:
        UsageError: A parameter is missing, unknown, or of the wrong type.
    """
    missing = [name for name in schemas.root.get("required", []) if name not in params]
    if missing:
        flags = [f"--{dashed(name)}" for name in missing]
        names = " and ".join(filter(None, (", ".join(flags[:-1]), flags[-1])))
        raise UsageError(f"missing {names}", show_usage=True)
    choice = one_of(schemas.root)
    if choice and not any(params.get(name) is not None for name in choice):
        flags = [f"--{dashed(name)}" for name in choice]
        raise UsageError(f"missing {' or '.join(flags)}", show_usage=True)
    unknown = [name for name in params if name not in schemas.properties]
    if unknown and schemas.root.get("additionalProperties") is False:
        raise UsageError(
            f"unknown parameter {unknown[0]!r} in --params",
            hint=suggestion(unknown[0], list(schemas.properties)),
        )
    for name, value in params.items():
        if name in schemas.properties:
            check(schemas, f"--{dashed(name)}", value, schemas.properties[name])


def check(schemas: "Schemas", where: str, value: "Any", schema: "JsonSchema") -> None:
    """Check a value against a schema that may be a union.

    Raises:
        UsageError: The value fits none of its variants.
    """
    variants = schemas.variants(schema)
    tag = schemas.discriminator(schema) if isinstance(value, dict) and len(variants) > 1 else ""
    if tag:
        text = spelled(value[tag]) if tag in value else None
        variants = schemas.tagged(where, tag, text, variants)
    problem: UsageError | None = None
    for variant in variants:
        try:
            check_variant(schemas, where, value, variant)
        except UsageError as error:
            # The message of the variant with the right type is the most helpful one.
            if problem is None or is_kind(value, variant.get("type")):
                problem = error
        else:
            return
    if problem is not None:
        raise problem


def check_variant(schemas: "Schemas", where: str, value: "Any", schema: "JsonSchema") -> None:
    """Check a value against a schema that is not a union.

    Raises:
        UsageError: The value does not fit.
    """
    kind = schema.get("type")
    allowed = allowed_values(schema)
    if allowed is not None and not any(_is_same(value, entry) for entry in allowed):
        choices = ", ".join(map(spelled, allowed))
        raise UsageError(f"{where} must be one of {choices}, not {brief(value)}")
    if is_handle(schema) and isinstance(value, dict):
        return  # The hub accepts handles as objects, too.
    if kind is not None and not is_kind(value, kind):
        raise UsageError(f"{where} must be {kind_name(schema)}, not {brief(value)}")
    if isinstance(value, list):
        fixed = schema.get("prefixItems", [])
        items = schema.get("items", {})
        for number, entry in enumerate(value):
            below = fixed[number] if number < len(fixed) else items
            if isinstance(below, dict):
                check(schemas, f"{where}[{number}]", entry, below)
    elif isinstance(value, dict):
        _check_object(schemas, where, value, schema)


def _check_object(
    schemas: "Schemas", where: str, value: "dict[str, Any]", schema: "JsonSchema"
) -> None:
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            raise UsageError(f"missing parameter {where}.{name}")
    for name, entry in value.items():
        part = f"{where}.{printable(name)}"
        below = properties.get(name, schema.get("additionalProperties", {}))
        if below is False:
            raise UsageError(f"unknown parameter {part}", hint=suggestion(name, list(properties)))
        if isinstance(below, dict):
            check(schemas, part, entry, below)


def _is_same(one: "Any", other: "Any") -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)
