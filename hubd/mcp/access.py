"""Access of an MCP client: its identity, and the namespaces that the hub offers to it.

This module does not import the SDK, because both transports need it before the SDK is loaded.
"""

from collections.abc import Iterable
from dataclasses import field
from time import monotonic
from typing import Protocol

from hubd.errors import InvalidParams
from hubd.mcp.transports.delivery import Delivery
from hubd.plexus.grants import DESCRIPTIVE
from hubd.plexus.hub import Hub
from hubd.wire.caller import Client, Context
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.text import did_you_mean

# Key of an HTTP request's `Access` in its ASGI scope.
ACCESS = "hubd.access"


class Begun(Protocol):
    """A call that was begun before the SDK got its request."""

    def abandon(self) -> None:
        """End the call if its request ended before it waited for the call."""


@dataclass(frozen=True)
class Access:
    """The access of one connection, or of one HTTP request."""

    client: Client
    context: Context
    # The offered namespaces; None for all.
    profile: frozenset[str] | None = None
    # Reports whether the answer to the current request was sent.
    delivery: Delivery = field(default_factory=Delivery, compare=False)
    # Whether the request is so long that work on its params delays other clients.
    large: bool = False
    # The call of this request, if it was begun already.
    begun: Begun | None = field(default=None, compare=False)

    def offers(self, namespace: str) -> bool:
        """Return whether the connection offers a namespace. The hub checks the grants of calls."""
        return offered(namespace, self.profile)

    def allows(self, namespace: str, method: str = "") -> bool:
        """Return whether the client may use a method, or other parts of a plugin if none is given.

        All decisions about lists, reads and notifications are made here.
        """
        if not self.offers(namespace):
            return False
        actor = self.client.actor
        return actor.is_granted(namespace, method) or (
            method in DESCRIPTIVE and actor.may_see(namespace)
        )

    def lists(self, namespace: str, on_request: frozenset[str], method: str = "") -> bool:
        """Return whether lists show a part of a namespace.

        Namespaces on request are shown only if they were asked for or granted. A method that
        describes a namespace is shown only if it was granted.
        """
        actor = self.client.actor
        if actor.grants is not None:
            return not method or actor.is_granted(namespace, method)
        return self.profile is not None or not offered(namespace, on_request)

    @classmethod
    def for_hub(cls) -> "Access":
        """Return the access of the hub itself."""
        return cls(Client(), Context())


class Activity:
    """Whether a client over stdio has running requests, and since when it is idle."""

    def __init__(self) -> None:
        self.idle_since = monotonic()
        self.is_busy = False
        # Set when the client is disconnected to make room for another.
        self.is_evicted = False

    def note(self, *, is_busy: bool) -> None:
        """Record that the client has running requests, or none."""
        self.is_busy = is_busy
        self.idle_since = monotonic()


@dataclass(frozen=True)
class McpOptions:
    """Settings that hold for all MCP clients."""

    # The separator between the parts of a tool's name.
    separator: str = "."
    # The offered namespaces; None for all.
    profile: frozenset[str] | None = None

    def narrowed(self, wanted: frozenset[str] | None) -> frozenset[str] | None:
        """Return the namespaces offered to a connection that asks for some of them."""
        if wanted is None or self.profile is None:
            return self.profile if wanted is None else wanted
        inner = {name for name in wanted if _within(name, self.profile)}
        return frozenset(inner | {name for name in self.profile if _within(name, wanted)})


def check_profile(wanted: Iterable[str], options: McpOptions, hub: Hub) -> None:
    """Check the namespaces that a connection asks for.

    Raises:
        InvalidParams: A namespace does not exist, or the hub does not offer any of them.
    """
    names = sorted(wanted)
    if not names:
        return
    paths = [node.path for node in hub.root.walk()]
    offered_paths = [path for path in paths if offered(path, options.profile)]
    for name in names:
        if name not in paths:
            raise InvalidParams(
                f"there is no namespace {name[:100]!r}",
                suggestion=did_you_mean(name, offered_paths)
                or "`hubd doctor` lists the plugins and the reasons why some were skipped",
            )
    if not options.narrowed(frozenset(names)):
        raise InvalidParams(
            f"this hub does not offer {', '.join(names)} to MCP clients",
            suggestion=f"It offers {', '.join(sorted(options.profile or ()))} (--mcp-tools)",
        )


def read_profile(text: str) -> frozenset[str]:
    """Return the namespaces in a text that separates them by commas."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def offered(namespace: str, profile: frozenset[str] | None) -> bool:
    """Return whether a profile names a namespace or one above it. None offers all."""
    return profile is None or _within(namespace, profile)


def _within(namespace: str, profile: frozenset[str]) -> bool:
    return any(namespace == name or namespace.startswith(f"{name}.") for name in profile)
