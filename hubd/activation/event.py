"""Events: what a method yields. Pydantic models whose `type` tag comes from the class name."""

import re
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict

_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Event(BaseModel):
    """One thing that a method says. `OutputLine` is tagged `"output_line"` on the wire.

    Class argument `tag`: another tag than the one made from the class name.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        # Most events are never sent by this process.
        defer_build=True,
        # What has a default is always there when it is sent, and the schema says so.
        json_schema_serialization_defaults_required=True,
    )

    type: str = ""

    tag: ClassVar[str] = ""

    def __init_subclass__(cls, *, tag: str | None = None, **kwargs: Any) -> None:
        """Give the subclass its `type` field before pydantic collects the fields."""
        super().__init_subclass__(**kwargs)
        if "tag" in cls.__annotations__:
            raise TypeError(f"{cls.__qualname__}: an event cannot have a field named 'tag'")
        cls.tag = tag or _WORD_START.sub("_", cls.__name__).lower()
        cls.__annotations__ = {"type": Literal[cls.tag], **cls.__annotations__}
        cls.type = cls.tag


class Encoded:
    """An event that is JSON text already; it is passed on as it is, without being parsed.

    For data that was stored as JSON and for the hub's own schemas. The author answers for its
    shape.
    """

    __slots__ = ("json",)

    def __init__(self, json: bytes) -> None:
        self.json = json
