"""Tools, resources, prompts and requests that plugins add to MCP besides their methods.

`Activation.extend_mcp` receives a `Registry`. Entries have the SDK's types and are sent
unchanged; names and URIs need no namespace. An entry that clients reject, or that would replace
a part of the hub, is refused when it is added.
"""

import re
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, Final, TypeVar

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
from hubd.mcp.access import Access
from hubd.mcp.caller import Ctx as Ctx
from hubd.mcp.changes import Changes
from hubd.mcp.metaschema import problem_of
from hubd.mcp.tools import MAX_NAME
from hubd.mcp.uris import SCHEME

CallTool = Callable[[Ctx, CallToolRequestParams], Awaitable[CallToolResult | InputRequiredResult]]
# Receives the URI and the values of the template's variables.
ReadResource = Callable[[Ctx, str, dict[str, str]], Awaitable[ReadResourceResult]]
GetPrompt = Callable[
    [Ctx, GetPromptRequestParams], Awaitable[GetPromptResult | InputRequiredResult]
]
HandleRequest = Callable[[Ctx, Any], Awaitable[BaseModel]]
T = TypeVar("T")
H = TypeVar("H")

# The names that the protocol allows and all clients accept.
_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME}}}")
# A template without a scheme could match any URI.
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)[^{]")
# The only request of the protocol that neither the hub nor the SDK answers.
_UNANSWERED: Final = "logging/setLevel"


class Added(dict[str, tuple[T, H]]):
    """The added entries of one kind by name, each with its handler."""

    def __init__(self) -> None:
        super().__init__()
        # The registry through which each entry was added.
        self._owners: dict[str, Registry] = {}

    def add(self, name: str, entry: tuple[T, H], owner: "Registry") -> None:
        """Add an entry.

        Raises:
            Conflict: The name is in use.
        """
        if name in self:
            raise Conflict(f"'{name}' already exists")
        self[name] = entry
        self._owners[name] = owner

    def remove_all_of(self, owner: "Registry") -> None:
        """Remove the entries that were added through a registry."""
        for name in [name for name in self if self._owners[name] is owner]:
            del self[name], self._owners[name]

    def offered_to(self, access: Access) -> dict[str, tuple[T, H]]:
        """Return the entries that a connection may use."""
        return {
            name: entry
            for name, entry in self.items()
            if access.allows(self._owners[name].namespace)
        }


class Registry:
    """The entries that plugins have added; each plugin has a registry for its own namespace.

    Call `changes` after adding or removing an entry while clients are connected.
    """

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.tools: Added[Tool, CallTool] = Added()
        self.resources: Added[Resource, ReadResource] = Added()
        self.templates: Added[ResourceTemplate, ReadResource] = Added()
        self.prompts: Added[Prompt, GetPrompt] = Added()
        # Requests of the protocol that the hub itself does not answer.
        self.requests: Added[type[BaseModel], HandleRequest] = Added()
        # The namespace of the plugin that adds through this registry.
        self.namespace = ""
        # Set when that plugin was detached.
        self._closed = False

    def for_plugin(self, namespace: str) -> "Registry":
        """Return a registry for one plugin, with the same entries."""
        registry = copy(self)
        registry.namespace = namespace
        return registry

    def remove_all(self) -> None:
        """Remove all entries of this plugin; it can add no more."""
        self._closed = True
        kinds: tuple[Added[Any, Any], ...] = (
            self.tools,
            self.resources,
            self.templates,
            self.prompts,
            self.requests,
        )
        for added in kinds:
            added.remove_all_of(self)

    def reader(self, uri: str, access: Access) -> tuple[ReadResource, dict[str, str]] | None:
        """Return the handler that reads a URI, and the values of the URI's variables."""
        added = self.resources.offered_to(access)
        if uri in added:
            return added[uri][1], {}
        for pattern, (_, read) in self.templates.offered_to(access).items():
            values = UriTemplate.parse(pattern).match(uri)
            if values is not None:
                return read, {name: str(value) for name, value in values.items()}
        return None

    def add_tool(self, tool: Tool, call: CallTool) -> None:
        """Add a tool.

        Raises:
            Conflict: The name is in use.
            InvalidParams: Clients reject the entry; the message names the problem.
        """
        if not _NAME.fullmatch(tool.name):
            raise InvalidParams(
                f"'{tool.name[:100]}' is not a valid tool name: "
                f"use at most {MAX_NAME} letters, digits, '_', '.' or '-'"
            )
        _check_wire("tools/list", ListToolsResult(tools=[tool]))
        for schema in (tool.input_schema, tool.output_schema or {}):
            if (problem := problem_of(schema)) is not None:
                raise InvalidParams(f"{tool.name}: not a valid JSON Schema: {problem}")
        self._add(self.tools, tool.name, (tool, call))

    def add_resource(self, resource: Resource, read: ReadResource) -> None:
        """Add a resource with a fixed URI. Raises as `add_tool`."""
        _check_uri(resource.uri)
        _check_wire("resources/list", ListResourcesResult(resources=[resource]))
        self._add(self.resources, resource.uri, (resource, read))

    def add_template(self, template: ResourceTemplate, read: ReadResource) -> None:
        """Add a template of resources. Raises as `add_tool`."""
        _check_uri(template.uri_template)
        try:
            UriTemplate.parse(template.uri_template)
        except InvalidUriTemplate as error:
            raise InvalidParams(
                f"'{template.uri_template}' is not a URI template: {error}"
            ) from error
        _check_wire(
            "resources/templates/list", ListResourceTemplatesResult(resource_templates=[template])
        )
        self._add(self.templates, template.uri_template, (template, read))

    def add_prompt(self, prompt: Prompt, get: GetPrompt) -> None:
        """Add a prompt. Raises as `add_tool`."""
        if "." in prompt.name:
            raise InvalidParams(
                f"the prompt name '{prompt.name}' contains a dot, which follows a namespace",
                suggestion="Remove the dot, or offer the prompt with offer_prompts",
            )
        _check_wire("prompts/list", ListPromptsResult(prompts=[prompt]))
        self._add(self.prompts, prompt.name, (prompt, get))

    def add_request(self, method: str, params: type[BaseModel], handle: HandleRequest) -> None:
        """Answer a request that the hub does not answer. Call it in `extend_mcp`, not later.

        Raises as `add_tool`.
        """
        if method in SPEC_CLIENT_METHODS and method != _UNANSWERED:
            raise Conflict(f"the hub answers '{method}' itself")
        self._add(self.requests, method, (params, handle))

    def _add(self, added: Added[T, H], name: str, entry: tuple[T, H]) -> None:
        if self._closed:
            raise Conflict(f"the plugin {self.namespace} was detached from the hub")
        added.add(name, entry, self)


def _check_uri(uri: str) -> None:
    """Refuse a URI that has no scheme, or the hub's own."""
    begins = _URI.match(uri)
    if begins is None:
        raise InvalidParams(f"'{uri[:100]}' does not start with a scheme such as 'notes://'")
    if SCHEME.startswith(begins[1].lower()):
        raise Conflict(f"'{uri[:100]}': URIs under {SCHEME} belong to the hub")


def _check_wire(method: str, result: Result) -> None:
    """Refuse an entry that some protocol version rejects: the whole list would fail."""
    data = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    for version in KNOWN_PROTOCOL_VERSIONS:
        try:
            validate_server_result(method, version, data)
        except ValidationError as error:
            [problem, *_] = error.errors()
            where = ".".join(str(step) for step in problem["loc"])
            raise InvalidParams(f"MCP {version} rejects it: {where}: {problem['msg']}") from error
