"""Who calls, and from where: what a method may know without being given it as a parameter."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Context:
    """Where the caller stands. Kept in memory only, never stored or logged."""

    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Client:
    """The program at the other end of the connection, as far as it is known."""

    # `unix`, `websocket`, `mcp-http` or `mcp-stdio`; empty for what the hub does by itself.
    transport: str = ""
    # As the client calls itself, which nobody has checked.
    name: str = ""
    version: str = ""
    # What the connection carried to say for which session it speaks.
    session_token: str | None = field(default=None, repr=False)


def read_context(value: object) -> Context:
    """The context that came with a call; what is not of the right shape is as if it were absent."""
    if not isinstance(value, dict):
        return Context()
    cwd, env = value.get("cwd"), value.get("env")
    pairs = env.items() if isinstance(env, dict) else ()
    return Context(
        cwd=cwd if isinstance(cwd, str) else None,
        env={name: text for name, text in pairs if isinstance(text, str)},
    )
