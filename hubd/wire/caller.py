"""The caller of a method: its client program and actor, and its directory and environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal


@dataclass(frozen=True)
class Actor:
    """The person or agent that a call is made for, and the methods that it may call.

    Two actors are equal if kind and id are, whatever their grants.
    """

    # `hub`: the hub itself. `person`: a process outside of every agent's process tree.
    # `client`: an MCP client. `session`: an agent of this hub. `unknown`: a process that an agent
    # may have started, such as an orphan of an agent that has ended.
    kind: Literal["hub", "person", "client", "session", "unknown"]
    # A session: the UUID of the Claude session. A client: `process:PID@STARTED`, `http:ID` or
    # `configured:ID`. Empty for the other kinds.
    id: str = ""
    # Namespaces (`arbor`), methods (`arbor.tree_get`) or patterns (`arbor.tree_*`, `*`).
    # None grants every method.
    grants: tuple[str, ...] | None = field(default=None, compare=False)

    @property
    def is_agent(self) -> bool:
        """Whether the actor is an agent, or may be one."""
        return self.kind in ("client", "session", "unknown")

    def is_granted(self, namespace: str, method: str) -> bool:
        """Return whether a method is granted; without a method, whether all of a namespace is.

        Every decision about grants is made here and in `may_see`.
        """
        if self.grants is None:
            return True
        path = f"{namespace}.{method}"
        # A namespace covers everything below it.
        return any(
            fnmatchcase(path, grant) or fnmatchcase(path, f"{grant}.*") for grant in self.grants
        )

    def may_see(self, namespace: str) -> bool:
        """Return whether a method in or below a namespace may be granted.

        The schema of such a namespace is readable. It shows only the granted methods.
        """
        if self.grants is None:
            return True
        inside = f"{namespace}."
        return any(
            inside.startswith(beginning) or beginning.startswith(inside)
            for beginning in map(_beginning, self.grants)
        )


def _beginning(grant: str) -> str:
    """Return the text that all paths of a grant begin with."""
    first = min((grant.find(mark) for mark in "*?[" if mark in grant), default=-1)
    return f"{grant}." if first < 0 else grant[:first]


HUB: Final = Actor("hub")
PERSON: Final = Actor("person")
UNKNOWN: Final = Actor("unknown", grants=())


@dataclass(frozen=True)
class Context:
    """The caller context. Kept in memory only, never stored or logged."""

    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Client:
    """The client program of a connection, as far as it is known."""

    # `unix`, `websocket`, `mcp-http` or `mcp-stdio`; empty for calls of the hub itself.
    transport: str = ""
    # The name and version that the client sent. They are not verified.
    name: str = ""
    version: str = ""
    # The token that names the session of the connection.
    session_token: str | None = field(default=None, repr=False)
    # The person or agent behind the connection.
    actor: Actor = HUB


def read_context(value: object) -> Context:
    """Return the caller context of a request. Values of a wrong type are ignored."""
    if not isinstance(value, dict):
        return Context()
    cwd, env = value.get("cwd"), value.get("env")
    pairs = env.items() if isinstance(env, dict) else ()
    return Context(
        cwd=cwd if isinstance(cwd, str) else None,
        env={name: text for name, text in pairs if isinstance(text, str)},
    )
