"""The hub as an MCP server, on the official SDK's low-level server, for both protocol eras.

Importing this imports the SDK, which takes most of a second: only on_demand.py does, when the
first client is there. Knows nothing of sockets; http.py and stdio.py do.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from mcp.server import NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceTemplateReference,
    TextContent,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from hubd import __version__
from hubd.errors import HandleNotSupported, HubError
from hubd.mcp.access import Facts, McpOptions
from hubd.mcp.caller import Ctx, facts_of
from hubd.mcp.calls import ToolCalls
from hubd.mcp.changes import Changes, Noticed
from hubd.mcp.extensions import Extensions, tell_of
from hubd.mcp.pages import page_of
from hubd.mcp.plugin_hooks import ask_plugin
from hubd.mcp.prompts import Prompts
from hubd.mcp.registry import CallTool, Registry
from hubd.mcp.resources import Resources, not_found
from hubd.mcp.results import printable, readable
from hubd.mcp.spool import Spool
from hubd.mcp.tools import ToolList, all_methods, list_tools, no_such_tool, with_unlisted
from hubd.mcp.transports.legacy_sessions import Sessions
from hubd.mcp.uris import NoSuchResource
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Change
from hubd.plexus.large import Source
from hubd.rpc.clients import Clients

log = logging.getLogger("hubd.transport")
# The SDK reports every session with its id.
logging.getLogger("mcp").setLevel(logging.WARNING)

INSTRUCTIONS: Final = """\
Every method of the hub is a tool named namespace{dot}method. {more}A text such as \
plugin@1.0.0::method:… is a handle: the resource plexus://handle/<handle> is what it points at. \
A result with truncated=true can be read whole under its resource."""
# For those who are offered the hub's own tools.
MORE: Final = """\
{name}{dot}search finds methods by words, {name}{dot}activations lists what there is, \
{name}{dot}resolve_handle tells what handles point at. """


class HubMcp:
    """The MCP server of one hub. Serves while `running` is entered."""

    def __init__(
        self, clients: Clients, host: PlexusHost, options: McpOptions, results: Path
    ) -> None:
        self._hub = clients.hub
        self._options = options
        self._spool = Spool(results)
        self._calls = ToolCalls(clients, self._spool)
        self._resources = Resources(clients.hub, host, self._calls, self._spool)
        self._prompts = Prompts(clients.hub)
        self._changes = Changes(self)
        self._registry = Registry(self._changes)
        self._extensions = Extensions(clients.hub, self._registry)
        self._tools: ToolList | None = None
        self._tools_hash = ""
        self._making_tools = asyncio.Lock()
        # What was left out of the tools, as the hub tells of it.
        self._reported: list[tuple[str, str]] = []
        self.server = _server(self, clients.hub.name)
        self.sessions = Sessions(self.server, clients.max_message_bytes)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve for as long as the block lasts."""
        try:
            async with self.sessions.run():
                try:
                    with self._hub.listening(self._changed):
                        self._look_around()
                        yield
                finally:
                    self._changes.close()
                    self._calls.close()
        finally:
            self._spool.close()

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The schema of a tool's arguments, for the SDK's check of headers."""
        tool = self._tools.find(name) if self._tools is not None else None
        if tool is not None:
            return tool.tool.input_schema
        return self._registry.tools[name][0].input_schema if name in self._registry.tools else None

    async def know_tools(self) -> None:
        """Know the tools of the hub as it is now; before a call, whose headers are checked first.

        Should they not be known the call says why.
        """
        with suppress(Exception):
            await self._current_tools()

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams | None) -> ListToolsResult:
        """`tools/list`."""
        facts, tools = facts_of(ctx), await self._current_tools()
        found = [tool for tool, _ in self._added_tools(tools, facts).values()]
        found += tools.offered_to(facts)
        page, cursor = page_of(found, "name", params)
        return ListToolsResult(tools=page, next_cursor=cursor)

    async def call_tool(
        self, ctx: Ctx, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """`tools/call`."""
        facts, tools = facts_of(ctx), await self._current_tools()
        added = self._added_tools(tools, facts)
        if params.name in added:
            try:
                work = added[params.name][1](ctx, params)
                return await ask_plugin(f"the MCP tool {params.name}", work)
            except HubError as error:
                text = TextContent(text=f"{error.code}: {error.message}")
                return CallToolResult(content=[text], is_error=True)
        tool = tools.find(params.name)
        if tool is None or not facts.allows(tool.namespace, tool.method):
            raise no_such_tool(
                params.name, [*added, *(one.name for one in tools.offered_to(facts))]
            )
        if params.request_state is not None:
            return await self._calls.resume(ctx, params.request_state, params.input_responses)
        arguments = params.arguments or {}
        source = Source(facts.text, ("params", "arguments")) if facts.text and arguments else None
        return await self._calls.call(ctx, tool, arguments, facts, source)

    async def list_resources(
        self, ctx: Ctx, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """`resources/list`."""
        facts = facts_of(ctx)
        added = self._registry.resources.offered_to(facts)
        found = [resource for resource, _ in added.values()]
        found += await self._resources.listed(facts)
        page, cursor = page_of(found, "uri", params)
        return ListResourcesResult(resources=page, next_cursor=cursor)

    async def list_templates(
        self, ctx: Ctx, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """`resources/templates/list`."""
        facts = facts_of(ctx)
        added = self._registry.templates.offered_to(facts)
        found = [template for template, _ in added.values()]
        found += self._resources.templates(facts)
        page, cursor = page_of(found, "uri_template", params)
        return ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)

    async def read_resource(
        self, ctx: Ctx, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        """`resources/read`."""
        uri, facts = str(params.uri), facts_of(ctx)
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        try:
            if added := self._registry.reader(uri, facts):
                read, values = added
                return await ask_plugin(f"the MCP resource {uri}", read(ctx, uri, values))
            return await self._resources.read(uri, facts)
        except NoSuchResource:
            raise not_found(uri, "there is no such resource", modern=modern) from None
        except HubError as error:
            if _is_the_callers(error):
                raise not_found(uri, error.message, modern=modern) from error
            raise _protocol_error(error) from error

    def watch(self, uri: str) -> Noticed:
        """As `mcp_changes.Source`."""
        return self._resources.watch(uri)

    def may_read(self, uri: str, facts: Facts) -> bool:
        """As `mcp_changes.Source`."""
        if self._registry.reader(uri, facts) is not None:
            return True
        return self._resources.may_read(uri, facts)

    async def complete(self, ctx: Ctx, params: CompleteRequestParams) -> CompleteResult:
        """`completion/complete`."""
        ref, asked, facts = params.ref, params.argument, facts_of(ctx)
        added = self._registry.templates.offered_to(facts)
        if not isinstance(ref, ResourceTemplateReference) or ref.uri in added:
            # Nobody but a person knows what goes into the blanks of a prompt.
            return CompleteResult(completion=Completion(values=[], total=0, has_more=False))
        try:
            found = await self._resources.complete(ref.uri, asked.name, asked.value, facts)
        except NoSuchResource:
            raise MCPError(INVALID_PARAMS, "no such template, or variable") from None
        return CompleteResult(
            completion=Completion(values=found.first, total=found.total, has_more=found.more)
        )

    async def list_prompts(
        self, ctx: Ctx, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """`prompts/list`."""
        facts = facts_of(ctx)
        added = self._registry.prompts.offered_to(facts)
        found = [prompt for prompt, _ in added.values()]
        found += await self._prompts.listed(facts)
        page, cursor = page_of(found, "name", params)
        return ListPromptsResult(prompts=page, next_cursor=cursor)

    async def get_prompt(
        self, ctx: Ctx, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        """`prompts/get`."""
        facts = facts_of(ctx)
        added = self._registry.prompts.offered_to(facts)
        try:
            if params.name in added:
                work = added[params.name][1](ctx, params)
                return await ask_plugin(f"the MCP prompt {params.name}", work)
            return await self._prompts.fill(params.name, params.arguments or {}, facts)
        except HubError as error:
            raise _protocol_error(error) from error

    async def instruct(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """Middleware: name no tools to whoever is not offered them."""
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            name, dot = self._hub.name, self._options.separator
            more = MORE.format(name=name, dot=dot) if facts_of(ctx).allows(name, "search") else ""
            result["instructions"] = INSTRUCTIONS.format(more=more, dot=dot)
        return result

    async def _pass_on(self, method: str, ctx: Ctx, params: BaseModel) -> BaseModel:
        """A request that a plugin answers."""
        added = self._registry.requests.offered_to(facts_of(ctx))
        if method not in added:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", data=method)
        try:
            return await ask_plugin(method, added[method][1](ctx, params))
        except HubError as error:
            raise _protocol_error(error) from error

    def _added_tools(self, tools: ToolList, facts: Facts) -> dict[str, tuple[Tool, CallTool]]:
        """What plugins added; but nothing takes the place of a method."""
        added = self._registry.tools.offered_to(facts)
        return {name: entry for name, entry in added.items() if tools.find(name) is None}

    async def _current_tools(self) -> ToolList:
        """The tools of the hub as it is now, made once for each of its states."""
        async with self._making_tools:
            wanted = self._hub.hash
            if self._tools is None or self._tools_hash != wanted:
                methods = all_methods(self._hub)
                made = await asyncio.to_thread(list_tools, methods, self._options.separator)
                made = with_unlisted(made, self._hub)
                hidden = [name for name in self._registry.tools if made.find(name)]
                self._report(
                    [(f"{path} as an MCP tool", why) for path, why in made.refused.items()]
                    + [
                        (f"the MCP tool {name}", "a method of the hub has this name")
                        for name in hidden
                    ]
                )
                self._tools, self._tools_hash = made, wanted
            return self._tools

    def _report(self, refused: list[tuple[str, str]]) -> None:
        """Tell of each method that is no tool, for as long as it is there."""
        for entry in self._reported:
            if entry not in refused:
                self._hub.broken.remove(entry)
        for source, reason in refused:
            tell_of(self._hub, source, reason)
        self._reported = refused

    def _look_around(self) -> set[str]:
        """Look who came and who went; the namespaces of both."""
        moved = self._extensions.update()
        for method, (params, _) in self._registry.requests.items():
            self.server.add_request_handler(method, params, partial(self._pass_on, method))
        self._changes.follow_lists(self._resources.listings())
        return moved

    def _changed(self, change: Change) -> None:
        # A plugin with many children comes as many changes; clients are told once of all.
        self._changes.prompts_changed()
        if change == "tree":
            self._changes.tools_changed()
            self._changes.resources_changed()
            try:
                moved = self._look_around()
                for uri in self._changes.watched():
                    if self._resources.depends_on(uri, moved):
                        self._changes.watch_anew(uri)
            except Exception:
                # A plugin that cannot be described; who attached it takes it out again.
                log.exception("the MCP server cannot make use of a plugin")


class _Server(Server[dict[str, Any]]):
    """The SDK's server, which announces changes of its lists to older clients too."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        return super().create_initialization_options(
            notification_options or NotificationOptions(True, True, True),
            experimental_capabilities,
            extensions,
        )


