"""All that a plugin author imports. Adding a name here is a decision about the plugin API."""

from hubd.activation.base import Activation
from hubd.activation.event import Encoded, Event
from hubd.activation.handle import AnyHandle, Handle, Origin, Prefix
from hubd.activation.host import Host, Option, Resolved
from hubd.activation.method import method, resolver
from hubd.activation.progress import Progress
from hubd.activation.prompt import Prompt, PromptArgument, PromptMessage
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
from hubd.wire.caller import Client, Context
from hubd.wire.handle import WireHandle

__all__ = [
    "Activation",
    "Ambiguous",
    "AnyHandle",
    "Cancelled",
    "Client",
    "Conflict",
    "Context",
    "Encoded",
    "Event",
    "ExecutionError",
    "Handle",
    "Host",
    "HubError",
    "InvalidParams",
    "NotFound",
    "Option",
    "Origin",
    "PermissionDenied",
    "Prefix",
    "Progress",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "Resolved",
    "Timeout",
    "Tx",
    "Unavailable",
    "WireHandle",
    "method",
    "resolver",
]
