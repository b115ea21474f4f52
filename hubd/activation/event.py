"""Events: the results of a method. Pydantic models with a `type` tag from the class name."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from hubd.activation.declaration.class_checks import check_arguments, name_of
from hubd.activation.handle import check_kind
from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.summary import SUMMARY_KEYWORD, field_names
from hubd.wire.text import did_you_mean

_WORD_START: Final = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Event(BaseModel):
    """One result of a method. `OutputLine` has the tag `"output_line"` on the wire.

    Class arguments: `tag` replaces the tag made from the class name; `summary` is a template
    of one line over the fields, such as `"{tool_name}: {status}"`. The schema carries the
    template, and clients use it where they show an event in one line. `kind` is for the events of
    a resolver: the kind of this data, if it is not the kind of its handle type.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        # Most events are never sent by this process.
        defer_build=True,
        # A field with a default is always sent, so the schema requires it.
        json_schema_serialization_defaults_required=True,
    )

    type: str = ""

    tag: ClassVar[str] = ""

    # The template of `summary`. If it is empty, clients show the field that holds the text.
    summary_template: ClassVar[str] = ""

    # The kind of this data behind a handle. If it is empty, the handle type's kind applies.
    resolved_kind: ClassVar[str] = ""

    def __init_subclass__(
        cls,
        *,
        tag: str | None = None,
        summary: str | None = None,
        kind: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Give the subclass its `type` field before pydantic collects the fields."""
        check_arguments(name_of(cls), kwargs, ("tag", "summary", "kind"))
        super().__init_subclass__(**kwargs)
        for name in ("tag", "type"):
            if name in cls.__annotations__:
                raise TypeError(
                    f"{name_of(cls)}: an event cannot have a field named '{name}'; rename it"
                )
        cls.tag = tag or _WORD_START.sub("_", cls.__name__).lower()
        cls.__annotations__ = {"type": Literal[cls.tag], **cls.__annotations__}
        cls.type = cls.tag
        if summary is not None:
            cls.summary_template = summary
        if kind is not None:
            check_kind(name_of(cls), kind)
            cls.resolved_kind = kind

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Check that the summary uses only fields of the event, which exist only now."""
        if not cls.summary_template:
            return
        try:
            names, _ = field_names(cls.summary_template)
        except ValueError as error:
            raise TypeError(f"{name_of(cls)}: the summary is not a template: {error}") from None
        if not names:
            raise TypeError(
                f"{name_of(cls)}: the summary {cls.summary_template!r} names no field; write a "
                "field's name in braces, such as {text}"
            )
        if unknown := sorted(names - cls.model_fields.keys()):
            fields = list(cls.model_fields)
            hint = did_you_mean(unknown[0], fields) or f"There are: {', '.join(fields)}"
            raise TypeError(
                f"{name_of(cls)}: the summary uses {unknown[0]!r}, which is not a field. {hint}"
            )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema with the template of the summary."""
        described = handler.resolve_ref_schema(handler(schema))
        if cls.summary_template:
            described[SUMMARY_KEYWORD] = cls.summary_template
        return described


class Encoded:
    """An event that is JSON text already. The hub sends it without parsing it.

    For data that is stored as JSON, and for the hub's own schemas. The hub does not check the
    text against the declared types of events.
    """

    __slots__ = ("fields", "json")

    def __init__(self, json: bytes, fields: Mapping[str, Any] | None = None) -> None:
        """Take the text.

        Args:
            json: The event.
            fields: For a resolver: the fields of the event that the summary of the handle type
                uses. Without them, the hub parses the text.
        """
        # A line end separates messages on the Unix socket. In JSON it is only white space.
        self.json = json.replace(b"\n", b" ").replace(b"\r", b" ")
        self.fields = fields
