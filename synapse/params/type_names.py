"""The types of parameters and events in words, for help."""

from __future__ import annotations

from synapse.params.schemas import Schemas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubd.wire.schema import JsonSchema


def type_name(schema: JsonSchema, root: JsonSchema) -> str:
    """Return the type of a parameter as help shows it."""
    schema = Schemas(root).resolve(schema)
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    union = schema.get("anyOf") or schema.get("oneOf")
    if union:
        names = [type_name(entry, root) for entry in union]
        return "|".join(name for name in dict.fromkeys(names) if name != "null") or "null"
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        return f"{type_name(items, root) if isinstance(items, dict) else 'value'}…"
    if schema.get("format") and kind == "string":
        return str(schema["format"]).replace("plexus-handle", "handle")
    return {"string": "text", None: "value"}.get(kind, str(kind))


def returns_name(returns: JsonSchema) -> str:
    """Return the types of the events, separated by `|`."""
    tags = [tag for tag, _ in events(returns)]
    return " | ".join(tags) or "object"


def events(returns: JsonSchema) -> list[tuple[str, JsonSchema]]:
    """Return the events of a method: their types and their schemas."""
    tagged = []
    for entry in returns.get("oneOf") or returns.get("anyOf") or [returns]:
        schema = Schemas(returns).resolve(entry)
        tag = schema.get("properties", {}).get("type", {}).get("const")
        if tag:
            tagged.append((str(tag), schema))
    return tagged


def field_type(schema: JsonSchema, root: JsonSchema) -> str:
    """Return the type of a field, with `?` if it may be null."""
    schema = Schemas(root).resolve(schema)
    union = schema.get("anyOf") or schema.get("oneOf")
    if union:
        names = [field_type(entry, root) for entry in union]
        plain = "|".join(name for name in dict.fromkeys(names) if name != "null")
        return f"{plain}?" if "null" in names else plain
    if schema.get("format") == "plexus-handle":
        return "handle"
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        return f"[{field_type(schema['items'], root)}]"
    return str(schema.get("const") or schema.get("type") or "value")
