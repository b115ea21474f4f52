"""Read JSON Schema as pydantic emits it: references, variants of unions, parts of objects."""

from synapse.errors import UsageError
from synapse.params.values import brief, spelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubd.wire.schema import JsonSchema

# The most references in a row; a schema with more refers to itself.
MAX_REFERENCES = 32


class Schemas:
    """A JSON Schema together with its definitions."""

    def __init__(self, schema: "JsonSchema") -> None:
        self.root = schema
        self.properties: dict[str, JsonSchema] = schema.get("properties", {})

    def resolve(self, schema: "JsonSchema") -> "JsonSchema":
        """Return the schema that a reference leads to.

        Raises:
            UsageError: The references never end.
        """
        for _ in range(MAX_REFERENCES):
            reference = schema.get("$ref")
            if isinstance(reference, str):
                target = self.root
                for part in reference.removeprefix("#/").split("/"):
                    target = target[part]
                rest = {name: value for name, value in schema.items() if name != "$ref"}
                schema = {**target, **rest}
            elif len(schema.get("allOf", ())) == 1:
                rest = {name: value for name, value in schema.items() if name != "allOf"}
                schema = {**schema["allOf"][0], **rest}
            else:
                return schema
        raise UsageError("the schema refers to itself without end")

    def variants(self, schema: "JsonSchema") -> "list[JsonSchema]":
        """Return the alternatives of a schema, with all unions resolved."""
        schema = self.resolve(schema)
        union = schema.get("anyOf") or schema.get("oneOf")
        if union:
            return [flat for entry in union for flat in self.variants(entry)]
        kind = schema.get("type")
        if isinstance(kind, list):
            return [{**schema, "type": entry} for entry in kind]
        return [schema] if kind is not None else by_type(schema)

    def discriminator(self, schema: "JsonSchema") -> str:
        """Return the property that selects the variant of a union; empty for other schemas."""
        schema = self.resolve(schema)
        if "discriminator" in schema:
            return str(schema["discriminator"]["propertyName"])
        for entry in schema.get("anyOf", []):
            if tag := self.discriminator(entry):
                return tag
        return ""

    def tagged(
        self, where: str, tag: str, value: str | None, variants: "list[JsonSchema]"
    ) -> "list[JsonSchema]":
        """Return the variants with a value of their discriminator.

        Raises:
            UsageError: No variant has it.
        """
        chosen: list[JsonSchema] = []
        tags: list[str] = []
        for entry in variants:
            field = self.resolve(entry.get("properties", {}).get(tag, {}))
            names = list(map(spelled, allowed_values(field) or []))
            tags += names
            if value in names:
                chosen.append(entry)
        if chosen:
            return chosen
        names_of_all = ", ".join(dict.fromkeys(tags))
        if value is None:
            raise UsageError(f"{where}.{tag} is missing; it must be one of {names_of_all}")
        raise UsageError(f"{where}.{tag} must be one of {names_of_all}, not {brief(value)}")

    def part(self, variant: "JsonSchema", path: str) -> "tuple[str, str, JsonSchema] | None":
        """Return the first part of a dotted name, the rest of the name, and the part's schema.

        The result is None if the schema has no such part.
        """
        if not may_be_object(variant):
            return None
        properties: dict[str, JsonSchema] = variant.get("properties", {})
        head, _, rest = path.partition(".")
        for candidate, remainder in ((path, ""), (head, rest)):
            same = [name for name in properties if fold(name) == fold(candidate)]
            if same:
                name = candidate if candidate in same else same[0]
                return name, remainder, properties[name]
        more = other_parts(variant)
        if more is None:
            return None
        # If the values can't be objects, a dot belongs to the key.
        if any(map(may_be_object, self.variants(more))):
            return head, rest, more
        return path, "", more

    def ends(self, schema: "JsonSchema", path: str) -> "list[JsonSchema]":
        """Return the schemas that a dotted name may lead to."""
        if not path:
            return self.variants(schema)
        parts = (self.part(variant, path) for variant in self.variants(schema))
        return [end for part in parts if part for end in self.ends(part[2], part[1])]


def one_of(schema: "JsonSchema") -> list[str]:
    """Return the parameters of which one is required; empty without such a rule."""
    choices = schema.get("oneOf") or schema.get("anyOf") or []
    rules = [entry.get("required", []) for entry in choices]
    return [names[0] for names in rules] if all(len(names) == 1 for names in rules) else []


def dashed(name: str) -> str:
    """Return a parameter's name as its flag has it, with dashes."""
    return name.replace("_", "-")


def fold(name: str) -> str:
    """Return a name in the form that is equal for dashes and underscores."""
    return name.replace("-", "_")


def allowed_values(schema: "JsonSchema") -> "list[Any] | None":
    """Return the values that a schema lists; None if it lists none."""
    values: list[Any] | None = schema.get("enum")
    return [schema["const"]] if values is None and "const" in schema else values


def by_type(schema: "JsonSchema") -> "list[JsonSchema]":
    """Return a schema without a type once for each type of its values or parts."""
    values = allowed_values(schema)
    if values is None:
        return [{**schema, "type": "object"} if "properties" in schema else schema]
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    grouped: dict[str | None, list[Any]] = {}
    for value in values:
        grouped.setdefault(names.get(type(value)), []).append(value)
    return [{**schema, "type": kind, "enum": same} for kind, same in grouped.items()]


def other_parts(schema: "JsonSchema") -> "JsonSchema | None":
    """Return the schema of an object's other keys; None if no other keys are allowed."""
    patterns = schema.get("patternProperties", {})
    otherwise = next(iter(patterns.values()), not schema.get("properties"))
    more = schema.get("additionalProperties", otherwise)
    return more if isinstance(more, dict) else ({} if more else None)


def is_any_text(schema: "JsonSchema") -> bool:
    """Return whether a schema allows every text."""
    return schema.get("type") == "string" and allowed_values(schema) is None


def is_handle(schema: "JsonSchema") -> bool:
    """Return whether a schema is that of a handle."""
    return schema.get("type") == "string" and schema.get("format") == "plexus-handle"


def is_reference(schema: "JsonSchema") -> bool:
    """Return whether a text is a handle, an id or a name, by its format or pattern."""
    return schema.get("format") in ("plexus-handle", "uuid") or "pattern" in schema


def may_be_object(schema: "JsonSchema") -> bool:
    """Return whether a schema allows objects."""
    return schema.get("type") == "object" or (
        schema.get("type") is None and allowed_values(schema) is None
    )


def kind_name(schema: "JsonSchema") -> str:
    """Return the type of a schema in words."""
    names = {
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "string": "a text",
        "array": "an array",
        "object": "an object",
        "null": "null",
    }
    return names.get(str(schema.get("type")), "one of the allowed values")