def _server(hub: HubMcp, name: str) -> Server[dict[str, Any]]:
    server = _Server(
        name,
        version=__version__,
        title="hubd",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=hub.input_schema,
        on_list_tools=hub.list_tools,
        on_call_tool=hub.call_tool,
        on_list_resources=hub.list_resources,
        on_list_resource_templates=hub.list_templates,
        on_read_resource=hub.read_resource,
        on_subscribe_resource=hub._changes.subscribe,
        on_unsubscribe_resource=hub._changes.unsubscribe,
        on_subscriptions_listen=hub._changes.listen,
        on_list_prompts=hub.list_prompts,
        on_get_prompt=hub.get_prompt,
        on_completion=hub.complete,
    )
    server.middleware.append(_readable)
    server.middleware.append(hub.instruct)
    server.middleware.append(hub._changes.middleware)
    # What was asked of one session is not answered by another.
    sealed = RequestStateSecurity(keys=[secrets.token_bytes(32)], bind_principal=_session_of)
    server.middleware.append(RequestStateBoundary(sealed, default_audience=name))
    return server


async def _readable(ctx: Ctx, call_next: CallNext) -> HandlerResult:
    """Let nothing out that is no text: half a character costs a client its connection."""
    try:
        return readable(await call_next(ctx))
    except MCPError as error:
        said = error.error
        said.message = printable(said.message)
        if said.data is not None:
            said.data = readable(said.data)
        raise


def _session_of(ctx: Ctx) -> str | None:
    """For which session a request speaks, if it says so."""
    return facts_of(ctx).client.session_token


def _is_the_callers(error: HubError) -> bool:
    """Whether the request is to blame: it names what is not there, or not for this connection."""
    return error.exit_code in (2, 3, 4, 9) or isinstance(error, HandleNotSupported)


def _protocol_error(error: HubError) -> MCPError:
    code = INVALID_PARAMS if _is_the_callers(error) else INTERNAL_ERROR
    return MCPError(code, error.message, data={"code": error.code, "hint": error.suggestion})
