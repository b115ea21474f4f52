"""Messages of the program -> facts about one conversation. No I/O, no clock, never raises.

With partial messages on, a block comes twice: as stream events, and whole in an `assistant` line
just before its `content_block_stop`. The deltas are for watching, the whole line is the truth:
it has the signatures. With partial messages off there are only the whole lines, and the same
facts come out but for the deltas.

What was seen of the real program and decides the rules here:

- Tool results, and the line that says the user interrupted, come while the message is still
  open: a `user` line ends nothing.
- A stream that breaks off is still closed by `content_block_stop` (not for tool calls) and
  `message_stop`, but there is no whole line and no `message_delta`.
- An interrupted block has a whole line marked `aborted` if it is text, else none, and its
  `message_delta` has no stop reason.
- An empty text block has no whole line, though nothing went wrong. So a block that was stopped
  without one waits for what comes next, which tells whether it is complete.
"""

from typing import Any

from hubd.plugins.claudecode.protocol.facts import (
    Fact,
    MessageStarted,
    Passed,
    SessionStarted,
    Skipped,
    ToolResult,
    TurnResult,
)
from hubd.plugins.claudecode.protocol.message_builder import GrowingMessage
from hubd.plugins.claudecode.protocol.messages import (
    AssistantLine,
    Broken,
    ControlRequest,
    ControlResponse,
    Init,
    Message,
    Other,
    ResultLine,
    StreamEvent,
    UserLine,
    output_text,
)

# Who speaks: None is the main conversation, else the tool call that started the subagent.
_Lane = str | None


