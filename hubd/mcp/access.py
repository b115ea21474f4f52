"""What is known of an MCP connection besides what its messages say, and how the hub shows itself.

Nothing of the SDK: both framings need it before that is there.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from time import monotonic

from hubd.errors import InvalidParams
from hubd.mcp.delivery import Delivery
from hubd.plexus.hub import Hub, did_you_mean
from hubd.wire.caller import Client, Context

# How the process behind a connection says for which session it speaks.
SESSION_HEADER = "x-plexus-session"
# Where an HTTP request carries its facts, in the scope of ASGI.
FACTS = "hubd.facts"


@dataclass(frozen=True)
class Facts:
    """One connection, or one HTTP request."""

    client: Client
    context: Context
    # The namespaces it is offered; None for all.
    profile: frozenset[str] | None = None
    # Of the answer to the request that these facts came with.
    delivery: Delivery = field(default_factory=Delivery, compare=False)
    # The text of the request that is answered, if it is large; else empty.
    text: bytes = field(default=b"", repr=False)

    def allows(self, namespace: str, method: str = "") -> bool:
        """Whether it may use a method; without one, whatever else the plugin there offers.

        The one place that decides: dispatch asks it for every call, and whoever lists, reads,
        watches or passes on something else that is a plugin's asks it too.
        """
        return offered(namespace, self.profile)

    @classmethod
    def of_the_hub(cls) -> "Facts":
        """For what the hub does by itself."""
        return cls(Client(), Context())


class Activity:
    """Whether a client over stdio waits for answers, and since when it does not."""

    def __init__(self) -> None:
        self.idle_since = monotonic()
        self.is_busy = False
        # Set when it is closed to make room for another client.
        self.is_evicted = False

    def note(self, *, is_busy: bool) -> None:
        """Note that the client waits for answers, or has them all."""
        self.is_busy = is_busy
        self.idle_since = monotonic()


@dataclass(frozen=True)
class McpOptions:
    """How the hub shows itself to everybody."""

    # What stands between the parts of a tool's name.
    separator: str = "."
    # The only namespaces that are offered; None for all.
    profile: frozenset[str] | None = None

    def narrowed(self, wanted: frozenset[str] | None) -> frozenset[str] | None:
        """What is offered to a connection that asks for some namespaces only."""
        if wanted is None or self.profile is None:
            return self.profile if wanted is None else wanted
        inner = {name for name in wanted if _within(name, self.profile)}
        return frozenset(inner | {name for name in self.profile if _within(name, wanted)})


def check_profile(wanted: Iterable[str], options: McpOptions, hub: Hub) -> None:
    """Find the mistake in what a connection asks for, so that somebody tells of it.

    Raises:
        InvalidParams: A name is no namespace's, or nothing of it is offered to anybody.
    """
    names = sorted(wanted)
    if not names:
        return
    known = [node.path for node in hub.root.walk()]
    shown = [path for path in known if offered(path, options.profile)]
    for name in names:
        if name not in known:
            raise InvalidParams(
                f"there is no namespace {name[:100]!r}",
                suggestion=did_you_mean(name, shown)
                or "`hubd doctor` shows the plugins, and those that were left out",
            )
    if not options.narrowed(frozenset(names)):
        raise InvalidParams(
            "this hub does not offer MCP clients what was asked for",
            suggestion=f"It offers {', '.join(sorted(options.profile or ()))} (--mcp-tools)",
        )


def read_profile(text: str) -> frozenset[str]:
    """A profile as it is written: namespaces with commas between them."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def offered(namespace: str, profile: frozenset[str] | None) -> bool:
    """Whether a profile offers a namespace: it names it, or one above it. None offers all."""
    return profile is None or _within(namespace, profile)


def _within(namespace: str, profile: frozenset[str]) -> bool:
    return any(namespace == name or namespace.startswith(f"{name}.") for name in profile)
