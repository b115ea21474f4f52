"""Write the updates of a running chat to its tree and its stream.

One update is one transaction: the blob and its node, the event about it and its node, and the
head of the session. This file knows nothing of processes and followers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, Self
from uuid import UUID

from pydantic_core import to_json

from hubd.activation import Handle
from hubd.conversations import attachments
from hubd.plugins.claudecode import chat_events, sessions, store
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.costs.usage import end_turn
from hubd.plugins.claudecode.handles import (
    EventRef,
    MessageRef,
    ToolResultRef,
    TurnRef,
    block_handle,
)
from hubd.plugins.claudecode.protocol.messages import ResultLine
from hubd.plugins.claudecode.protocol.updates import (
    BlockDelta,
    BlockFinished,
    BlockStarted,
    MessageFinished,
    MessageStarted,
    OtherLine,
    SessionStarted,
    ToolResult,
    UnreadableLine,
    Update,
)
from hubd.plugins.claudecode.record.block_events import (
    MAX_OUTPUT,
    block_event,
    block_fields,
    block_text,
    result_event,
)
from hubd.plugins.claudecode.record.open_messages import OpenBlock, OpenMessage
from hubd.plugins.claudecode.record.result_summary import summary
from hubd.plugins.claudecode.sessions import TABLE, SessionRow
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Tx
from hubd.storage.streams import streams
from hubd.wire.handle import WireHandle
from hubd.wire.text import shorten

# The tool call of the subagent (None for the main conversation), and the message id.
MessageKey = tuple[str | None, str]

# Characters of a prompt that the events of its chat repeat, for readers that join later.
PROMPT_LENGTH: Final = 2000
# Characters of a prompt or an answer that a turn or a message shows in one line.
TEXT_LENGTH: Final = 200
# The model of a message that the program wrote itself, mostly about errors. No model gets it.
SYNTHETIC: Final = "<synthetic>"


class Mirror:
    """The record of one turn. Its methods run inside transactions, one after the other.

    A transaction may fail or run twice. It therefore changes a `copy`, which replaces the original
    when the transaction is on disk.
    """

    def __init__(
        self,
        session: SessionRow,
        stream: int,
        engine: str,
        *,
        ephemeral: bool,
        system_prompt: str | None = None,
    ) -> None:
        self._session = session
        self._stream = stream
        self._engine = engine
        self._ephemeral = ephemeral
        # The digest of the system prompt; stored with each message for resume.py.
        self._system_prompt = system_prompt
        # Set by `begin`.
        self.turn: Place
        self._turn_blob = b""
        self._turn: dict[str, Any] = {}
        self._event_origin = 0
        # The messages so far, and the places of tool calls by their ids.
        self._messages: dict[MessageKey, OpenMessage] = {}
        self._tool_uses: dict[str, Place] = {}
        # The places of the messages with those calls.
        self._callers: dict[str, Place] = {}
        # The number of durable events.
        self.pushed = 0
        # The depth of the user's message; the events are a chain of nodes below it.
        self._anchor_depth = 0
        # The place of the newest of them.
        self._last_event: Place | None = None
        # The last complete assistant message of the main conversation, and the head of the
        # session before the turn, which stays the head without such a message.
        self.last_message: Place | None = None
        self._before: Place
        # The id of the program's own session; set by its first line.
        self.native_id: str | None = None
        # The result lines so far: one in most turns, another one for a background subagent.
        self._results: tuple[ResultLine, ...] = ()

    @property
    def result(self) -> ResultLine | None:
        """The newest result line."""
        return self._results[-1] if self._results else None

    def copy(self) -> Self:
        """Return a mirror that can change without changing this one."""
        # Several times as fast as copy.copy; each event needs a copy.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._turn = dict(self._turn)
        # Messages are copied when they change.
        twin._messages = dict(self._messages)
        twin._tool_uses = dict(self._tool_uses)
        twin._callers = dict(self._callers)
        return twin

    def begin(
        self,
        tx: Tx,
        head: Place,
        prompt: str,
        index: int,
        now: int,
        environment: Literal["daemon"] | None = None,
        attach: Sequence[WireHandle] = (),
    ) -> None:
        """Write the attachments, the turn, the user's message and the first two events.

        Args:
            tx: The running transaction.
            head: The node above the attachments and the turn.
            prompt: The prompt.
            index: The number of turns before this one.
            now: The time in seconds.
            environment: `daemon` if the program does not get its caller's environment.
            attach: The handles of the attachments.
        """
        self._event_origin = tree.origin(tx, EventRef(event_id=UUID(int=0), event_type="x").wire)
        self._before = head
        line = shorten(prompt, TEXT_LENGTH)
        end, nodes = attachments.put(tx, head, attach, now)
        attached = [node.model_dump() for node in nodes] or None
        self._turn = {
            "index": index,
            "session_id": ids.text(self._session.id),
            "prompt": line,
            "engine": self._engine,
            "status": "running",
            **({"attachments": attached} if attached else {}),
        }
        self._turn_blob = store.add_blob(
            tx, head.tree, self._session.id, "turn", self._turn, now, complete=False
        )
        reference = TurnRef(turn_id=UUID(bytes=self._turn_blob), turn_index=index)
        self.turn = tree.append(tx, end, tree.external(tx, reference.wire), now)
        content = [{"type": "text", "text": prompt}]
        data = {"role": "user", "content": content, "text": line}
        blob = store.add_blob(tx, head.tree, self._session.id, "message", data, now)
        # Only events follow below the user's message; the conversation continues at the turn.
        user = self._node(tx, self.turn, MessageRef(blob_id=UUID(bytes=blob), role="user"), now)
        streams.start(tx, self._stream, user, now)
        self._anchor_depth = user.depth
        store.add_turn(tx, self._stream, self._turn_blob, self._session.id, self._engine)
        sessions.set_engine(tx, self._session.key, self._engine)
        if not self._ephemeral:
            sessions.unset_native_head(tx, self._session.key)
        start = chat_events.Start.fields(
            id=ids.text(self._session.id),
            turn_position=self._at(self.turn),
            engine=self._engine,
            environment=environment,
            attachments=attached,
        )
        self.push(tx, start, now)
        beginning = shorten(prompt, PROMPT_LENGTH)
        message = chat_events.UserMessage.fields(position=self._at(user), prompt=beginning)
        self.push(tx, message, now)

    def restore(
        self,
        *,
        turn: Place,
        before: Place,
        turn_blob: bytes,
        turn_data: dict[str, Any],
        origin: int,
        tool_uses: dict[str, Place],
        callers: dict[str, Place],
        last_message: Place | None,
        anchor_depth: int,
        pushed: int,
    ) -> None:
        """Take over the state of a chat that has begun; restoration.py reads it."""
        self.turn, self._before = turn, before
        self._turn_blob, self._turn = turn_blob, turn_data
        self._event_origin = origin
        self._tool_uses, self._callers = tool_uses, callers
        self.last_message = last_message
        self._anchor_depth, self.pushed = anchor_depth, pushed
        self.native_id = turn_data.get("native_id")

    def finish_restored(
        self, tx: Tx, blob_id: bytes, place: Place, data: dict[str, Any], now: int
    ) -> None:
        """Finish a message that was open when its program ended."""
        key = (None, str(data.get("message_id")))
        self._messages[key] = OpenMessage(blob_id, place, data)
        self._finish_message(
            tx,
            MessageFinished(
                message_id=key[1],
                parent_tool_use_id=None,
                model=data.get("model"),
                uuids=tuple(data.get("uuids") or ()),
                usage=data.get("usage") or {},
                stop_reason=data.get("stop_reason"),
                complete=True,
            ),
            now,
        )

    def push(self, tx: Tx, event: dict[str, Any], now: int) -> None:
        """Add a durable event to the stream: see `ChatEvent.fields`."""
        event_type, data = event["type"], to_json(event).decode()
        last = (self._last_event, self.pushed - 1) if self._last_event is not None else None
        self._last_event = streams.push(
            tx, self._stream, self._event_origin, event_type, data, now, last
        )
        # Approvals add events to the same chain, so this one may not follow the last one here.
        self.pushed = self._last_event.depth - self._anchor_depth

    def apply(self, tx: Tx, update: Update, now: int) -> None:
        """Write one update."""
        match update:
            case SessionStarted():
                self.native_id = update.session_id or self.native_id
                self._turn.update(model=update.model, cwd=update.cwd, native_id=self.native_id)
                self._turn["tools"] = list(update.tools)
                store.grow_blob(tx, self._turn_blob, self._turn, complete=False)
            case MessageStarted():
                self._start_message(tx, update, now)
            case BlockStarted():
                self._start_block(tx, update, now)
            case BlockFinished():
                self._finish_block(tx, update, now)
            case MessageFinished():
                self._finish_message(tx, update, now)
            case ToolResult():
                self._tool_result(tx, update, now)
            case ResultLine():
                self._results = (*self._results, update)
                self.native_id = update.session_id or self.native_id
            case OtherLine():
                event = chat_events.Passthrough.fields(
                    event_type=update.event_type, data=update.raw
                )
                self.push(tx, event, now)
            case UnreadableLine():
                reason = {"reason": update.reason}
                self.push(
                    tx, chat_events.Passthrough.fields(event_type="unreadable", data=reason), now
                )
            case BlockDelta():
                pass  # followers get it live; `flush` stores the text

    def flush(self, tx: Tx, texts: dict[tuple[MessageKey, int], str]) -> None:
        """Store the text so far of unfinished blocks."""
        for (key, index), text in texts.items():
            message = self._messages.get(key)
            block = message.blocks.get(index) if message else None
            if block is not None:
                data = {**block.data, "block": {"type": block.kind, "text": text}}
                store.grow_blob(tx, block.blob, data, complete=False)

    def end(self, tx: Tx, status: streams.Status, now: int, error: str | None = None) -> None:
        """End the turn: store its costs, move the session's head, and add the last event."""
        usage = dict(self.result.usage) if self.result else {}
        cost = self.result.cost_usd if self.result else None
        self._break_off(tx)
        self._turn.update(status=status, usage=usage, cost_usd=cost, error=error)
        self._turn["results"] = [result.raw for result in self._results]
        store.grow_blob(tx, self._turn_blob, self._turn, complete=True)
        end_turn(tx, self._stream, self._session.id, self.result, self._turn, now)
        result = summary(self._results) if self._results else None
        if status == "complete":
            if self.last_message is not None and not self._ephemeral and self.native_id:
                at = self.last_message.key
                sessions.set_native(tx, self._session.key, self.native_id, at, now)
            # An ephemeral chat does not move the head.
            head = self._before if self._ephemeral else self.last_message or self._before
            event = chat_events.Complete.fields(
                new_head=self._at(head),
                claude_session_id=self.native_id,
                usage={**usage, "cost_usd": cost},
                result=result,
            )
        else:
            event = chat_events.Error.fields(message=error or status, code=status, result=result)
        reason = error or "the chat is complete"
        approvals.end_all(tx, self._stream, reason, now, lost=status == "interrupted")
        self.push(tx, event, now)
        streams.set_status(tx, self._stream, status, now, error)
        store.forget_run(tx, self._stream)
        store.forget_request(tx, self._stream)

    def _break_off(self, tx: Tx) -> None:
        """Mark unfinished blocks and messages as cut off."""
        for message in self._messages.values():
            for block in message.blocks.values():
                store.break_off(tx, block.blob)
            store.break_off(tx, message.blob)

    def _start_message(self, tx: Tx, update: MessageStarted, now: int) -> None:
        above = self._tool_uses.get(update.parent_tool_use_id or "", self.turn)
        data: dict[str, Any] = {
            "role": "assistant",
            "message_id": update.message_id,
            "engine": self._engine,
            "model": update.model,
            "text": "",
            "blocks": [],
        }
        if self._system_prompt is not None:
            data["system_prompt_digest"] = self._system_prompt
        blob = store.add_blob(
            tx, above.tree, self._session.id, "message", data, now, complete=False
        )
        reference = MessageRef(blob_id=UUID(bytes=blob), role="assistant")
        # The conversation continues below the message, so it stays in the turn's segment.
        side = update.parent_tool_use_id is not None
        place = self._node(tx, above, reference, now, side=side)
        key = (update.parent_tool_use_id, update.message_id)
        self._messages[key] = OpenMessage(blob, place, data)

    def _start_block(self, tx: Tx, update: BlockStarted, now: int) -> None:
        message = self._change((update.parent_tool_use_id, update.message_id))
        data: dict[str, Any] = {
            "block": {"type": update.kind, "text": ""},
            "block_index": update.index,
        }
        blob = store.add_blob(
            tx, message.place.tree, self._session.id, update.kind, data, now, complete=False
        )
        reference = block_handle(
            update.kind, blob, update.index, update.tool_use_id, update.tool_name
        )
        place = self._node(tx, message.place, reference, now)
        # The fields of the event about the block, in case the hub dies before it is complete.
        fields = block_fields(update, self._at(place))
        data["growing"] = {
            "stream": self._stream,
            **{name: value for name, value in fields.items() if value is not None},
        }
        if update.kind == "tool_use":
            data["growing"].update(tool_use_id=update.tool_use_id, tool_name=update.tool_name)
        store.grow_blob(tx, blob, data, complete=False)
        message.blocks[update.index] = OpenBlock(blob, place, update.kind, data)
        message.data["blocks"].append(ids.text(blob))
        store.grow_blob(tx, message.blob, message.data, complete=False)
        if update.tool_use_id:
            self._tool_uses[update.tool_use_id] = place
            self._callers[update.tool_use_id] = message.place

    def _finish_block(self, tx: Tx, update: BlockFinished, now: int) -> None:
        message = self._change((update.parent_tool_use_id, update.message_id))
        growing = message.blocks.pop(update.index)
        if update.kind == "content" and len(message.data["text"]) < TEXT_LENGTH:
            message.data["text"] += block_text(update.block)[:TEXT_LENGTH]
        self.push(tx, block_event(update, self._at(growing.place)), now)
        data = {"block": update.block, "block_index": update.index, "finished": update.complete}
        store.grow_blob(tx, growing.blob, data, complete=True)

    def _finish_message(self, tx: Tx, update: MessageFinished, now: int) -> None:
        key = (update.parent_tool_use_id, update.message_id)
        if key not in self._messages:
            return
        message = self._change(key)
        message.data.update(
            model=update.model,
            uuids=list(update.uuids),
            usage=update.usage,
            stop_reason=update.stop_reason,
            finished=update.complete,
            native_id=self.native_id,
            turn_index=self._turn["index"],
        )
        store.grow_blob(tx, message.blob, message.data, complete=True)
        event = chat_events.AssistantMessage.fields(
            position=self._at(message.place), parent_tool_use_id=update.parent_tool_use_id
        )
        self.push(tx, event, now)
        if update.parent_tool_use_id is None and update.complete and update.model != SYNTHETIC:
            self.last_message = message.place
            if not self._ephemeral:
                TABLE.set_head(tx, self._session.key, message.place.key, now)

    def _tool_result(self, tx: Tx, update: ToolResult, now: int) -> None:
        approvals.finish_call(tx, self._stream, update.tool_use_id)
        # A child of the message with the call, beside the call.
        above = self._callers.get(update.tool_use_id, self.turn)
        data: dict[str, Any] = {"block": update.block, "uuid": update.uuid}
        extra = update.raw.get("tool_use_result")
        if len(update.output_text) <= MAX_OUTPUT and extra is not None:
            data["tool_use_result"] = extra
        blob = store.add_blob(tx, above.tree, self._session.id, "tool_result", data, now)
        reference = ToolResultRef(
            blob_id=UUID(bytes=blob), tool_use_id=update.tool_use_id, is_error=update.is_error
        )
        place = self._node(tx, above, reference, now)
        self.push(tx, result_event(update, self._at(place), reference), now)

    def _change(self, key: MessageKey) -> OpenMessage:
        """Return a copy of a message to change; other copies of this mirror keep theirs."""
        self._messages[key] = self._messages[key].copy()
        return self._messages[key]

    def _node(self, tx: Tx, above: Place, handle: Handle, now: int, *, side: bool = True) -> Place:
        return tree.append(tx, above, tree.external(tx, handle.wire), now, side=side)

    def _at(self, place: Place) -> dict[str, str]:
        return {"tree_id": ids.text(self._session.tree_id), "node_id": ids.text(place.id)}
