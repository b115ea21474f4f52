"""The plugin API. Each name here is covered by the promise of `API_VERSION`."""

from hubd.activation.api_version import API_VERSION
from hubd.activation.base import Activation
from hubd.activation.event import Encoded, Event
from hubd.activation.handle import AnyHandle, Handle, Origin, Prefix
from hubd.activation.host import ChildProcess, Host, Option, Resolved
from hubd.activation.mcp_registry import McpRegistry
from hubd.activation.method import method
from hubd.activation.progress import Progress
from hubd.activation.prompt import Prompt, PromptArgument, PromptMessage
from hubd.activation.resolver import resolver
from hubd.activation.templates import Style, TemplateSource
from hubd.errors import (
    Ambiguous,
    Cancelled,
    Conflict,
    ExecutionError,
    HubError,
    InvalidParams,
    NotFound,
    PermissionDenied,
    Timeout,
    Unavailable,
)
from hubd.storage.database import Tx
from hubd.storage.search.source import Document, Reader, SearchSource, Unfinished
from hubd.wire.caller import Actor, Client, Context
from hubd.wire.checks import Finding
from hubd.wire.handle import WireHandle
from hubd.wire.summary import columns

__all__ = [
    "API_VERSION",
    "Activation",
    "Actor",
    "Ambiguous",
    "AnyHandle",
    "Cancelled",
    "ChildProcess",
    "Client",
    "Conflict",
    "Context",
    "Document",
    "Encoded",
    "Event",
    "ExecutionError",
    "Finding",
    "Handle",
    "Host",
    "HubError",
    "InvalidParams",
    "McpRegistry",
    "NotFound",
    "Option",
    "Origin",
    "PermissionDenied",
    "Prefix",
    "Progress",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "Reader",
    "Resolved",
    "SearchSource",
    "Style",
    "TemplateSource",
    "Timeout",
    "Tx",
    "Unavailable",
    "Unfinished",
    "WireHandle",
    "columns",
    "method",
    "resolver",
]
