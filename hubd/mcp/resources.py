"""Resources: handles, schemas, large results, and methods that are declared as resources.

`mcp={"resource": {"tree": "tree_id"}}` on a method of `notes` declares the resource template
`plexus://notes/{tree}`; its variable `tree` is the parameter `tree_id`.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Container, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import chain
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from hubd.errors import ActivationNotFound, HubError, by_code
from hubd.mcp.access import Access
from hubd.mcp.calls import ToolCalls
from hubd.mcp.results import Collected, read_events, result_uri, text_of
from hubd.mcp.spool import PAGE_BYTES, Spool
from hubd.mcp.tools import namespaces_on_request
from hubd.mcp.uris import (
    HANDLE,
    OWN,
    RESULT,
    SCHEMA,
    SCHEME,
    TEMPLATES,
    Listing,
    MethodResource,
    NoSuchResource,
    handle_in,
    plugin_changes,
    split_uri,
)
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub, Node
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.values import listed_values

log = logging.getLogger("hubd.transport")

# The most resources listed for one method; completion offers more.
MAX_LISTED: Final = 100
# The most values that the protocol allows in one completion.
MAX_COMPLETED: Final = 100
# Seconds that a method has to list its values; later ones are dropped.
LIST_SECONDS: Final = 5.0

# The error code of protocols before 2026-07-28.
NOT_FOUND_BEFORE: Final = -32002

NEXT_META: Final = "plexus/next"


@dataclass(frozen=True)
class Values:
    """Completions of a variable, as many as fit into one answer."""

    first: list[str]
    # The number of all values, if known.
    total: int | None
    more: bool


class Resources:
    """The resources of the hub."""

    def __init__(self, hub: Hub, host: PlexusHost, calls: ToolCalls, spool: Spool) -> None:
        self._hub = hub
        self._host = host
        self._calls = calls
        self._spool = spool

    def templates(self, access: Access) -> list[ResourceTemplate]:
        """Return the templates of all resources."""
        of_methods = [entry.template for entry in self._listed_methods(access)]
        return sorted((*TEMPLATES, *of_methods), key=lambda template: template.uri_template)

    async def listed(self, access: Access) -> list[Resource]:
        """Return the schema of each namespace, and the first resources of each method."""
        on_request = namespaces_on_request(self._hub)
        schemas = [
            Resource(
                uri=f"{SCHEME}{SCHEMA}/{node.path}",
                name=node.path,
                description=node.activation.description,
                mime_type="application/json",
            )
            for node in self._nodes(access, "schema")
            if access.lists(node.path, on_request)
        ]
        # At once, so that slow methods do not add up.
        of_methods = await asyncio.gather(
            *(
                self._concrete(entry, access)
                for entry in self._listed_methods(access)
                if len(entry.variables) == 1
            )
        )
        return [*schemas, *chain.from_iterable(of_methods)]

    async def read(self, uri: str, access: Access) -> ReadResourceResult:
        """Return the contents of a resource.

        Raises:
            NoSuchResource: The URI has no resource.
            HubError: The resource cannot be read.
        """
        kind, rest, query = split_uri(uri)
        if kind == HANDLE:
            handle = handle_in(uri)
            # Through its owner, because the owner's namespace decides about access.
            owner = self._hub.owner_of(handle)
            params = {"handle": str(handle)}
            return await self._read(uri, f"{owner.path}.resolve_handle", params, access)
        if kind == SCHEMA:
            node = self._namespace(unquote(rest))
            return await self._read(uri, f"{node.path}.schema", {}, access)
        if kind == RESULT:
            return await self._read_page(uri, unquote(rest), query)
        entry, params = self._method_resource(kind, rest, access)
        return await self._read(uri, entry.path, params, access)

    async def complete(
        self, template: str, variable: str, beginning: str, access: Access
    ) -> Values:
        """Return the values of a template's variable that start with a text.

        Raises:
            NoSuchResource: The template or its variable does not exist.
        """
        if template == TEMPLATES[0].uri_template and variable == "handle":
            values = [
                f"{handle['plugin']}@{handle['version']}::{handle['method']}"
                for node in self._nodes(access, "resolve_handle")
                for handle in node.schema["handles"]
            ]
        elif template == TEMPLATES[1].uri_template and variable == "namespace":
            values = [node.path for node in self._nodes(access, "schema")]
        elif template == TEMPLATES[2].uri_template and variable in ("id", "from"):
            values = []  # the id of a result is a secret of its caller
        else:
            return await self._complete_method(template, variable, beginning, access)
        fitting = [value for value in sorted(set(values)) if value.startswith(beginning)]
        more = len(fitting) > MAX_COMPLETED
        return Values(fitting[:MAX_COMPLETED], len(fitting), more)

    async def _complete_method(
        self, template: str, variable: str, beginning: str, access: Access
    ) -> Values:
        for entry in self._method_resources(access):
            if entry.template.uri_template == template and variable in entry.variables:
                parameter = entry.variables[variable]
                # One more than fits shows whether there are more.
                values = await self._values(entry, parameter, beginning, MAX_COMPLETED + 1, access)
                more = len(values) > MAX_COMPLETED
                return Values(values[:MAX_COMPLETED], None if more else len(values), more)
        raise NoSuchResource(template)

    async def watch(self, uri: str) -> AsyncGenerator[None, None]:
        """Yield once when watching begins, then at each change; end if it never changes."""
        access = Access.for_hub()
        try:
            kind, rest, _ = split_uri(uri)
            if kind in OWN:
                return
            entry, params = self._method_resource(kind, rest, access)
        except NoSuchResource:
            return
        async with aclosing(plugin_changes(entry.node, entry.method["name"], params)) as changes:
            async for _ in changes:
                yield

    def listings(self) -> list[Listing]:
        """Return the methods that list resources."""
        listings = []
        for entry in self._method_resources(Access.for_hub()):
            for lister in map(entry.lister, entry.variables.values()):
                if lister is not None and len(entry.variables) == 1:
                    *namespace, by = lister.split(".")
                    with suppress(ActivationNotFound):
                        node = self._hub.find(namespace)
                        listings.append(Listing(entry.node, entry.method["name"], node, by))
        return listings

    def may_read(self, uri: str, access: Access) -> bool:
        """Return whether a connection may read a URI, whether or not it has a resource."""
        try:
            kind, rest, _ = split_uri(uri)
            if kind == HANDLE:
                owner = self._hub.owner_of(handle_in(uri))
                return access.allows(owner.path, "resolve_handle")
            if kind == SCHEMA:
                # Also for a detached plugin. The hub's own name may precede the namespace.
                return access.allows(unquote(rest).removeprefix(f"{self._hub.name}."), "schema")
            if kind != RESULT:
                self._method_resource(kind, rest, access)
        except (NoSuchResource, HubError):
            return False
        return True

    def depends_on(self, uri: str, plugins: Container[str]) -> bool:
        """Return whether a resource is a schema, or belongs to one of these plugins."""
        kind = uri.removeprefix(SCHEME).partition("/")[0]
        return uri.startswith(SCHEME) and (kind == SCHEMA or kind in plugins)

    async def _read(
        self, uri: str, path: str, params: Mapping[str, Any], access: Access
    ) -> ReadResourceResult:
        collected = await self._calls.collect(path, params, access)
        collected.close()
        if collected.error is not None:
            collected.discard()
            raise _error(collected)
        if collected.spooled is None:
            return _whole(uri, collected.inline)
        lone = collected.lone_text
        if lone is not None and len(lone.encode()) <= PAGE_BYTES:
            collected.discard()
            return _contents(uri, lone, "text/plain")
        text, end = await self._spool.read(collected.spooled.id, 0)
        if end is not None:
            return _contents(uri, text, "application/x-ndjson", collected.spooled.id, end)
        # It exceeds the limit of a tool's result, but fits into one page.
        collected.discard()
        return _whole(uri, text.encode().splitlines())

    async def _read_page(self, uri: str, result_id: str, query: str) -> ReadResourceResult:
        start = dict(parse_qsl(query)).get("from", "0")
        if not re.fullmatch(r"[0-9]{1,12}", start):
            raise NoSuchResource(uri)
        text, end = await self._spool.read(result_id, int(start))
        return _contents(uri, text, "application/x-ndjson", result_id, end)

    async def _concrete(self, entry: MethodResource, access: Access) -> list[Resource]:
        """Return the first resources of a method."""
        [parameter] = entry.variables.values()
        return [
            Resource(
                uri=entry.uri(quote(value, safe="")),
                name=f"{entry.path} {value}",
                description=entry.method["description"],
            )
            for value in await self._values(entry, parameter, "", MAX_LISTED, access)
        ]

    def _namespace(self, path: str) -> Node:
        return self._hub.find(path.split("."))

    def _nodes(self, access: Access, method: str) -> list[Node]:
        return [node for node in self._hub.root.walk() if access.allows(node.path, method)]

    def _method_resources(
        self, access: Access, of: Iterable[Node] | None = None
    ) -> list[MethodResource]:
        resources = []
        for node in self._hub.root.walk() if of is None else of:
            for method in node.schema["methods"] if node.path not in OWN else ():
                variables = method.get("annotations", {}).get("mcp", {}).get("resource")
                if not isinstance(variables, dict) or not variables:
                    continue
                if access.allows(node.path, method["name"]):
                    resources.append(MethodResource(node, method, variables))
        return resources

    def _listed_methods(self, access: Access) -> list[MethodResource]:
        """Return the method resources that lists show."""
        on_request = namespaces_on_request(self._hub)
        entries = self._method_resources(access)
        return [entry for entry in entries if access.lists(entry.node.path, on_request)]

    def _method_resource(
        self, namespace: str, rest: str, access: Access
    ) -> tuple[MethodResource, dict[str, str]]:
        segments = [unquote(segment) for segment in rest.split("/")]
        with suppress(ActivationNotFound):
            for entry in self._method_resources(access, [self._namespace(namespace)]):
                params = entry.params(segments)
                if params is not None and entry.node.path == namespace:
                    return entry, params
        raise NoSuchResource(namespace)

    async def _values(
        self, entry: MethodResource, parameter: str, beginning: str, limit: int, access: Access
    ) -> list[str]:
        """Return the values of a parameter from the method that its annotation names."""
        lister = entry.lister(parameter)
        if lister is None:
            return []
        namespace, _, name = lister.rpartition(".")
        if not access.client.actor.is_granted(namespace, name):
            return []
        listed: list[str] = []
        try:
            async with asyncio.timeout(LIST_SECONDS), self._host.call(lister) as events:
                async for event in events:
                    values = listed_values(parameter, event)
                    listed += [value for value in values if value.startswith(beginning)]
                    if len(listed) >= limit:
                        break
        except HubError as error:
            log.warning("%s failed to list values for %s: %s", lister, entry.path, error.message)
        except TimeoutError:
            log.warning("%s took longer than %g s to list values", lister, LIST_SECONDS)
        return listed[:limit]


def not_found(uri: str, message: str, *, modern: bool) -> MCPError:
    """Return the protocol's error for a URI without a resource."""
    code = INVALID_PARAMS if modern else NOT_FOUND_BEFORE
    return MCPError(code, message, data={"uri": uri[:200]})


def _whole(uri: str, encoded: Sequence[bytes]) -> ReadResourceResult:
    events = read_events(encoded)
    text = text_of(events, encoded)
    # The text of a single event is sent instead of its JSON.
    plain = len(events) == 1 and text != encoded[0].decode()
    return _contents(uri, text, "text/plain" if plain else "application/json")


def _contents(
    uri: str, text: str, mime_type: str, result_id: str = "", end: int | None = None
) -> ReadResourceResult:
    meta = {NEXT_META: result_uri(result_id, end)} if end is not None else None
    return ReadResourceResult(
        contents=[TextResourceContents(uri=uri, text=text, mime_type=mime_type, _meta=meta)],
        ttl_ms=0,
        cache_scope="private",
    )


def _error(collected: Collected) -> HubError:
    assert collected.error is not None
    advice = collected.advice[-1] if collected.advice else None
    return by_code(
        collected.error.code,
        collected.error.message,
        suggestion=advice.suggestion if advice else "",
        available=advice.available if advice else (),
    )
