"""The URIs of resources: their templates, and the methods that they read."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import unquote

from mcp_types import ResourceTemplate

from hubd.mcp.access import Access
from hubd.plexus.hub import Node
from hubd.wire.handle import InvalidHandle, WireHandle, parse
from hubd.wire.lazy_dataclass import dataclass
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
        description="The data behind a handle of any plugin",
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
        description="The events of a result that was too large for one answer, one per line",
        mime_type="application/x-ndjson",
    ),
)


@dataclass(frozen=True)
class MethodResource:
    """A method that is declared as a resource."""

    node: Node
    method: MethodSchema
    # The variables of the URI in order, each with its parameter.
    variables: Mapping[str, str]

    @property
    def path(self) -> str:
        """The path of the method."""
        return f"{self.node.path}.{self.method['name']}"

    @property
    def template(self) -> ResourceTemplate:
        """The template of its URIs."""
        return ResourceTemplate(
            uri_template=self.uri(*(f"{{{name}}}" for name in self.variables)),
            name=self.path,
            description=self.method["description"],
        )

    def uri(self, *values: str) -> str:
        """Return the URI with these values."""
        return f"{SCHEME}{self.node.path}/{'/'.join(values)}"

    def lister(self, parameter: str) -> str | None:
        """Return the method that lists the values of a parameter."""
        lister: str | None = self.method.get("annotations", {}).get("completes", {}).get(parameter)
        return lister

    def params(self, segments: list[str]) -> dict[str, str] | None:
        """Return the params in a URI; None if the number of segments differs."""
        if len(segments) != len(self.variables):
            return None
        return dict(zip(self.variables.values(), segments, strict=True))


@dataclass(frozen=True)
class Listing:
    """A method that lists the resources of another method."""

    node: Node
    method: str
    lister: Node
    # The name of the listing method.
    by: str

    @property
    def path(self) -> str:
        """The path of the listing method."""
        return f"{self.lister.path}.{self.by}"

    def concerns(self, access: Access) -> bool:
        """Return whether a connection sees these resources."""
        return access.allows(self.node.path, self.method)

    def watch(self) -> AsyncGenerator[None, None]:
        """Yield once when watching begins, then at each change."""
        return plugin_changes(self.lister, self.by, {})


class NoSuchResource(Exception):
    """The URI has no resource."""


async def plugin_changes(
    node: Node, method: str, params: Mapping[str, Any]
) -> AsyncGenerator[None, None]:
    """Yield the changes that the plugin reports."""
    changes = node.activation.changes(method, params)
    assert isinstance(changes, AsyncGenerator)
    async with aclosing(changes):
        async for _ in changes:
            yield


def split_uri(uri: str) -> tuple[str, str, str]:
    """Return the kind, the path and the query of a URI."""
    if not uri.startswith(SCHEME) or len(uri) > MAX_URI:
        raise NoSuchResource(uri)
    kind, slash, rest = uri.removeprefix(SCHEME).partition("/")
    rest, _, query = rest.partition("?")
    if not slash or not rest:
        raise NoSuchResource(uri)
    return kind, rest, query


def handle_in(uri: str) -> WireHandle:
    """Return the handle in a URI, which may be percent-encoded."""
    text = uri.removeprefix(f"{SCHEME}{HANDLE}/")
    try:
        return parse(text)
    except InvalidHandle:
        pass
    try:
        return parse(unquote(text, errors="strict"))
    except (InvalidHandle, UnicodeDecodeError):
        raise NoSuchResource(uri) from None
