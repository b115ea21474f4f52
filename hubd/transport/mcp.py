"""The hub as an MCP server, on the official SDK's low-level server, for both protocol eras.

Importing this imports the SDK, which takes most of a second: only mcp_lazy.py does, when the
first client is there. Knows nothing of sockets; mcp_http.py and mcp_stdio.py do.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mcp.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
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
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hubd import __version__
from hubd.errors import HandleNotSupported, HubError, reason_of
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Change, Hub, did_you_mean
from hubd.transport.clients import Clients
from hubd.transport.mcp_calls import Ctx, ToolCalls
from hubd.transport.mcp_changes import Changes
from hubd.transport.mcp_facts import FACTS, Facts, McpOptions, offered
from hubd.transport.mcp_pages import page_of
from hubd.transport.mcp_prompts import Prompts
from hubd.transport.mcp_registry import Registry
from hubd.transport.mcp_resources import NoSuchResource, Resources, not_found
from hubd.transport.mcp_spool import Spool
from hubd.transport.mcp_tools import ToolList, all_methods, list_tools

log = logging.getLogger("hubd.transport")
# The SDK reports every session with its id.
logging.getLogger("mcp").setLevel(logging.WARNING)

# One user's clients; a session that is idle for half an hour ends by itself.
MAX_SESSIONS: Final = 512

INSTRUCTIONS: Final = """\
Every method of the hub is a tool named namespace.method. {name}.search finds methods by words, \
{name}.activations lists what there is. A text such as plugin@1.0.0::method:… is a handle: \
{name}.resolve_handle tells what it points at, and so does the resource plexus://handle/<handle>. \
A result with truncated=true can be read whole under its resource."""


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
        self._changes = Changes()
        self._changes.watch = self._resources.watch
        self._registry = Registry(self._changes)
        self._tools: ToolList | None = None
        self._tools_hash = ""
        self._making_tools = asyncio.Lock()
        # What was left out of the tools, as the hub tells of it.
        self._reported: list[tuple[str, str]] = []
        _extend(clients.hub, self._registry)
        self.server = _server(self, clients.hub.name)
        self.sessions = StreamableHTTPSessionManager(self.server, max_sessions=MAX_SESSIONS)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve for as long as the block lasts."""
        try:
            async with self.sessions.run():
                try:
                    with self._hub.listening(self._changed):
                        yield
                finally:
                    self._changes.close()
                    self._calls.close()
        finally:
            self._spool.close()

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The schema of a tool's arguments, for the SDK's check of headers."""
        if name in self._registry.tools:
            return self._registry.tools[name][0].input_schema
        tool = self._tools.find(name) if self._tools is not None else None
        return tool.tool.input_schema if tool is not None else None

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams | None) -> ListToolsResult:
        """`tools/list`."""
        facts, tools = self._facts(ctx), await self._current_tools()
        added = self._registry.tools.offered_to(facts.profile)
        found: list[Tool] = [tool for tool, _ in added.values()]
        found += [
            entry.tool for entry in tools.tools.values() if offered(entry.namespace, facts.profile)
        ]
        page, cursor = page_of(found, "name", params)
        return ListToolsResult(tools=page, next_cursor=cursor)

    async def call_tool(
        self, ctx: Ctx, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """`tools/call`."""
        # First the hub's: what has the name of one of them is then no longer among the others.
        facts, tools = self._facts(ctx), await self._current_tools()
        added = self._registry.tools.offered_to(facts.profile)
        if params.name in added:
            return await added[params.name][1](ctx, params)
        tool = tools.find(params.name)
        if tool is None or not offered(tool.namespace, facts.profile):
            names = [
                name
                for name, entry in tools.tools.items()
                if offered(entry.namespace, facts.profile)
            ]
            advice = did_you_mean(params.name, names)
            raise MCPError(INVALID_PARAMS, f"no tool '{params.name[:200]}'. {advice}".rstrip(". "))
        if params.request_state is not None:
            return await self._calls.resume(ctx, params.request_state, params.input_responses)
        return await self._calls.call(ctx, tool, params.arguments or {}, facts)

    async def list_resources(
        self, ctx: Ctx, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """`resources/list`."""
        facts = self._facts(ctx)
        added = self._registry.resources.offered_to(facts.profile)
        found = [resource for resource, _ in added.values()]
        found += await self._resources.listed(facts)
        page, cursor = page_of(found, "uri", params)
        return ListResourcesResult(resources=page, next_cursor=cursor)

    async def list_templates(
        self, ctx: Ctx, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """`resources/templates/list`."""
        facts = self._facts(ctx)
        added = self._registry.templates.offered_to(facts.profile)
        found = [template for template, _ in added.values()]
        found += self._resources.templates(facts)
        page, cursor = page_of(found, "uri_template", params)
        return ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)

    async def read_resource(
        self, ctx: Ctx, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        """`resources/read`."""
        uri, profile = str(params.uri), self._facts(ctx).profile
        added = self._registry.resources.offered_to(profile)
        if uri in added:
            return await added[uri][1](ctx, uri, {})
        for pattern, (_, read) in self._registry.templates.offered_to(profile).items():
            values = UriTemplate.parse(pattern).match(uri)
            if values is not None:
                return await read(ctx, uri, {name: str(value) for name, value in values.items()})
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        try:
            return await self._resources.read(uri, self._facts(ctx))
        except NoSuchResource:
            raise not_found(uri, "there is no such resource", modern=modern) from None
        except HubError as error:
            if _is_the_callers(error):
                raise not_found(uri, error.message, modern=modern) from error
            raise _protocol_error(error) from error

    async def complete(self, ctx: Ctx, params: CompleteRequestParams) -> CompleteResult:
        """`completion/complete`."""
        ref, asked = params.ref, params.argument
        if not isinstance(ref, ResourceTemplateReference) or ref.uri in self._registry.templates:
            # Nobody but a person knows what goes into the blanks of a prompt.
            return CompleteResult(completion=Completion(values=[], total=0, has_more=False))
        try:
            found = await self._resources.complete(
                ref.uri, asked.name, asked.value, self._facts(ctx)
            )
        except NoSuchResource:
            raise MCPError(INVALID_PARAMS, "no such template, or variable") from None
        return CompleteResult(
            completion=Completion(values=found.first, total=found.total, has_more=found.more)
        )

    async def list_prompts(
        self, ctx: Ctx, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """`prompts/list`."""
        facts = self._facts(ctx)
        added = self._registry.prompts.offered_to(facts.profile)
        found = [prompt for prompt, _ in added.values()]
        found += await self._prompts.listed(facts)
        page, cursor = page_of(found, "name", params)
        return ListPromptsResult(prompts=page, next_cursor=cursor)

    async def get_prompt(
        self, ctx: Ctx, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        """`prompts/get`."""
        facts = self._facts(ctx)
        added = self._registry.prompts.offered_to(facts.profile)
        if params.name in added:
            return await added[params.name][1](ctx, params)
        try:
            return await self._prompts.fill(params.name, params.arguments or {}, facts)
        except HubError as error:
            raise _protocol_error(error) from error

    def session_of(self, ctx: Ctx) -> str | None:
        """For which session a request speaks, if it says so."""
        return self._facts(ctx).client.session_token

    def _facts(self, ctx: Ctx) -> Facts:
        """What is known of the connection a request came by, its client's name included."""
        request: Any = ctx.request
        facts: Facts = request if isinstance(request, Facts) else request.scope[FACTS]
        params = ctx.session.client_params
        if params is None:
            return facts
        info = params.client_info
        return replace(facts, client=replace(facts.client, name=info.name, version=info.version))

    async def _current_tools(self) -> ToolList:
        """The tools of the hub as it is now, made once for each of its states."""
        async with self._making_tools:
            wanted = self._hub.hash
            if self._tools is None or self._tools_hash != wanted:
                methods = all_methods(self._hub)
                made = await asyncio.to_thread(list_tools, methods, self._options.separator)
                self._report(
                    [(f"{path} as an MCP tool", why) for path, why in made.refused.items()]
                )
                for name in [name for name in self._registry.tools if made.find(name)]:
                    del self._registry.tools[name]
                    _tell_of(self._hub, f"the MCP tool {name}", "a method of the hub has this name")
                self._tools, self._tools_hash = made, wanted
            return self._tools

    def _report(self, refused: list[tuple[str, str]]) -> None:
        """Tell of each method that is no tool, for as long as it is there."""
        for entry in self._reported:
            if entry not in refused:
                self._hub.broken.remove(entry)
        for source, reason in refused:
            _tell_of(self._hub, source, reason)
        self._reported = refused

    def _changed(self, change: Change) -> None:
        # A plugin with many children comes as many changes; clients are told once of all.
        if change == "tree":
            self._changes.tools_changed()
            self._changes.resources_changed()
            for uri in self._changes.watched():
                if self._resources.depends_on_tree(uri):
                    self._changes.resource_updated(uri)
        self._changes.prompts_changed()


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
        instructions=INSTRUCTIONS.format(name=name),
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
    server.middleware.append(hub._changes.middleware)
    # What was asked of one session is not answered by another.
    sealed = RequestStateSecurity(keys=[secrets.token_bytes(32)], bind_principal=hub.session_of)
    server.middleware.append(RequestStateBoundary(sealed, default_audience=name))
    for method, (params, handle) in hub._registry.requests.items():
        server.add_request_handler(method, params, handle)
    return server


def _extend(hub: Hub, registry: Registry) -> None:
    for node in hub.root.walk():
        try:
            with registry.extended_by(node.path) as own:
                node.activation.extend_mcp(own)
        except (Exception, SystemExit) as error:  # a plugin's; the others must not suffer
            log.exception("%s could not extend MCP", node.path)
            _tell_of(hub, f"{node.path} as an extension of MCP", reason_of(error))


def _tell_of(hub: Hub, source: str, reason: str) -> None:
    """Report what was left out; once, since a server may be built again."""
    if (source, reason) not in hub.broken:
        log.warning("%s was left out: %s", source, reason)
        hub.broken.append((source, reason))


def _is_the_callers(error: HubError) -> bool:
    """Whether the request is to blame: it names what is not there, or not for this connection."""
    return error.exit_code in (2, 3, 4, 9) or isinstance(error, HandleNotSupported)


def _protocol_error(error: HubError) -> MCPError:
    code = INVALID_PARAMS if _is_the_callers(error) else INTERNAL_ERROR
    return MCPError(code, error.message, data={"code": error.code, "hint": error.suggestion})
