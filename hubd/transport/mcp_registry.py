"""Tools, resources and prompts that no method of the hub describes: the one place to add them.

A plugin gets it by `Activation.extend_mcp`. What is added here goes over the wire as it is, so
it speaks the SDK's own types; names and URIs need no namespace. What would cost a client a whole
list, or take the place of something of the hub's, is refused when it is added.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Final, TypeVar

from mcp.server import ServerRequestContext
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Result,
    Tool,
)
from mcp_types.methods import SPEC_CLIENT_METHODS, validate_server_result
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from hubd.errors import Conflict, InvalidParams
from hubd.transport.mcp_changes import Changes
from hubd.transport.mcp_facts import offered
from hubd.transport.mcp_metaschema import problem_of
from hubd.transport.mcp_resources import SCHEME
from hubd.transport.mcp_tools import MAX_NAME

Ctx = ServerRequestContext[Any, Any]
CallTool = Callable[[Ctx, CallToolRequestParams], Awaitable[CallToolResult | InputRequiredResult]]
# Gets the URI, and what the template's variables stand for in it.
ReadResource = Callable[[Ctx, str, dict[str, str]], Awaitable[ReadResourceResult]]
GetPrompt = Callable[
    [Ctx, GetPromptRequestParams], Awaitable[GetPromptResult | InputRequiredResult]
]
HandleRequest = Callable[[Ctx, Any], Awaitable[BaseModel]]
T = TypeVar("T")
H = TypeVar("H")

# What the protocol allows and all clients take.
_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME}}}")
# A template that begins otherwise could match any URI.
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)[^{]")
# All requests of the protocol are the hub's or the SDK's, but for this one.
_UNANSWERED: Final = "logging/setLevel"


class Added(dict[str, tuple[T, H]]):
    """Everything of one kind by its name, with who answers for it."""

    def __init__(self) -> None:
        super().__init__()
        # The namespace of the plugin that added it, by name.
        self._namespaces: dict[str, str] = {}

    def add(self, name: str, entry: tuple[T, H], namespace: str) -> None:
        """Add one.

        Raises:
            Conflict: There is one of that name.
        """
        if name in self:
            raise Conflict(f"'{name}' is there already")
        self[name] = entry
        self._namespaces[name] = namespace

    def offered_to(self, profile: frozenset[str] | None) -> dict[str, tuple[T, H]]:
        """What plugins of a profile's namespaces added."""
        return {
            name: entry for name, entry in self.items() if offered(self._namespaces[name], profile)
        }


class Registry:
    """What was added. Tell `changes` when something comes or goes while clients are connected."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.tools: Added[Tool, CallTool] = Added()
        self.resources: Added[Resource, ReadResource] = Added()
        self.templates: Added[ResourceTemplate, ReadResource] = Added()
        self.prompts: Added[Prompt, GetPrompt] = Added()
        # Requests of the protocol that the hub itself does not answer.
        self.requests: Added[type[BaseModel], HandleRequest] = Added()
        # On whose behalf something is added.
        self._namespace = ""

    @contextmanager
    def extended_by(self, namespace: str) -> Iterator["Registry"]:
        """The same registry in the hands of one plugin.

        If the block fails, nothing of what was added in it stays.
        """
        kinds: tuple[dict[str, Any], ...] = (
            self.tools,
            self.resources,
            self.templates,
            self.prompts,
            self.requests,
        )
        before = [dict(entries) for entries in kinds]
        own = copy(self)
        own._namespace = namespace
        try:
            yield own
        except BaseException:
            for entries, kept in zip(kinds, before, strict=True):
                entries.clear()
                entries.update(kept)
            raise

    def add_tool(self, tool: Tool, call: CallTool) -> None:
        """Add a tool.

        Raises:
            Conflict: There is one of that name.
            InvalidParams: Clients would choke on it; says what is wrong.
        """
        if not _NAME.fullmatch(tool.name):
            raise InvalidParams(
                f"'{tool.name[:100]}' is no name for a tool: "
                f"at most {MAX_NAME} letters, digits, '_', '.' or '-'"
            )
        _check_wire("tools/list", ListToolsResult(tools=[tool]))
        for schema in (tool.input_schema, tool.output_schema or {}):
            if (problem := problem_of(schema)) is not None:
                raise InvalidParams(f"{tool.name}: no JSON Schema: {problem}")
        self.tools.add(tool.name, (tool, call), self._namespace)

    def add_resource(self, resource: Resource, read: ReadResource) -> None:
        """Add a resource with a fixed URI. Raises as `add_tool`."""
        _check_uri(resource.uri)
        _check_wire("resources/list", ListResourcesResult(resources=[resource]))
        self.resources.add(resource.uri, (resource, read), self._namespace)

    def add_template(self, template: ResourceTemplate, read: ReadResource) -> None:
        """Add resources whose URIs follow a template. Raises as `add_tool`."""
        _check_uri(template.uri_template)
        try:
            UriTemplate.parse(template.uri_template)
        except InvalidUriTemplate as error:
            raise InvalidParams(f"'{template.uri_template}' is no template: {error}") from error
        _check_wire(
            "resources/templates/list", ListResourceTemplatesResult(resource_templates=[template])
        )
        self.templates.add(template.uri_template, (template, read), self._namespace)

    def add_prompt(self, prompt: Prompt, get: GetPrompt) -> None:
        """Add a prompt. Raises as `add_tool`."""
        if "." in prompt.name:
            raise InvalidParams(
                f"'{prompt.name}' would be a prompt of the namespace before the dot",
                suggestion="Leave the dot out, or offer it by offer_prompts",
            )
        _check_wire("prompts/list", ListPromptsResult(prompts=[prompt]))
        self.prompts.add(prompt.name, (prompt, get), self._namespace)

    def add_request(self, method: str, params: type[BaseModel], handle: HandleRequest) -> None:
        """Answer a request of the protocol that the hub does not. Raises as `add_tool`."""
        if method in SPEC_CLIENT_METHODS and method != _UNANSWERED:
            raise Conflict(f"the hub answers '{method}' itself")
        self.requests.add(method, (params, handle), self._namespace)


def _check_uri(uri: str) -> None:
    """Refuse what could be taken for a resource of the hub."""
    begins = _URI.match(uri)
    if begins is None:
        raise InvalidParams(f"'{uri[:100]}' does not begin with a scheme, such as 'notes://'")
    if SCHEME.startswith(begins[1].lower()):
        raise Conflict(f"'{uri[:100]}': everything under {SCHEME} is the hub's")


def _check_wire(method: str, result: Result) -> None:
    """Refuse what some version of the protocol cannot carry: it would cost the whole list."""
    data = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    for version in KNOWN_PROTOCOL_VERSIONS:
        try:
            validate_server_result(method, version, data)
        except ValidationError as error:
            [problem, *_] = error.errors()
            where = ".".join(str(step) for step in problem["loc"])
            raise InvalidParams(
                f"MCP {version} does not take it: {where}: {problem['msg']}"
            ) from error
