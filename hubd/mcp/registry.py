"""Tools, resources and prompts that no method of the hub describes: the one place to add them.

A plugin gets it by `Activation.extend_mcp`. What is added here goes over the wire as it is, so
it speaks the SDK's own types; names and URIs need no namespace. What would cost a client a whole
list, or take the place of something of the hub's, is refused when it is added.
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
from hubd.mcp.access import Facts
from hubd.mcp.caller import Ctx as Ctx
from hubd.mcp.changes import Changes
from hubd.mcp.metaschema import problem_of
from hubd.mcp.tools import MAX_NAME
from hubd.mcp.uris import SCHEME

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
        # Through whose hands it came, by name.
        self._owners: dict[str, Registry] = {}

    def add(self, name: str, entry: tuple[T, H], owner: "Registry") -> None:
        """Add one.

        Raises:
            Conflict: There is one of that name.
        """
        if name in self:
            raise Conflict(f"'{name}' is there already")
        self[name] = entry
        self._owners[name] = owner

    def remove_all_of(self, owner: "Registry") -> None:
        """Remove what came through these hands."""
        for name in [name for name in self if self._owners[name] is owner]:
            del self[name], self._owners[name]

    def offered_to(self, facts: Facts) -> dict[str, tuple[T, H]]:
        """What a connection may use of it."""
        return {
            name: entry
            for name, entry in self.items()
            if facts.allows(self._owners[name].namespace)
        }


class Registry:
    """What was added, in the hands of the plugin that adds.

    Tell `changes` when something comes or goes while clients are connected.
    """

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.tools: Added[Tool, CallTool] = Added()
        self.resources: Added[Resource, ReadResource] = Added()
        self.templates: Added[ResourceTemplate, ReadResource] = Added()
        self.prompts: Added[Prompt, GetPrompt] = Added()
        # Requests of the protocol that the hub itself does not answer.
        self.requests: Added[type[BaseModel], HandleRequest] = Added()
        # In whose hands it is.
        self.namespace = ""
        # Set when that plugin is gone.
        self._closed = False

    def in_the_hands_of(self, namespace: str) -> "Registry":
        """The same registry, for one plugin."""
        own = copy(self)
        own.namespace = namespace
        return own

    def take_back(self) -> None:
        """Remove what was added through these hands, and let them add no more."""
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

    def reader(self, uri: str, facts: Facts) -> tuple[ReadResource, dict[str, str]] | None:
        """Who reads a URI to a connection, and what the variables in it stand for."""
        added = self.resources.offered_to(facts)
        if uri in added:
            return added[uri][1], {}
        for pattern, (_, read) in self.templates.offered_to(facts).items():
            values = UriTemplate.parse(pattern).match(uri)
            if values is not None:
                return read, {name: str(value) for name, value in values.items()}
        return None

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
        self._add(self.tools, tool.name, (tool, call))

    def add_resource(self, resource: Resource, read: ReadResource) -> None:
        """Add a resource with a fixed URI. Raises as `add_tool`."""
        _check_uri(resource.uri)
        _check_wire("resources/list", ListResourcesResult(resources=[resource]))
        self._add(self.resources, resource.uri, (resource, read))

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
        self._add(self.templates, template.uri_template, (template, read))

    def add_prompt(self, prompt: Prompt, get: GetPrompt) -> None:
        """Add a prompt. Raises as `add_tool`."""
        if "." in prompt.name:
            raise InvalidParams(
                f"'{prompt.name}' would be a prompt of the namespace before the dot",
                suggestion="Leave the dot out, or offer it by offer_prompts",
            )
        _check_wire("prompts/list", ListPromptsResult(prompts=[prompt]))
        self._add(self.prompts, prompt.name, (prompt, get))

    def add_request(self, method: str, params: type[BaseModel], handle: HandleRequest) -> None:
        """Answer a request of the protocol that the hub does not; in `extend_mcp`, not later.

        Raises as `add_tool`.
        """
        if method in SPEC_CLIENT_METHODS and method != _UNANSWERED:
            raise Conflict(f"the hub answers '{method}' itself")
        self._add(self.requests, method, (params, handle))

    def _add(self, added: Added[T, H], name: str, entry: tuple[T, H]) -> None:
        if self._closed:
            raise Conflict(f"{self.namespace} is no part of the hub any more")
        added.add(name, entry, self)


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
