"""What can be read by URI: handles, schemas, large results, and methods that are resources.

A method is one by its annotation: `mcp={"resource": {"tree": "tree_id"}}` on a method of `notes`
makes `plexus://notes/{tree}`, whose `tree` is the parameter `tree_id`.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Container, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
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
from hubd.mcp.access import Facts
from hubd.mcp.calls import ToolCalls
from hubd.mcp.results import Collected, read_events, result_uri, text_of
from hubd.mcp.spool import PAGE_BYTES, Spool
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
from hubd.wire.values import listed_values

log = logging.getLogger("hubd.transport")

# Of many trees, so many are listed; the others are found by completion, or by their ids.
MAX_LISTED: Final = 100
# What the protocol allows in one answer to a completion.
MAX_COMPLETED: Final = 100
# A method that needs longer to list its values has listed those it has.
LIST_SECONDS: Final = 5.0

# Before 2026-07-28 there was a code of its own for this.
NOT_FOUND_BEFORE: Final = -32002

NEXT_META: Final = "plexus/next"


@dataclass(frozen=True)
class Values:
    """Values for a variable of a template, as many as go into one answer."""

    first: list[str]
    # How many there are altogether, where that is known.
    total: int | None
    more: bool


class Resources:
    """The resources of the hub."""

    def __init__(self, hub: Hub, host: PlexusHost, calls: ToolCalls, spool: Spool) -> None:
        self._hub = hub
        self._host = host
        self._calls = calls
        self._spool = spool

    def templates(self, facts: Facts) -> list[ResourceTemplate]:
        """How the URIs look."""
        found = [entry.template for entry in self._method_resources(facts)]
        return sorted((*TEMPLATES, *found), key=lambda template: template.uri_template)

    async def listed(self, facts: Facts) -> list[Resource]:
        """Some that are there: every schema, and the first of each method that is a resource."""
        found = [
            Resource(
                uri=f"{SCHEME}{SCHEMA}/{node.path}",
                name=node.path,
                description=node.activation.description,
                mime_type="application/json",
            )
            for node in self._nodes(facts, "schema")
        ]
        # At once: one that is slow does not add to another.
        of_methods = await asyncio.gather(
            *(
                self._concrete(entry)
                for entry in self._method_resources(facts)
                if len(entry.variables) == 1
            )
        )
        return [*found, *chain.from_iterable(of_methods)]

    async def read(self, uri: str, facts: Facts) -> ReadResourceResult:
        """What is under a URI.

        Raises:
            NoSuchResource: Nothing is.
            HubError: It cannot be read.
        """
        kind, rest, query = split_uri(uri)
        if kind == HANDLE:
            handle = handle_in(uri)
            # Asked of its owner, so that a connection reads what it is offered.
            owner = self._hub.owner_of(handle)
            params = {"handle": str(handle)}
            return await self._read(uri, f"{owner.path}.resolve_handle", params, facts)
        if kind == SCHEMA:
            node = self._namespace(unquote(rest))
            return await self._read(uri, f"{node.path}.schema", {}, facts)
        if kind == RESULT:
            return await self._read_page(uri, unquote(rest), query)
        entry, params = self._method_resource(kind, rest, facts)
        return await self._read(uri, entry.path, params, facts)

    async def complete(self, template: str, variable: str, beginning: str, facts: Facts) -> Values:
        """Values for a variable of a template.

        Raises:
            NoSuchResource: There is no such template, or it has no such variable.
        """
        if template == TEMPLATES[0].uri_template and variable == "handle":
            values = [
                f"{handle['plugin']}@{handle['version']}::{handle['method']}"
                for node in self._nodes(facts, "resolve_handle")
                for handle in node.schema["handles"]
            ]
        elif template == TEMPLATES[1].uri_template and variable == "namespace":
            values = [node.path for node in self._nodes(facts, "schema")]
        elif template == TEMPLATES[2].uri_template and variable in ("id", "from"):
            values = []  # who has a right to a result has been given its id
        else:
            return await self._complete_method(template, variable, beginning, facts)
        fitting = [value for value in sorted(set(values)) if value.startswith(beginning)]
        more = len(fitting) > MAX_COMPLETED
        return Values(fitting[:MAX_COMPLETED], len(fitting), more)

    async def _complete_method(
        self, template: str, variable: str, beginning: str, facts: Facts
    ) -> Values:
        for entry in self._method_resources(facts):
            if entry.template.uri_template == template and variable in entry.variables:
                parameter = entry.variables[variable]
                # One more than fits tells whether there are more; nobody counts them all.
                found = await self._values(entry, parameter, beginning, MAX_COMPLETED + 1)
                more = len(found) > MAX_COMPLETED
                return Values(found[:MAX_COMPLETED], None if more else len(found), more)
        raise NoSuchResource(template)

    async def watch(self, uri: str) -> AsyncGenerator[None, None]:
        """Yield once when changes are noticed, then at each; ends at once for what never does."""
        facts = Facts.of_the_hub()
        try:
            kind, rest, _ = split_uri(uri)
            if kind in OWN:
                return
            entry, params = self._method_resource(kind, rest, facts)
        except NoSuchResource:
            return
        async with aclosing(plugin_changes(entry.node, entry.method["name"], params)) as changes:
            async for _ in changes:
                yield

    def listings(self) -> list[Listing]:
        """The lists of which concrete resources are listed."""
        found = []
        for entry in self._method_resources(Facts.of_the_hub()):
            for lister in map(entry.lister, entry.variables.values()):
                if lister is not None and len(entry.variables) == 1:
                    *namespace, by = lister.split(".")
                    with suppress(ActivationNotFound):
                        node = self._hub.find(namespace)
                        found.append(Listing(entry.node, entry.method["name"], node, by))
        return found

    def may_read(self, uri: str, facts: Facts) -> bool:
        """Whether a connection could read a URI, should something be there."""
        try:
            kind, rest, _ = split_uri(uri)
            if kind == HANDLE:
                owner = self._hub.owner_of(handle_in(uri))
                return facts.allows(owner.path, "resolve_handle")
            if kind == SCHEMA:
                # Also of a plugin that is gone; the hub's own name in front changes nothing.
                return facts.allows(unquote(rest).removeprefix(f"{self._hub.name}."), "schema")
            if kind != RESULT:
                self._method_resource(kind, rest, facts)
        except (NoSuchResource, HubError):
            return False
        return True

    def depends_on(self, uri: str, plugins: Container[str]) -> bool:
        """Whether a URI shows the tree of plugins, or is that of one of these."""
        kind = uri.removeprefix(SCHEME).partition("/")[0]
        return uri.startswith(SCHEME) and (kind == SCHEMA or kind in plugins)

    async def _read(
        self, uri: str, path: str, params: Mapping[str, Any], facts: Facts
    ) -> ReadResourceResult:
        collected = await self._calls.collect(path, params, facts)
        collected.close()
        if collected.error is not None:
            collected.discard()
            raise _error(collected)
        if collected.spooled is None:
            return _whole(uri, collected.inline)
        drawing = collected.lone_text
        if drawing is not None and len(drawing.encode()) <= PAGE_BYTES:
            collected.discard()
            return _contents(uri, drawing, "text/plain")
        text, end = await self._spool.read(collected.spooled.id, 0)
        if end is not None:
            return _contents(uri, text, "application/x-ndjson", collected.spooled.id, end)
        # More than a tool would show at once, but not more than goes into one answer here.
        collected.discard()
        return _whole(uri, text.encode().splitlines())

    async def _read_page(self, uri: str, result_id: str, query: str) -> ReadResourceResult:
        start = dict(parse_qsl(query)).get("from", "0")
        if not re.fullmatch(r"[0-9]{1,12}", start):
            raise NoSuchResource(uri)
        text, end = await self._spool.read(result_id, int(start))
        return _contents(uri, text, "application/x-ndjson", result_id, end)

    async def _concrete(self, entry: MethodResource) -> list[Resource]:
        """The first resources of a method."""
        [parameter] = entry.variables.values()
        return [
            Resource(
                uri=entry.uri(quote(value, safe="")),
                name=f"{entry.path} {value}",
                description=entry.method["description"],
            )
            for value in await self._values(entry, parameter, "", MAX_LISTED)
        ]

    def _namespace(self, path: str) -> Node:
        return self._hub.find(path.split("."))

    def _nodes(self, facts: Facts, method: str) -> list[Node]:
        return [node for node in self._hub.root.walk() if facts.allows(node.path, method)]

    def _method_resources(
        self, facts: Facts, of: Iterable[Node] | None = None
    ) -> list[MethodResource]:
        found = []
        for node in self._hub.root.walk() if of is None else of:
            for method in node.schema["methods"] if node.path not in OWN else ():
                variables = method.get("annotations", {}).get("mcp", {}).get("resource")
                if not isinstance(variables, dict) or not variables:
                    continue
                if facts.allows(node.path, method["name"]):
                    found.append(MethodResource(node, method, variables))
        return found

    def _method_resource(
        self, namespace: str, rest: str, facts: Facts
    ) -> tuple[MethodResource, dict[str, str]]:
        segments = [unquote(segment) for segment in rest.split("/")]
        with suppress(ActivationNotFound):
            for entry in self._method_resources(facts, [self._namespace(namespace)]):
                params = entry.params(segments)
                if params is not None and entry.node.path == namespace:
                    return entry, params
        raise NoSuchResource(namespace)

    async def _values(
        self, entry: MethodResource, parameter: str, beginning: str, limit: int
    ) -> list[str]:
        """The values of a parameter, as the method lists them that its annotation names."""
        lister = entry.lister(parameter)
        if lister is None:
            return []
        found: list[str] = []
        try:
            async with asyncio.timeout(LIST_SECONDS), self._host.call(lister) as events:
                async for event in events:
                    values = listed_values(parameter, event)
                    found += [value for value in values if value.startswith(beginning)]
                    if len(found) >= limit:
                        break
        except HubError as error:
            log.warning("%s does not list values for %s: %s", lister, entry.path, error.message)
        except TimeoutError:
            log.warning("%s took longer than %g s to list values", lister, LIST_SECONDS)
        return found[:limit]


def not_found(uri: str, message: str, *, modern: bool) -> MCPError:
    """The protocol's error for a URI under which there is nothing."""
    code = INVALID_PARAMS if modern else NOT_FOUND_BEFORE
    return MCPError(code, message, data={"uri": uri[:200]})


def _whole(uri: str, encoded: Sequence[bytes]) -> ReadResourceResult:
    events = read_events(encoded)
    text = text_of(events, encoded)
    # A lone text stands for itself, and is then not the JSON it came as.
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
