"""The caller of a method: its client program, and its directory and environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
