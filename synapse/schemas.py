"""What a JSON Schema allows: its references and variants, and whether a value fits.

As much of JSON Schema as pydantic emits. Knows no command line but for the names in refusals.
"""

from __future__ import annotations

from synapse.errors import UsageError, did_you_mean
from synapse.values import brief, is_kind, printable, spelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Schema = dict[str, Any]

# References that lead to references; a schema that needs more is broken.
MAX_REFERENCES = 32


class Schemas:
    """The schema of a method's params, and all that it refers to."""

    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self.properties: dict[str, Schema] = schema.get("properties", {})

    def check_all(self, params: dict[str, Any]) -> None:
        """Refuse what the hub would refuse, as far as types and names go."""
        missing = [name for name in self._root.get("required", []) if name not in params]
        if missing:
            flags = [f"--{shown(name)}" for name in missing]
            names = " and ".join(filter(None, (", ".join(flags[:-1]), flags[-1])))
            raise UsageError(f"missing {names}", show_usage=True)
        choice = one_of(self._root)
        if choice and not any(params.get(name) is not None for name in choice):
            flags = [f"--{shown(name)}" for name in choice]
            raise UsageError(f"missing {' or '.join(flags)}", show_usage=True)
        unknown = [name for name in params if name not in self.properties]
        if unknown and self._root.get("additionalProperties") is False:
            raise UsageError(
                f"unknown parameter {unknown[0]!r} in --params",
                hint=did_you_mean(unknown[0], list(self.properties)),
            )
        for name, value in params.items():
            if name in self.properties:
                self._check(f"--{shown(name)}", value, self.properties[name])

    def _check(self, where: str, value: Any, schema: Schema) -> None:
        variants = self.variants(schema)
        tag = self._discriminator(schema) if isinstance(value, dict) and len(variants) > 1 else ""
        if tag:
            given = spelled(value[tag]) if tag in value else None
            variants = self._tagged(where, tag, given, variants)
        problem: UsageError | None = None
        for variant in variants:
            try:
                self._check_one(where, value, variant)
            except UsageError as error:
                # The variant of the right type knows best what is wrong.
                if problem is None or is_kind(value, variant.get("type")):
                    problem = error
            else:
                return
        if problem is not None:
            raise problem

    def _check_one(self, where: str, value: Any, schema: Schema) -> None:
        kind = schema.get("type")
        allowed = allowed_values(schema)
        if allowed is not None and not any(is_same(value, entry) for entry in allowed):
            choices = ", ".join(map(spelled, allowed))
            raise UsageError(f"{where} must be one of {choices}, not {brief(value)}")
        if is_handle(schema) and isinstance(value, dict):
            return  # the object forms of a handle, which the hub reads as well
        if kind is not None and not is_kind(value, kind):
            raise UsageError(f"{where} must be {kind_name(schema)}, not {brief(value)}")
        if isinstance(value, list):
            fixed = schema.get("prefixItems", [])
            items = schema.get("items", {})
            for number, entry in enumerate(value):
                below = fixed[number] if number < len(fixed) else items
                if isinstance(below, dict):
                    self._check(f"{where}[{number}]", entry, below)
        elif isinstance(value, dict):
            self._check_object(where, value, schema)

    def _check_object(self, where: str, value: dict[str, Any], schema: Schema) -> None:
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                raise UsageError(f"missing parameter {where}.{name}")
        for name, entry in value.items():
            part = f"{where}.{printable(name)}"
            below = properties.get(name, schema.get("additionalProperties", {}))
            if below is False:
                raise UsageError(
                    f"unknown parameter {part}", hint=did_you_mean(name, list(properties))
                )
            if isinstance(below, dict):
                self._check(part, entry, below)

    def resolve(self, schema: Schema) -> Schema:
        for _ in range(MAX_REFERENCES):
            reference = schema.get("$ref")
            if isinstance(reference, str):
                target = self._root
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

    def variants(self, schema: Schema) -> list[Schema]:
        """The schemas, none of them a union, of which one must fit."""
        schema = self.resolve(schema)
        union = schema.get("anyOf") or schema.get("oneOf")
        if union:
            return [flat for entry in union for flat in self.variants(entry)]
        kind = schema.get("type")
        if isinstance(kind, list):
            return [{**schema, "type": entry} for entry in kind]
        return [schema] if kind is not None else by_type(schema)

    def _discriminator(self, schema: Schema) -> str:
        schema = self.resolve(schema)
        if "discriminator" in schema:
            return str(schema["discriminator"]["propertyName"])
        for entry in schema.get("anyOf", []):
            if tag := self._discriminator(entry):
                return tag
        return ""

    def _tagged(
        self, where: str, tag: str, given: str | None, objects: list[Schema]
    ) -> list[Schema]:
        """Those variants of a union whose discriminator has this value."""
        chosen: list[Schema] = []
        tags: list[str] = []
        for entry in objects:
            field = self.resolve(entry.get("properties", {}).get(tag, {}))
            names = list(map(spelled, allowed_values(field) or []))
            tags += names
            if given in names:
                chosen.append(entry)
        if chosen:
            return chosen
        names_of_all = ", ".join(dict.fromkeys(tags))
        if given is None:
            raise UsageError(f"{where}.{tag} must say which: {names_of_all}")
        raise UsageError(f"{where}.{tag} must be one of {names_of_all}, not {brief(given)}")


def one_of(schema: Schema) -> list[str]:
    """Return the parameters of which exactly one must be given; none if there is no such rule."""
    rules = [entry.get("required", []) for entry in schema.get("oneOf", [])]
    return [names[0] for names in rules] if all(len(names) == 1 for names in rules) else []


def shown(name: str) -> str:
    """A parameter's name as a flag shows it."""
    return name.replace("_", "-")


def fold(name: str) -> str:
    return name.replace("-", "_")


def allowed_values(schema: Schema) -> list[Any] | None:
    """The values that a schema lists, if it lists any."""
    values: list[Any] | None = schema.get("enum")
    return [schema["const"]] if values is None and "const" in schema else values


def by_type(schema: Schema) -> list[Schema]:
    """A schema without a type, once for each type it implies by its values or parts."""
    values = allowed_values(schema)
    if values is None:
        return [{**schema, "type": "object"} if "properties" in schema else schema]
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    grouped: dict[str | None, list[Any]] = {}
    for value in values:
        grouped.setdefault(names.get(type(value)), []).append(value)
    return [{**schema, "type": kind, "enum": same} for kind, same in grouped.items()]


def other_parts(schema: Schema) -> Schema | None:
    """The schema of the keys that an object does not name; None if it may have no others."""
    patterns = schema.get("patternProperties", {})
    otherwise = next(iter(patterns.values()), not schema.get("properties"))
    more = schema.get("additionalProperties", otherwise)
    return more if isinstance(more, dict) else ({} if more else None)


def is_any_text(schema: Schema) -> bool:
    return schema.get("type") == "string" and allowed_values(schema) is None


def is_handle(schema: Schema) -> bool:
    return schema.get("type") == "string" and schema.get("format") == "plexus-handle"


def is_reference(schema: Schema) -> bool:
    """Whether a string is a handle, an id or a name, as its format or pattern says."""
    return schema.get("format") in ("plexus-handle", "uuid") or "pattern" in schema


def may_be_object(schema: Schema) -> bool:
    return schema.get("type") == "object" or (
        schema.get("type") is None and allowed_values(schema) is None
    )


def is_same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def kind_name(schema: Schema) -> str:
    names = {
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "string": "a text",
        "array": "an array",
        "object": "an object",
        "null": "null",
    }
    return names.get(str(schema.get("type")), "one of the values allowed")
