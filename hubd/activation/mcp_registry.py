"""The MCP server as a plugin sees it: `Activation.extend_mcp` gets an `McpRegistry`.

The types are those of the MCP SDK. It is imported only by type checkers, because a daemon
without MCP clients does not load it.
"""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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

    Request = ServerRequestContext[Any, Any]
    CallTool = Callable[
        [Request, CallToolRequestParams], Awaitable[CallToolResult | InputRequiredResult]
    ]
    # Gets the URI, and the values of the template's variables.
    ReadResource = Callable[[Request, str, dict[str, str]], Awaitable[ReadResourceResult]]
    GetPrompt = Callable[
        [Request, GetPromptRequestParams], Awaitable[GetPromptResult | InputRequiredResult]
    ]
    HandleRequest = Callable[[Request, Any], Awaitable[BaseModel]]


class McpChanges(Protocol):
    """Notifications to the connected MCP clients."""

    def tools_changed(self) -> None:
        """Notify clients that the list of tools changed."""

    def prompts_changed(self) -> None:
        """Notify clients that the list of prompts changed."""

    def resources_changed(self) -> None:
        """Notify clients that the list of resources changed."""

    def resource_updated(self, uri: str) -> None:
        """Notify the subscribers of a resource that its content changed."""


class McpRegistry(Protocol):
    """Tools, resources and prompts that a plugin adds besides its methods.

    They are sent to clients as given: names and URIs have no namespace. The hub removes them
    when it detaches the plugin. Each `add_…` raises `Conflict` if the name or URI is taken, and
    `InvalidParams` if a client could not read the declaration.
    """

    @property
    def changes(self) -> McpChanges:
        """Notifications, for changes while clients are connected."""

    def add_tool(self, tool: "Tool", call: "CallTool") -> None:
        """Add a tool."""

    def add_resource(self, resource: "Resource", read: "ReadResource") -> None:
        """Add a resource with a fixed URI."""

    def add_template(self, template: "ResourceTemplate", read: "ReadResource") -> None:
        """Add the resources that a URI template describes."""

    def add_prompt(self, prompt: "Prompt", get: "GetPrompt") -> None:
        """Add a prompt."""

    def add_request(self, method: str, params: "type[BaseModel]", handle: "HandleRequest") -> None:
        """Answer a request of the protocol that the hub does not; only inside `extend_mcp`."""
