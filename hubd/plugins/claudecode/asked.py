"""A chat on its way from the call that asks for it to the program that answers."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from hubd.plugins.claudecode.program.engine import Engine
from hubd.storage.streams import streams


@dataclass(frozen=True)
class Asked:
    """A chat as it was asked for, kept while it waits. The environment is not kept."""

    prompt: str
    ephemeral: bool = False
    # The session's options for this chat, and the program that was announced; set when it is
    # accepted. A later chat may change the session's options while this one waits.
    options: dict[str, Any] | None = None
    engine: str | None = None


class Accepted(NamedTuple):
    """A chat that was accepted, its program, and the session options that it has changed."""

    stream: streams.StreamRow
    engine: Engine
    changed: list[str]
