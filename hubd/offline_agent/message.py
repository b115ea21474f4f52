"""The output of one assistant message: events while a block grows, a line when it is complete.

As in claude, the `assistant` line of a block comes before its content_block_stop.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Final

from hubd.offline_agent import lines
from hubd.offline_agent.directives import Call
from hubd.offline_agent.lines import Line
from hubd.offline_agent.pipes import Pipes
from hubd.offline_agent.result import Tally
from hubd.offline_agent.session import Session

# Characters of one piece of a text, and the maximum number of pieces.
PIECE: Final = 16
MOST_PIECES: Final = 32


class MessageWriter:
    """Writes messages block by block. At most one message is open at a time."""

    def __init__(self, pipes: Pipes, session: Session, tally: Tally, partial: bool) -> None:
        self._pipes = pipes
        self._session = session
        self._tally = tally
        self._partial = partial
        # Seconds before each delta; changed by `slow:`.
        self.delay = 0.0
        # Fields of the lines that answer a prompt with an id.
        self.answering: Line = {}
        # Whether the next message has been announced.
        self._requested = False
        # The id of the open message, and its fields; None between messages.
        self._message: str | None = None
        self._usage: Line = {}
        self._request_id = ""
        self._output_tokens = 0
        # The growing block; the kind is None between blocks.
        self._index = 0
        self._kind: str | None = None
        self._parts: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether a message is open."""
        return self._message is not None

    def request(self) -> None:
        """Announce the next message once."""
        if self._partial and not self._requested:
            status = lines.system(self._session.id, "status", status="requesting")
            self._pipes.emit(status)
        self._requested = True

    def begin(self) -> None:
        """Start a message if none is open."""
        if self._message is not None:
            return
        self._message = lines.message_id()
        self._request_id = f"req_offline_{self._message[-12:]}"
        self._usage = lines.start_usage(lines.count_tokens("x" * self._session.size))
        self._index = 0
        self._output_tokens = 0
        self._tally.text = ""
        self.request()
        self._requested = False
        message = lines.assistant_message(self._message, [], self._usage)
        del message["context_management"]
        event = {"type": "message_start", "message": message}
        self._event(event, ttft_ms=0, **self.answering)

    def text(self, parts: Iterable[str]) -> None:
        """Write a text block in these pieces."""
        self._start("text", lines.text_block(""))
        for piece in parts:
            self._delta({"type": "text_delta", "text": piece}, piece)
        self._tally.text = self._block_text()
        self._stop(lines.text_block(self._tally.text))

    def thinking(self, text: str) -> None:
        """Write a thinking block. The signature depends only on the text."""
        self._start("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        total = 0
        for piece in pieces(text):
            tokens = lines.count_tokens(piece)
            total += tokens
            estimate = {"estimated_tokens": total, "estimated_tokens_delta": tokens}
            if self._partial:
                self._pipes.emit(lines.system(self._session.id, "thinking_tokens", **estimate))
            self._delta({"type": "thinking_delta", "thinking": piece}, piece)
        # Rarely needed, and slow to import.
        import hashlib

        signature = b64encode(hashlib.sha256(text.encode(errors="replace")).digest()).decode()
        self._delta({"type": "signature_delta", "signature": signature}, "")
        self._stop({"type": "thinking", "thinking": text, "signature": signature})

    def tool_use(self, tool_use_id: str, call: Call) -> None:
        """Write a tool call."""
        block = {"type": "tool_use", "id": tool_use_id, "name": call.tool}
        self._start("tool_use", {**block, "input": {}})
        for piece in pieces(json.dumps(call.input)):
            self._delta({"type": "input_json_delta", "partial_json": piece}, piece)
        self._stop({**block, "input": call.input})

    def end(self, stop_reason: str) -> None:
        """End the message."""
        usage = {"output_tokens": self._output_tokens}
        delta = {"stop_reason": stop_reason, "stop_sequence": None}
        self._event({"type": "message_delta", "delta": delta, "usage": usage})
        self._event({"type": "message_stop"})
        self._message = None
        self._tally.stop_reason = stop_reason
        self._tally.input_tokens += self._usage["input_tokens"]
        self._tally.output_tokens += self._output_tokens

    def abandon(self, interruption: Line) -> None:
        """End the message early, as claude does: written text stays, other blocks are dropped.

        Args:
            interruption: The line about the interrupt, which is written inside the message.
        """
        keeps = self._kind == "text" and bool(self._parts)
        if keeps:
            self._assistant(lines.text_block(self._block_text()), aborted=True)
        self._session.append(interruption)
        self._pipes.emit(interruption)
        if self._message is None:
            return
        if self._kind in ("text", "thinking"):
            self._event({"type": "content_block_stop", "index": self._index})
        delta = dict.fromkeys(("container", "stop_details", "stop_reason", "stop_sequence"))
        event = {"type": "message_delta", "context_management": None, "delta": delta}
        self._event({**event, "usage": lines.broken_usage(self._usage)})
        first = {"api_message_id": self._message, "from_block_index": self._index + keeps}
        self._event({"type": "message_stop"}, abandoned_blocks=first)
        self._message = None
        self._kind = None

    def _start(self, kind: str, block: Line) -> None:
        self.begin()
        self._kind, self._parts = kind, []
        event = {"type": "content_block_start", "index": self._index, "content_block": block}
        self._event(event)

    def _delta(self, delta: Line, piece: str) -> None:
        if self.delay:
            self._pipes.pause(self.delay)
        self._pipes.poll()
        self._parts.append(piece)
        self._event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _stop(self, block: Line) -> None:
        self._output_tokens += lines.count_tokens(self._block_text())
        self._assistant(block)
        self._event({"type": "content_block_stop", "index": self._index})
        self._kind = None
        self._index += 1

    def _block_text(self) -> str:
        return "".join(self._parts)

    def _assistant(self, block: Line, **more: Any) -> None:
        assert self._message is not None
        message = lines.assistant_message(self._message, [block], self._usage)
        fields = {"request_id": self._request_id, **self.answering}
        line = lines.assistant(self._session.id, message, **fields, **more)
        self._session.append(line, requestId=self._request_id)
        self._pipes.emit(line)

    def _event(self, event: Line, **more: Any) -> None:
        if self._partial:
            assert self._message is not None
            self._pipes.emit(lines.stream_event(self._session.id, self._message, event, **more))


def pieces(text: str) -> Iterator[str]:
    """Return the pieces of a text, one for each delta."""
    size = max(PIECE, -(-len(text) // MOST_PIECES))
    return (text[start : start + size] for start in range(0, len(text), size))
