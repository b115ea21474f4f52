"""A request for a chat, from the call that makes it until the chat starts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from hubd.plugins.claudecode.program.engine import Engine
from hubd.storage.streams import streams
from hubd.wire.lazy_dataclass import dataclass


@dataclass(frozen=True)
class ChatRequest:
    """A request for a chat, stored while the chat waits. The environment is not stored."""

    prompt: str
    ephemeral: bool = False
    # The handles of the attachments. Their data is read when the chat starts.
    attach: Sequence[str] = ()
    # The session's options for this chat, and the program that was announced; set when the
    # request is accepted. A later request may change the session's options while this one waits.
    options: dict[str, Any] | None = None
    engine: str | None = None


class AcceptedChat(NamedTuple):
    """A chat that was accepted, its program, and the session options that it has changed."""

    stream: streams.StreamRow
    engine: Engine
    changed: list[str]
