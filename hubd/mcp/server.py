"""The hub as an MCP server, on the official SDK's low-level server, for both protocol eras.

Importing this module imports the SDK, which takes most of a second, so on_demand.py does it for the
first client. Sockets belong to http.py and stdio.py.
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
from hubd.mcp.access import Access, McpOptions, offered
from hubd.mcp.caller import Ctx, access_of
from hubd.mcp.calls import ToolCalls
from hubd.mcp.changes import Changes, ChangeStream
from hubd.mcp.extensions import Extensions, ask_plugin, report_skipped
from hubd.mcp.pages import page_of
from hubd.mcp.prompts import Prompts
from hubd.mcp.registry import CallTool, Registry
from hubd.mcp.resources import Resources, not_found
from hubd.mcp.results import printable, readable
from hubd.mcp.sdk_private import http_handler
from hubd.mcp.spool import Spool
from hubd.mcp.tools import (
    HubTool,
    ToolList,
    all_methods,
    list_tools,
    no_such_tool,
    with_unlisted,
)
from hubd.mcp.transports.plain_calls import PlainCalls
from hubd.mcp.uris import NoSuchResource
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Change
from hubd.rpc.clients import Clients

log = logging.getLogger("hubd.transport")
# The SDK logs the id of every session.
logging.getLogger("mcp").setLevel(logging.WARNING)

# Sessions of the older protocol over HTTP. The SDK ends one that is idle for half an hour.
MAX_LEGACY_SESSIONS: Final = 512

INSTRUCTIONS: Final = """\
Every method of the hub is a tool named namespace{dot}method. {more}A text such as \
plugin@1.0.0::method:… is a handle: read the resource plexus://handle/<handle> for its data. \
If a result has truncated=true, read its resource for all events."""
# For clients that may use the hub's own tools.
MORE: Final = """\
{name}{dot}search finds stored texts by words, {name}{dot}methods finds methods, \
{name}{dot}activations lists the plugins, \
{name}{dot}resolve_handle returns the data behind handles. """


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
        self._tools_lock = asyncio.Lock()
        # The reports about methods that are not tools.
        self._reported: list[tuple[str, str]] = []
        self.server = _server(self, clients.hub.name)
        self.server_info: Mapping[str, Any] = self.server.server_info_stamp
        self.plain_calls = PlainCalls(self, self._calls)
        self.http_handler = http_handler(
            self.server, MAX_LEGACY_SESSIONS, clients.max_message_bytes
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until the block ends."""
        try:
            async with self.http_handler.run():
                try:
                    with self._hub.listening(self._changed):
                        self._sync_plugins()
                        yield
                finally:
                    self._changes.close()
                    self._calls.close()
        finally:
            self._spool.close()

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's arguments, for the SDK's check of headers."""
        tool = self._tools.find(name) if self._tools is not None else None
        if tool is not None:
            return tool.tool.input_schema
        return self._registry.tools[name][0].input_schema if name in self._registry.tools else None

    async def load_tools(self) -> None:
        """Update the tools before a call, because the SDK checks its headers first.

        If that fails, the call reports the error.
        """
        if self._tools_hash != self._hub.hash:
            with suppress(Exception):
                await self._current_tools()

    def plain_tool(self, name: str, access: Access) -> HubTool | None:
        """Implement `plain_calls.Source`."""
        tools = self._tools
        if tools is None or self._tools_hash != self._hub.hash:
            return None
        tool = tools.find(name)
        if tool is None or not offered(tool.namespace, access.profile):
            return None
        return None if tool.has_headers else tool

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams | None) -> ListToolsResult:
        """`tools/list`."""
        access, tools = access_of(ctx), await self._current_tools()
        listed = [tool for tool, _ in self._added_tools(tools, access).values()]
        listed += tools.offered_to(access)
        page, cursor = page_of(listed, "name", params)
        return ListToolsResult(tools=page, next_cursor=cursor)

    async def call_tool(
        self, ctx: Ctx, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """`tools/call`."""
        access, tools = access_of(ctx), await self._current_tools()
        added = self._added_tools(tools, access)
        if params.name in added:
            try:
                work = added[params.name][1](ctx, params)
                return await ask_plugin(f"the MCP tool {params.name}", work)
            except HubError as error:
                text = TextContent(text=f"{error.code}: {error.message}")
                return CallToolResult(content=[text], is_error=True)
        tool = tools.find(params.name)
        # A tool that is not granted is refused when it is called, with the reason.
        if tool is None or not offered(tool.namespace, access.profile):
            raise no_such_tool(
                params.name, [*added, *(one.name for one in tools.offered_to(access))]
            )
        if params.request_state is not None:
            return await self._calls.resume(ctx, params.request_state, params.input_responses)
        arguments = params.arguments or {}
        return await self._calls.call(ctx, tool, arguments, access)

    async def list_resources(
        self, ctx: Ctx, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """`resources/list`."""
        access = access_of(ctx)
        added = self._registry.resources.offered_to(access)
        listed = [resource for resource, _ in added.values()]
        listed += await self._resources.listed(access)
        page, cursor = page_of(listed, "uri", params)
        return ListResourcesResult(resources=page, next_cursor=cursor)

    async def list_templates(
        self, ctx: Ctx, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """`resources/templates/list`."""
        access = access_of(ctx)
        added = self._registry.templates.offered_to(access)
        listed = [template for template, _ in added.values()]
        listed += self._resources.templates(access)
        page, cursor = page_of(listed, "uri_template", params)
        return ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)

    async def read_resource(
        self, ctx: Ctx, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        """`resources/read`."""
        uri, access = str(params.uri), access_of(ctx)
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        try:
            if added := self._registry.reader(uri, access):
                read, values = added
                return await ask_plugin(f"the MCP resource {uri}", read(ctx, uri, values))
            return await self._resources.read(uri, access)
        except NoSuchResource:
            raise not_found(uri, "this URI has no resource", modern=modern) from None
        except HubError as error:
            if _is_request_error(error):
                raise not_found(uri, error.message, modern=modern) from error
            raise _protocol_error(error) from error

    def watch(self, uri: str) -> ChangeStream:
        """Implement `changes.Source`."""
        return self._resources.watch(uri)

    def may_read(self, uri: str, access: Access) -> bool:
        """Implement `changes.Source`."""
        if self._registry.reader(uri, access) is not None:
            return True
        return self._resources.may_read(uri, access)

    async def complete(self, ctx: Ctx, params: CompleteRequestParams) -> CompleteResult:
        """`completion/complete`."""
        ref, asked, access = params.ref, params.argument, access_of(ctx)
        added = self._registry.templates.offered_to(access)
        if not isinstance(ref, ResourceTemplateReference) or ref.uri in added:
            # Arguments of prompts are free texts.
            return CompleteResult(completion=Completion(values=[], total=0, has_more=False))
        try:
            values = await self._resources.complete(ref.uri, asked.name, asked.value, access)
        except NoSuchResource:
            raise MCPError(
                INVALID_PARAMS, "no resource template has this URI and this variable"
            ) from None
        return CompleteResult(
            completion=Completion(values=values.first, total=values.total, has_more=values.more)
        )

    async def list_prompts(
        self, ctx: Ctx, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """`prompts/list`."""
        access = access_of(ctx)
        added = self._registry.prompts.offered_to(access)
        listed = [prompt for prompt, _ in added.values()]
        listed += await self._prompts.listed(access)
        page, cursor = page_of(listed, "name", params)
        return ListPromptsResult(prompts=page, next_cursor=cursor)

    async def get_prompt(
        self, ctx: Ctx, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        """`prompts/get`."""
        access = access_of(ctx)
        added = self._registry.prompts.offered_to(access)
        try:
            if params.name in added:
                work = added[params.name][1](ctx, params)
                return await ask_plugin(f"the MCP prompt {params.name}", work)
            return await self._prompts.fill(params.name, params.arguments or {}, access)
        except HubError as error:
            raise _protocol_error(error) from error

    async def instruct(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """Middleware: name the hub's own tools only to clients that may use them."""
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            name, dot = self._hub.name, self._options.separator
            more = MORE.format(name=name, dot=dot) if access_of(ctx).allows(name, "search") else ""
            result["instructions"] = INSTRUCTIONS.format(more=more, dot=dot)
        return result

    async def _pass_on(self, method: str, ctx: Ctx, params: BaseModel) -> BaseModel:
        """Answer a request through the plugin that added it."""
        added = self._registry.requests.offered_to(access_of(ctx))
        if method not in added:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", data=method)
        try:
            return await ask_plugin(method, added[method][1](ctx, params))
        except HubError as error:
            raise _protocol_error(error) from error

    def _added_tools(self, tools: ToolList, access: Access) -> dict[str, tuple[Tool, CallTool]]:
        """Return the tools that plugins added; methods win if names collide."""
        added = self._registry.tools.offered_to(access)
        return {name: entry for name, entry in added.items() if tools.find(name) is None}

    async def _current_tools(self) -> ToolList:
        """Return the current tools, which are computed once for each state of the hub."""
        async with self._tools_lock:
            current_hash = self._hub.hash
            if self._tools is None or self._tools_hash != current_hash:
                methods = all_methods(self._hub)
                listed = await asyncio.to_thread(list_tools, methods, self._options.separator)
                tools = with_unlisted(listed, self._hub)
                hidden = [name for name in self._registry.tools if tools.find(name)]
                self._report(
                    [(f"{path} as an MCP tool", why) for path, why in tools.refused.items()]
                    + [
                        (f"the MCP tool {name}", "a method of the hub has this name")
                        for name in hidden
                    ]
                )
                self._tools, self._tools_hash = tools, current_hash
            return self._tools

    def _report(self, refused: list[tuple[str, str]]) -> None:
        """Report the methods that are not tools, and withdraw reports that no longer apply."""
        for entry in self._reported:
            if entry not in refused:
                self._hub.broken.remove(entry)
        for source, reason in refused:
            report_skipped(self._hub, source, reason)
        self._reported = refused

    def _sync_plugins(self) -> set[str]:
        """Follow attached and detached plugins; return the namespaces of both."""
        changed = self._extensions.update()
        for method, (params, _) in self._registry.requests.items():
            self.server.add_request_handler(method, params, partial(self._pass_on, method))
        self._changes.follow_lists(self._resources.listings())
        return changed

    def _changed(self, change: Change) -> None:
        # A plugin with many children causes many changes, but one notification.
        self._changes.prompts_changed()
        if change == "tree":
            self._changes.tools_changed()
            self._changes.resources_changed()
            try:
                changed = self._sync_plugins()
                for uri in self._changes.watched():
                    if self._resources.depends_on(uri, changed):
                        self._changes.watch_anew(uri)
            except Exception:
                # A plugin without a valid schema. The code that attached it detaches it again.
                log.exception("the MCP server cannot use a plugin")


