"""The URIs of resources: how they look, and which methods are behind them."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from mcp_types import ResourceTemplate

from hubd.mcp.access import Facts
from hubd.plexus.hub import Node
from hubd.wire.handle import InvalidHandle, WireHandle, parse
from hubd.wire.schema import MethodSchema

SCHEME: Final = "plexus://"
# Longer than any handle with every character escaped.
MAX_URI: Final = 16 * 1024

HANDLE: Final = "handle"
SCHEMA: Final = "schema"
RESULT: Final = "result"
OWN: Final = (HANDLE, SCHEMA, RESULT)

TEMPLATES: Final = (
    ResourceTemplate(
        uri_template=f"{SCHEME}{HANDLE}/{{+handle}}",
        name="handle",
        description="What a handle points at, whichever plugin owns it",
        mime_type="application/json",
    ),
    ResourceTemplate(
        uri_template=f"{SCHEME}{SCHEMA}/{{namespace}}",
        name="schema",
        description="The methods, handle types and children of one namespace",
        mime_type="application/json",
    ),
    ResourceTemplate(
        uri_template=f"{SCHEME}{RESULT}/{{id}}{{?from}}",
        name="result",
        description="The events of a result that was too large to be sent at once, one a line",
        mime_type="application/x-ndjson",
    ),
)


@dataclass(frozen=True)
class MethodResource:
    """A method that is a resource."""

    node: Node
    method: MethodSchema
    # The variables of the URI in order, each with the parameter it is.
    variables: Mapping[str, str]

    @property
    def path(self) -> str:
        """The path of the method."""
        return f"{self.node.path}.{self.method['name']}"

    @property
    def template(self) -> ResourceTemplate:
        """How its URIs look."""
        return ResourceTemplate(
            uri_template=self.uri(*(f"{{{name}}}" for name in self.variables)),
            name=self.path,
            description=self.method["description"],
        )

    def uri(self, *values: str) -> str:
        """The URI with these values."""
        return f"{SCHEME}{self.node.path}/{'/'.join(values)}"

    def lister(self, parameter: str) -> str | None:
        """The method that lists the values of a parameter."""
        lister: str | None = self.method.get("annotations", {}).get("completes", {}).get(parameter)
        return lister

    def params(self, segments: list[str]) -> dict[str, str] | None:
        """The params that a URI stands for; None if it has another number of segments."""
        if len(segments) != len(self.variables):
            return None
        return dict(zip(self.variables.values(), segments, strict=True))


@dataclass(frozen=True)
class Listing:
    """The list of concrete resources of one method, as another method gives it."""

    node: Node
    method: str
    lister: Node
    # The method that lists.
    by: str

    @property
    def path(self) -> str:
        """The path of the method that lists."""
        return f"{self.lister.path}.{self.by}"

    def concerns(self, facts: Facts) -> bool:
        """Whether it is part of what a connection is shown."""
        return facts.allows(self.node.path, self.method)

    def watch(self) -> AsyncGenerator[None, None]:
        """Yield once when changes are noticed, then at each."""
        return plugin_changes(self.lister, self.by, {})


class NoSuchResource(Exception):
    """Nothing can be read under this URI."""


async def plugin_changes(
    node: Node, method: str, params: Mapping[str, Any]
) -> AsyncGenerator[None, None]:
    """As the plugin notices them."""
    changes = node.activation.changes(method, params)
    assert isinstance(changes, AsyncGenerator)
    async with aclosing(changes):
        async for _ in changes:
            yield


def split_uri(uri: str) -> tuple[str, str, str]:
    """The kind, the path and the query of a URI."""
    if not uri.startswith(SCHEME) or len(uri) > MAX_URI:
        raise NoSuchResource(uri)
    kind, slash, rest = uri.removeprefix(SCHEME).partition("/")
    rest, _, query = rest.partition("?")
    if not slash or not rest:
        raise NoSuchResource(uri)
    return kind, rest, query


def handle_in(uri: str) -> WireHandle:
    """The handle of a URI: as it is, or with all its special characters escaped."""
    text = uri.removeprefix(f"{SCHEME}{HANDLE}/")
    try:
        return parse(text)
    except InvalidHandle:
        pass
    try:
        return parse(unquote(text, errors="strict"))
    except (InvalidHandle, UnicodeDecodeError):
        raise NoSuchResource(uri) from None