class Accumulator:
    """The state of one run of the program, from its first line to its exit."""

    def __init__(self) -> None:
        # Counts the lines that could not be read.
        self.skipped = 0
        # The message each lane is at, in order of opening.
        self._current: dict[_Lane, GrowingMessage] = {}
        # Every message ever seen, so that none starts twice.
        self._known: dict[tuple[_Lane, str], GrowingMessage] = {}

    def feed(self, message: Message) -> list[Fact]:
        """What is known now that was not before; empty if a line brought nothing new."""
        match message:
            case StreamEvent():
                facts = self._stream_event(message)
                event_type = f"stream_event/{message.event_type}"
                return [Passed(event_type, message.raw)] if facts is None else facts
            case AssistantLine():
                return self._assistant(message)
            case UserLine():
                return self._user(message)
            case Init(session_id, model, cwd, tools, raw):
                return [SessionStarted(session_id, model, cwd, tools, raw)]
            case ResultLine():
                return [*self._close(None), _turn_result(message)]
            case ControlRequest(subtype=subtype, raw=raw):
                return [Passed(f"control_request/{subtype}", raw)]
            case ControlResponse(subtype=subtype, raw=raw):
                return [Passed(f"control_response/{subtype}", raw)]
            case Other("system/task_notification", {"tool_use_id": str(lane)} as raw):
                # A background subagent is done; its call was answered when it was launched.
                return [*self._close(lane), Passed(message.event_type, raw)]
            case Other(event_type, raw):
                return [Passed(event_type, raw)]
            case Broken(reason):
                self.skipped += 1
                return [Skipped(reason)]

    def end(self, exit_status: int | None) -> list[Fact]:
        """The program is gone: finish all that is open. Nothing is left for a second call.

        Args:
            exit_status: As the operating system gave it; None if nobody knows.
        """
        trusted = exit_status == 0
        return [fact for lane in [*self._current] for fact in self._close(lane, trusted=trusted)]

    def _assistant(self, line: AssistantLine) -> list[Fact]:
        message, facts = self._open(line.parent_tool_use_id, line.message_id, line.model)
        if line.uuid is not None:
            message.uuids.append(line.uuid)
        message.add_usage(line.usage)
        message.stop_reason = message.stop_reason or line.stop_reason
        for number, block in enumerate(line.blocks, 1):
            cut = line.aborted and number == len(line.blocks)
            facts += message.whole_block(block, complete=not cut, raw=line.raw)
        return facts

    def _user(self, line: UserLine) -> list[Fact]:
        facts: list[Fact] = []
        results = 0
        for block in line.blocks:
            match block:
                case {"type": "tool_result", "tool_use_id": str(tool_use_id)}:
                    results += 1
                    # If this call was a subagent, it has nothing more to say.
                    facts += self._close(tool_use_id)
                    facts.append(_tool_result(line, tool_use_id, block))
        if results < len(line.blocks) or not results:
            facts.append(Passed("user", line.raw))
        return facts

    def _stream_event(self, line: StreamEvent) -> list[Fact] | None:
        """None if the event belongs to nothing that is known."""
        lane, event = line.parent_tool_use_id, line.event
        if line.event_type == "message_start":
            return self._message_start(line)
        message = self._current.get(lane)
        if message is None or line.message_id not in (None, message.message_id):
            return None
        match event:
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                return message.start_block(index, block)
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                return message.grow_block(index, delta)
            case {"type": "content_block_stop", "index": int(index)}:
                message.stop_block(index)
                return []
            case {"type": "message_delta", "delta": dict(delta)}:
                return _message_delta(message, delta, event.get("usage"))
            case {"type": "message_stop"}:
                return self._close(lane)
        return None

    def _message_start(self, line: StreamEvent) -> list[Fact] | None:
        start = line.event.get("message")
        if line.message_id is None or not isinstance(start, dict):
            return None
        model, usage = start.get("model"), start.get("usage")
        message, facts = self._open(
            line.parent_tool_use_id, line.message_id, model if isinstance(model, str) else None
        )
        # A stream that begins again with the same id goes on with new blocks.
        facts += message.cut_off()
        message.streamed = True
        message.add_usage(usage if isinstance(usage, dict) else {})
        return facts

    def _open(
        self, lane: _Lane, message_id: str, model: str | None
    ) -> tuple[GrowingMessage, list[Fact]]:
        """The message a line belongs to. A lane says one thing at a time: the one before ends."""
        facts: list[Fact] = []
        current = self._current.get(lane)
        if current is not None and current.message_id != message_id:
            facts += self._close(lane)
        message = self._known.get((lane, message_id))
        if message is None:
            message = GrowingMessage(message_id, lane)
            self._known[lane, message_id] = message
            facts.append(MessageStarted(message_id, lane, model))
        message.model = message.model or model
        self._current[lane] = message
        return message, facts

    def _close(self, lane: _Lane, *, trusted: bool = True) -> list[Fact]:
        message = self._current.pop(lane, None)
        return [] if message is None else message.finish(trusted=trusted)


def _message_delta(message: GrowingMessage, delta: dict[str, Any], usage: object) -> list[Fact]:
    message.add_usage(usage if isinstance(usage, dict) else {})
    stop_reason = delta.get("stop_reason")
    if isinstance(stop_reason, str):
        message.stop_reason = stop_reason
    return message.settle(complete=isinstance(stop_reason, str))


def _tool_result(line: UserLine, tool_use_id: str, block: dict[str, Any]) -> ToolResult:
    return ToolResult(
        tool_use_id=tool_use_id,
        parent_tool_use_id=line.parent_tool_use_id,
        output_text=output_text(block.get("content")),
        is_error=block.get("is_error") is True,
        block=block,
        uuid=line.uuid,
        raw=line.raw,
    )


def _turn_result(line: ResultLine) -> TurnResult:
    return TurnResult(
        subtype=line.subtype,
        is_error=line.is_error,
        result=line.result,
        session_id=line.session_id,
        usage=line.usage,
        cost_usd=line.cost_usd,
        num_turns=line.num_turns,
        api_error_status=line.api_error_status,
        terminal_reason=line.terminal_reason,
        raw=line.raw,
    )
