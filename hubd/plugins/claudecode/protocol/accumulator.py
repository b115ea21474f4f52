"""Turn messages of the program into updates of one conversation. No I/O, no clock, no exceptions.

With partial messages on, a block comes twice: as stream events, and complete in an `assistant` line
just before its `content_block_stop`. The deltas are for live text; the complete line decides,
because it has the signatures. With partial messages off there are only complete lines, which give
the same updates without the deltas.

The rules follow the behaviour of the real program:

- Tool results, and the line about an interrupt by the user, come while the message is still open.
  A `user` line therefore ends no message.
- A stream that breaks off is still closed by `content_block_stop` (except for tool calls) and
  `message_stop`, but the complete line and `message_delta` are missing.
- An interrupted text block has a complete line marked `aborted`; other blocks have none. The
  `message_delta` has no stop reason.
- An empty text block has no complete line, although nothing failed. A block that was stopped
  without one therefore waits for the next line, which shows whether the block is complete.
"""

from typing import Any

from hubd.plugins.claudecode.protocol.message_builder import MessageBuilder
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
from hubd.plugins.claudecode.protocol.updates import (
    MessageStarted,
    OtherLine,
    SessionStarted,
    ToolResult,
    UnreadableLine,
    Update,
)

# None for the main conversation, else the tool call that started the subagent.
_Lane = str | None


class Accumulator:
    """The state of one run of the program, from its first line to its exit."""

    def __init__(self) -> None:
        # The number of unreadable lines.
        self.skipped = 0
        # The open message of each lane, in order of opening.
        self._current: dict[_Lane, MessageBuilder] = {}
        # All messages so far, so that each starts once.
        self._messages: dict[tuple[_Lane, str], MessageBuilder] = {}

    def feed(self, message: Message) -> list[Update]:
        """Return the updates that a message brings; none if it brings nothing new."""
        match message:
            case StreamEvent():
                updates = self._stream_event(message)
                event_type = f"stream_event/{message.event_type}"
                return [OtherLine(event_type, message.raw)] if updates is None else updates
            case AssistantLine():
                return self._assistant(message)
            case UserLine():
                return self._user(message)
            case Init(session_id, model, cwd, tools, raw):
                return [SessionStarted(session_id, model, cwd, tools, raw)]
            case ResultLine():
                return [*self._close(None), message]
            case ControlRequest(subtype=subtype, raw=raw):
                return [OtherLine(f"control_request/{subtype}", raw)]
            case ControlResponse(subtype=subtype, raw=raw):
                return [OtherLine(f"control_response/{subtype}", raw)]
            case Other("system/task_notification", {"tool_use_id": str(lane)} as raw):
                # A background subagent has ended; its call was answered when it was launched.
                return [*self._close(lane), OtherLine(message.event_type, raw)]
            case Other(event_type, raw):
                return [OtherLine(event_type, raw)]
            case Broken(reason):
                self.skipped += 1
                return [UnreadableLine(reason)]

    def end(self, exit_status: int | None) -> list[Update]:
        """Finish all open messages after the end of the program.

        Args:
            exit_status: The exit status of the program; None if it is not known.
        """
        trusted = exit_status == 0
        return [
            update for lane in [*self._current] for update in self._close(lane, trusted=trusted)
        ]

    def _assistant(self, line: AssistantLine) -> list[Update]:
        message, updates = self._open(line.parent_tool_use_id, line.message_id, line.model)
        if line.uuid is not None:
            message.uuids.append(line.uuid)
        message.add_usage(line.usage)
        message.stop_reason = message.stop_reason or line.stop_reason
        for number, block in enumerate(line.blocks, 1):
            cut = line.aborted and number == len(line.blocks)
            updates += message.complete_block(block, complete=not cut, raw=line.raw)
        return updates

    def _user(self, line: UserLine) -> list[Update]:
        updates: list[Update] = []
        results = 0
        for block in line.blocks:
            match block:
                case {"type": "tool_result", "tool_use_id": str(tool_use_id)}:
                    results += 1
                    # If this call started a subagent, the subagent has ended.
                    updates += self._close(tool_use_id)
                    updates.append(_tool_result(line, tool_use_id, block))
        if results < len(line.blocks) or not results:
            updates.append(OtherLine("user", line.raw))
        return updates

    def _stream_event(self, line: StreamEvent) -> list[Update] | None:
        """Return the updates of a stream event; None if it belongs to no open message."""
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

    def _message_start(self, line: StreamEvent) -> list[Update] | None:
        start = line.event.get("message")
        if line.message_id is None or not isinstance(start, dict):
            return None
        model, usage = start.get("model"), start.get("usage")
        message, updates = self._open(
            line.parent_tool_use_id, line.message_id, model if isinstance(model, str) else None
        )
        # A stream that starts again with the same id continues with new blocks.
        updates += message.cut_off()
        message.streamed = True
        message.add_usage(usage if isinstance(usage, dict) else {})
        return updates

    def _open(
        self, lane: _Lane, message_id: str, model: str | None
    ) -> tuple[MessageBuilder, list[Update]]:
        """Return the message of a line. A lane has one open message: the one before it ends."""
        updates: list[Update] = []
        current = self._current.get(lane)
        if current is not None and current.message_id != message_id:
            updates += self._close(lane)
        message = self._messages.get((lane, message_id))
        if message is None:
            message = MessageBuilder(message_id, lane)
            self._messages[lane, message_id] = message
            updates.append(MessageStarted(message_id, lane, model))
        message.model = message.model or model
        self._current[lane] = message
        return message, updates

    def _close(self, lane: _Lane, *, trusted: bool = True) -> list[Update]:
        message = self._current.pop(lane, None)
        return [] if message is None else message.finish(trusted=trusted)


def _message_delta(message: MessageBuilder, delta: dict[str, Any], usage: object) -> list[Update]:
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
