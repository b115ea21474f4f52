"""Tools, resources and prompts that no method of the hub describes: the one place to add them.

A plugin gets it by `Activation.extend_mcp`. What is added here goes over the wire as it is, so
it speaks the SDK's own types; names and URIs need no namespace.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server import ServerRequestContext
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)
from pydantic import BaseModel

from hubd.errors import Conflict
from hubd.transport.mcp_changes import Changes

Ctx = ServerRequestContext[Any, Any]
CallTool = Callable[[Ctx, CallToolRequestParams], Awaitable[CallToolResult | InputRequiredResult]]
# Gets the URI, and what the template's variables stand for in it.
ReadResource = Callable[[Ctx, str, dict[str, str]], Awaitable[ReadResourceResult]]
GetPrompt = Callable[
    [Ctx, GetPromptRequestParams], Awaitable[GetPromptResult | InputRequiredResult]
]
HandleRequest = Callable[[Ctx, Any], Awaitable[BaseModel]]


class Registry:
    """What was added. Tell `changes` when something comes or goes while clients are connected."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.tools: dict[str, tuple[Tool, CallTool]] = {}
        self.resources: dict[str, tuple[Resource, ReadResource]] = {}
        self.templates: dict[str, tuple[ResourceTemplate, ReadResource]] = {}
        self.prompts: dict[str, tuple[Prompt, GetPrompt]] = {}
        # Requests of the protocol that the hub itself does not answer.
        self.requests: dict[str, tuple[type[BaseModel], HandleRequest]] = {}

    def add_tool(self, tool: Tool, call: CallTool) -> None:
        """Add a tool.

        Raises:
            Conflict: There is one of that name.
        """
        _add(self.tools, tool.name, (tool, call))

    def add_resource(self, resource: Resource, read: ReadResource) -> None:
        """Add a resource with a fixed URI. Raises as `add_tool`."""
        _add(self.resources, resource.uri, (resource, read))

    def add_template(self, template: ResourceTemplate, read: ReadResource) -> None:
        """Add resources whose URIs follow a template. Raises as `add_tool`."""
        _add(self.templates, template.uri_template, (template, read))

    def add_prompt(self, prompt: Prompt, get: GetPrompt) -> None:
        """Add a prompt. Raises as `add_tool`."""
        _add(self.prompts, prompt.name, (prompt, get))

    def add_request(self, method: str, params: type[BaseModel], handle: HandleRequest) -> None:
        """Answer a request of the protocol that the hub does not. Raises as `add_tool`."""
        _add(self.requests, method, (params, handle))


def _add(entries: dict[str, Any], name: str, entry: Any) -> None:
    if name in entries:
        raise Conflict(f"'{name}' is there already")
    entries[name] = entry
