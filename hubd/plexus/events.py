"""The events of the hub's own methods."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from hubd.activation.event import Event
from hubd.activation.handle import AnyHandle
from hubd.wire.summary import MARKS_KEYWORD, columns


class Hash(Event):
    """The hash of a namespace. Older clients need `event`."""

    event: str = "hash"
    value: str


class HandleOrigin(BaseModel, defer_build=True):
    """The owner of a handle."""

    plugin_id: str
    plugin: str
    method: str


class ResolvedHandle(Event, tag="resolved"):
    """The data of a handle."""

    handle: str
    kind: str
    data: dict[str, Any]
    origin: HandleOrigin
    summary: str
    text: str | None = Field(description="The data as text, if the call has a template or a style")


class UnresolvedHandle(Event, tag="unresolved"):
    """The error of one of several handles."""

    handle: str
    code: str
    message: str


class NamespaceInfo(Event, tag="activation"):
    """A namespace of the tree."""

    namespace: str
    version: str
    description: str
    plugin_id: str
    hash: str
    methods: list[str]
    children: list[str]


class BrokenPlugin(Event):
    """A plugin that failed, with the reason."""

    source: str
    reason: str


class NamespaceHash(Event, tag="hashes"):
    """The hashes of a namespace."""

    namespace: str
    hash: str
    self_hash: str
    children_hash: str | None


class Hit(Event, summary="{snippet}"):
    """A stored text with all words of a query."""

    model_config = ConfigDict(
        json_schema_extra=columns(
            created="{created_at}",
            session="{session}",
            text="{snippet}",
            role="{role}",
            tool="{tool}",
            kind="{kind}",
        )
    )

    handle: AnyHandle
    kind: str = Field(description="The kind of the data behind the handle")
    snippet: str = Field(
        description="The part of the text around the first match, in one line",
        json_schema_extra={MARKS_KEYWORD: "matches"},
    )
    session: str | None = Field(None, description="Name of the session that the text belongs to")
    created_at: int = Field(description="Unix seconds")
    score: float = Field(description="Rank: larger is better; 0 if the text was found by reading")
    role: str | None = None
    tool: str | None = Field(None, description="Name of the tool that was called")
    matches: list[tuple[int, int]] = Field(
        description="Places of the words in the snippet: first character, and the one after it"
    )


class Match(Event):
    """A method that matches a search."""

    model_config = ConfigDict(
        json_schema_extra=columns(method="{method}", description="{description}")
    )

    method: str
    description: str
    score: int