class _Server(Server[dict[str, Any]]):
    """The SDK's server, which announces list changes to older clients too."""

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
    # The hub does not configure OpenTelemetry, so spans around requests would only take time.
    server.middleware.clear()
    server.middleware.append(_readable)
    server.middleware.append(hub.instruct)
    server.middleware.append(hub._changes.middleware)
    # Only the client that was asked may answer a question.
    sealed = RequestStateSecurity(keys=[secrets.token_bytes(32)], bind_principal=_actor_of)
    server.middleware.append(RequestStateBoundary(sealed, default_audience=name))
    return server


async def _readable(ctx: Ctx, call_next: CallNext) -> HandlerResult:
    """Middleware: replace lone surrogates, which would cost a client its connection."""
    try:
        return readable(await call_next(ctx))
    except MCPError as error:
        details = error.error
        details.message = printable(details.message)
        if details.data is not None:
            details.data = readable(details.data)
        raise


def _actor_of(ctx: Ctx) -> str:
    """Return the actor that a request is made for."""
    actor = access_of(ctx).client.actor
    return f"{actor.kind} {actor.id}"


def _is_request_error(error: HubError) -> bool:
    """Return whether the request is wrong: its target does not exist or is forbidden."""
    return error.exit_code in (2, 3, 4, 9) or isinstance(error, HandleNotSupported)


def _protocol_error(error: HubError) -> MCPError:
    code = INVALID_PARAMS if _is_request_error(error) else INTERNAL_ERROR
    return MCPError(code, error.message, data={"code": error.code, "hint": error.suggestion})
