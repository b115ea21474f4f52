"""The caller's surroundings, which may travel beside the params of a call."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Context:
    """Where the caller stands. Kept in memory only, never stored or logged."""

    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


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
