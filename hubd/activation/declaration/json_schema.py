"""The JSON Schemas of params and events. Pure functions."""

from functools import cache
from typing import Annotated, Any, Union

from pydantic import BaseModel, Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from hubd.activation.event import Encoded
from hubd.activation.handle import HANDLE_SCHEMA
from hubd.wire.schema import JsonSchema


@cache
def events_schema(events: tuple[type, ...]) -> JsonSchema:
    """Return the JSON Schema of a union of events. Cached, because methods share events."""
    models = tuple(event for event in events if event is not Encoded)
    if not models:
        return {"type": "object"}
    if len(models) == 1:
        return json_schema(models[0], "serialization")
    union: Any = Union[models]  # noqa: UP007 -- made at run time
    return json_schema(Annotated[union, Field(discriminator="type")], "serialization")


def json_schema(annotation: Any, mode: JsonSchemaMode) -> JsonSchema:
    """Return the JSON Schema of a type, without titles that repeat the names of fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.model_json_schema(mode=mode, schema_generator=_Untitled)
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    return adapter.json_schema(mode=mode, schema_generator=_Untitled)


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> JsonSchema:
        generated = super().generate(schema, mode)
        definitions = generated.get("$defs", {})
        for model in (generated, *definitions.values()):
            model.pop("title", None)
        # A handle is a plain string, so its schema replaces the references to it.
        handles = {name for name, model in definitions.items() if model == HANDLE_SCHEMA}
        inlined: JsonSchema = _inline(generated, {f"#/$defs/{name}" for name in handles})
        for name in handles:
            del inlined["$defs"][name]
        if "$defs" in inlined and not inlined["$defs"]:
            del inlined["$defs"]
        return inlined


def _inline(part: Any, references: set[str]) -> Any:
    """Return the schema with the schema of handles in place of these references."""
    if isinstance(part, list):
        return [_inline(entry, references) for entry in part]
    if not isinstance(part, dict):
        return part
    if part.get("$ref") in references:
        rest = {name: value for name, value in part.items() if name != "$ref"}
        return {**HANDLE_SCHEMA, **rest}
    return {name: _inline(value, references) for name, value in part.items()}
