"""Facts into the tree and into the stream: what a running chat leaves behind.

Everything a fact causes is one transaction: the blob, its node, the event about it, its node,
and the head of the session. Knows nothing of processes and of who follows.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self
from uuid import UUID

from pydantic_core import to_json

from hubd.activation import Handle
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.handles import (
    EventRef,
    MessageRef,
    ToolResultRef,
    TurnRef,
    block_handle,
)
from hubd.plugins.claudecode.protocol.facts import (
    BlockDelta,
    BlockFinished,
    BlockStarted,
    Fact,
    MessageFinished,
    MessageStarted,
    Passed,
    SessionStarted,
    Skipped,
    ToolResult,
    TurnResult,
)
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Tx
from hubd.storage.streams import streams

# Which message of which speaker: a subagent has messages of its own.
MessageKey = tuple[str | None, str]

# A prompt, or an answer, as it is shown in one line.
PROMPT_SHOWN: Final = 200
# The program speaks for itself, mostly of errors; no model has said it, and none is sent it.
SYNTHETIC: Final = "<synthetic>"
# What a tool gave is in its blob, whole; an event about it has this much of it.
MAX_OUTPUT: Final = 64 * 1024
# Fields of the result line that the event which ends a chat leaves out.
_NOT_IN_EVENT: Final = frozenset(("type", "result", "uuid", "session_id"))


@dataclass
class OpenBlock:
    """A block that is still growing."""

    blob: bytes
    place: Place
    kind: str
    # As its blob holds it, without its text.
    data: dict[str, Any]


@dataclass
class OpenMessage:
    """A message that is still growing."""

    blob: bytes
    place: Place
    # As its blob holds it; `blocks` are the blobs of its blocks in order of arrival.
    data: dict[str, Any]
    # Those of its blocks that are not finished.
    blocks: dict[int, OpenBlock] = field(default_factory=dict)

    def copy(self) -> "OpenMessage":
        """Return a message that can change without changing this one."""
        data = {**self.data, "blocks": [*self.data["blocks"]]}
        return OpenMessage(self.blob, self.place, data, dict(self.blocks))


class Mirror:
    """One turn. Its methods run inside transactions, one after the other.

    A transaction may fail or run twice. It therefore changes a `copy`, which replaces the original
    once the transaction is on disk.
    """

    def __init__(
        self,
        session: store.SessionRow,
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
        # The digest of the system prompt, which messages carry: see resume.py.
        self._system_prompt = system_prompt
        # Set by `begin`.
        self.turn: Place
        self._turn_blob = b""
        self._turn: dict[str, Any] = {}
        self._event_origin = 0
        # Messages under way, and where calls of tools lie, by their ids.
        self._messages: dict[MessageKey, OpenMessage] = {}
        self._tool_uses: dict[str, Place] = {}
        # The messages that made those calls.
        self._callers: dict[str, Place] = {}
        # How many durable events there are.
        self.pushed = 0
        # Where the newest of them lies.
        self._last_event: Place | None = None
        # The last assistant message of the main conversation that was finished, and where an
        # answer without any leaves the conversation.
        self.last_message: Place | None = None
        self._before: Place
        # The program's own session, once it has said so.
        self.native_id: str | None = None
        # The result lines so far. Most turns have one; a background subagent adds another.
        self._results: tuple[TurnResult, ...] = ()

    @property
    def result(self) -> TurnResult | None:
        """The newest result line."""
        return self._results[-1] if self._results else None

    def copy(self) -> Self:
        """Return a mirror that can change without changing this one."""
        # Several times as fast as copy.copy, and every event needs one.
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
    ) -> None:
        """The turn, the user's message and the first two events.

        Args:
            tx: Where they are written.
            head: Below which node.
            prompt: What the user said.
            index: How many turns came before.
            now: The time.
            environment: Whose environment the program gets, if not its caller's.
        """
        self._event_origin = tree.origin(tx, EventRef(event_id=UUID(int=0), event_type="x").wire)
        self._before = head
        shown = prompt if len(prompt) <= PROMPT_SHOWN else f"{prompt[: PROMPT_SHOWN - 1]}…"
        self._turn = {
            "index": index,
            "session_id": ids.text(self._session.id),
            "prompt": shown,
            "engine": self._engine,
            "status": "running",
        }
        self._turn_blob = store.add_blob(tx, head.tree, "turn", self._turn, now, complete=False)
        reference = TurnRef(turn_id=UUID(bytes=self._turn_blob), turn_index=index)
        self.turn = tree.append(tx, head, tree.external(tx, reference.wire), now)
        content = [{"type": "text", "text": prompt}]
        data = {"role": "user", "content": content, "text": shown}
        said = store.add_blob(tx, head.tree, "message", data, now)
        # Nothing of the conversation follows below the user's message, only events.
        user = self._node(tx, self.turn, MessageRef(blob_id=UUID(bytes=said), role="user"), now)
        streams.start(tx, self._stream, user, now)
        store.add_turn(tx, self._stream, self._turn_blob, self._session.id, self._engine)
        store.set_engine(tx, self._session.key, self._engine)
        if not self._ephemeral:
            store.unset_native_head(tx, self._session.key)
        start: dict[str, Any] = {
            "id": ids.text(self._session.id),
            "turn_position": self._at(self.turn),
            "engine": self._engine,
        }
        if environment is not None:
            start["environment"] = environment
        self.push(tx, "start", start, now)
        self.push(tx, "user_message", {"position": self._at(user)}, now)

    def push(self, tx: Tx, event_type: str, fields: dict[str, Any], now: int) -> None:
        """One durable event."""
        data = to_json({"type": event_type, **fields}).decode()
        last = (self._last_event, self.pushed - 1) if self._last_event is not None else None
        self._last_event = streams.push(
            tx, self._stream, self._event_origin, event_type, data, now, last
        )
        self.pushed += 1

    def apply(self, tx: Tx, fact: Fact, now: int) -> None:
        """What one fact changes."""
        match fact:
            case SessionStarted():
                self.native_id = fact.session_id or self.native_id
                self._turn.update(model=fact.model, cwd=fact.cwd, native_id=self.native_id)
                self._turn["tools"] = list(fact.tools)
                store.grow_blob(tx, self._turn_blob, self._turn, complete=False)
            case MessageStarted():
                self._start_message(tx, fact, now)
            case BlockStarted():
                self._start_block(tx, fact, now)
            case BlockFinished():
                self._finish_block(tx, fact, now)
            case MessageFinished():
                self._finish_message(tx, fact, now)
            case ToolResult():
                self._tool_result(tx, fact, now)
            case TurnResult():
                self._results = (*self._results, fact)
                self.native_id = fact.session_id or self.native_id
            case Passed():
                fields = {"event_type": fact.event_type, "data": fact.raw}
                self.push(tx, "passthrough", fields, now)
            case Skipped():
                fields = {"event_type": "unreadable", "data": {"reason": fact.reason}}
                self.push(tx, "passthrough", fields, now)
            case BlockDelta():
                pass  # followers get it live; `flush` keeps the text

    def flush(self, tx: Tx, texts: dict[tuple[MessageKey, int], str]) -> None:
        """Keep the text so far of blocks that are still growing."""
        for (key, index), text in texts.items():
            message = self._messages.get(key)
            block = message.blocks.get(index) if message else None
            if block is not None:
                data = {**block.data, "block": {"type": block.kind, "text": text}}
                store.grow_blob(tx, block.blob, data, complete=False)

    def end(self, tx: Tx, status: streams.Status, now: int, error: str | None = None) -> None:
        """The turn is over: what it cost, where the session stands, the last event."""
        usage = dict(self.result.usage) if self.result else {}
        cost = self.result.cost_usd if self.result else None
        self._break_off(tx)
        self._turn.update(status=status, usage=usage, cost_usd=cost, error=error)
        self._turn["results"] = [result.raw for result in self._results]
        store.grow_blob(tx, self._turn_blob, self._turn, complete=True)
        store.end_turn(tx, self._stream, usage, cost)
        if status == "complete":
            if self.last_message is not None and not self._ephemeral and self.native_id:
                at = self.last_message.key
                store.set_native(tx, self._session.key, self.native_id, at, now)
            # An ephemeral chat does not move the session.
            head = self._before if self._ephemeral else self.last_message or self._before
            fields: dict[str, Any] = {
                "new_head": self._at(head),
                "claude_session_id": self.native_id,
                "usage": {**usage, "cost_usd": cost},
            }
        else:
            fields = {"message": error or status, "code": status}
        if self._results:
            fields["result"] = summary(self._results)
        self.push(tx, "complete" if status == "complete" else "error", fields, now)
        streams.set_status(tx, self._stream, status, now, error)
        store.forget_run(tx, self._stream)

    def _break_off(self, tx: Tx) -> None:
        """Mark what nobody has finished."""
        for message in self._messages.values():
            for block in message.blocks.values():
                store.break_off(tx, block.blob)
            store.break_off(tx, message.blob)

    def _start_message(self, tx: Tx, fact: MessageStarted, now: int) -> None:
        above = self._tool_uses.get(fact.parent_tool_use_id or "", self.turn)
        data: dict[str, Any] = {
            "role": "assistant",
            "message_id": fact.message_id,
            "engine": self._engine,
            "model": fact.model,
            "text": "",
            "blocks": [],
        }
        if self._system_prompt is not None:
            data["system_prompt_digest"] = self._system_prompt
        blob = store.add_blob(tx, above.tree, "message", data, now, complete=False)
        reference = MessageRef(blob_id=UUID(bytes=blob), role="assistant")
        # The conversation goes on below it, so it continues the turn's segment.
        side = fact.parent_tool_use_id is not None
        place = self._node(tx, above, reference, now, side=side)
        key = (fact.parent_tool_use_id, fact.message_id)
        self._messages[key] = OpenMessage(blob, place, data)

    def _start_block(self, tx: Tx, fact: BlockStarted, now: int) -> None:
        message = self._change((fact.parent_tool_use_id, fact.message_id))
        data: dict[str, Any] = {
            "block": {"type": fact.kind, "text": ""},
            "block_index": fact.index,
        }
        blob = store.add_blob(tx, message.place.tree, fact.kind, data, now, complete=False)
        reference = block_handle(fact.kind, blob, fact.index, fact.tool_use_id, fact.tool_name)
        place = self._node(tx, message.place, reference, now)
        # Everything that an event about the block needs, should the hub die before it is complete.
        data["growing"] = {"stream": self._stream, **self._block_fields(fact, place)}
        if fact.kind == "tool_use":
            data["growing"].update(tool_use_id=fact.tool_use_id, tool_name=fact.tool_name)
        store.grow_blob(tx, blob, data, complete=False)
        message.blocks[fact.index] = OpenBlock(blob, place, fact.kind, data)
        message.data["blocks"].append(ids.text(blob))
        store.grow_blob(tx, message.blob, message.data, complete=False)
        if fact.tool_use_id:
            self._tool_uses[fact.tool_use_id] = place
            self._callers[fact.tool_use_id] = message.place

    def _finish_block(self, tx: Tx, fact: BlockFinished, now: int) -> None:
        message = self._change((fact.parent_tool_use_id, fact.message_id))
        growing = message.blocks.pop(fact.index)
        block = fact.block
        text = str(block.get("text") or block.get("thinking") or "")
        data = {"block": block, "block_index": fact.index, "finished": fact.complete}
        common = self._block_fields(fact, growing.place)
        if not fact.complete:
            common["complete"] = False
        if fact.kind == "tool_use":
            fields = {
                "tool_use_id": block.get("id"),
                "tool_name": block.get("name"),
                "input": block.get("input"),
            }
            self.push(tx, "tool_use", {**fields, **common}, now)
        elif fact.kind in ("thinking", "content"):
            if fact.kind == "content" and len(message.data["text"]) < PROMPT_SHOWN:
                message.data["text"] += text[:PROMPT_SHOWN]
            self.push(tx, fact.kind, {"text": text, **common}, now)
        else:
            fields = {"event_type": f"block/{block.get('type')}", "data": block}
            self.push(tx, "passthrough", {**fields, **common}, now)
        store.grow_blob(tx, growing.blob, data, complete=True)

    def _finish_message(self, tx: Tx, fact: MessageFinished, now: int) -> None:
        key = (fact.parent_tool_use_id, fact.message_id)
        if key not in self._messages:
            return
        message = self._change(key)
        message.data.update(
            model=fact.model,
            uuids=list(fact.uuids),
            usage=fact.usage,
            stop_reason=fact.stop_reason,
            finished=fact.complete,
            native_id=self.native_id,
            turn_index=self._turn["index"],
        )
        store.grow_blob(tx, message.blob, message.data, complete=True)
        fields: dict[str, Any] = {"position": self._at(message.place)}
        if fact.parent_tool_use_id is not None:
            fields["parent_tool_use_id"] = fact.parent_tool_use_id
        self.push(tx, "assistant_message", fields, now)
        if fact.parent_tool_use_id is None and fact.complete and fact.model != SYNTHETIC:
            self.last_message = message.place
            if not self._ephemeral:
                store.move_head(tx, self._session.key, message.place.key, now)

    def _tool_result(self, tx: Tx, fact: ToolResult, now: int) -> None:
        # Below the message that called the tool, beside the call.
        above = self._callers.get(fact.tool_use_id, self.turn)
        data: dict[str, Any] = {"block": fact.block, "uuid": fact.uuid}
        extra = fact.raw.get("tool_use_result")
        if len(fact.output_text) <= MAX_OUTPUT and extra is not None:
            data["tool_use_result"] = extra
        blob = store.add_blob(tx, above.tree, "tool_result", data, now)
        reference = ToolResultRef(
            blob_id=UUID(bytes=blob), tool_use_id=fact.tool_use_id, is_error=fact.is_error
        )
        place = self._node(tx, above, reference, now)
        fields: dict[str, Any] = {
            "tool_use_id": fact.tool_use_id,
            "output": fact.output_text[:MAX_OUTPUT],
            "is_error": fact.is_error,
            "position": self._at(place),
            "block": str(reference),
        }
        if len(fact.output_text) > MAX_OUTPUT:
            fields["truncated"] = len(fact.output_text)
        if fact.parent_tool_use_id is not None:
            fields["parent_tool_use_id"] = fact.parent_tool_use_id
        self.push(tx, "tool_result", fields, now)

    def _change(self, key: MessageKey) -> OpenMessage:
        """Return a message to change; other copies of this mirror keep theirs."""
        self._messages[key] = self._messages[key].copy()
        return self._messages[key]

    def _block_fields(self, fact: BlockStarted | BlockFinished, place: Place) -> dict[str, Any]:
        """Return the fields that every event about a block has."""
        fields: dict[str, Any] = {
            "block_index": fact.index,
            "position": self._at(place),
            "message_id": fact.message_id,
        }
        if fact.parent_tool_use_id:
            fields["parent_tool_use_id"] = fact.parent_tool_use_id
        return fields

    def _node(self, tx: Tx, above: Place, handle: Handle, now: int, *, side: bool = True) -> Place:
        return tree.append(tx, above, tree.external(tx, handle.wire), now, side=side)

    def _at(self, place: Place) -> dict[str, str]:
        return {"tree_id": ids.text(self._session.tree_id), "node_id": ids.text(place.id)}


def summary(results: Sequence[TurnResult]) -> dict[str, Any]:
    """Return the fields of the result line for the event that ends a chat.

    The text of the answer is left out: the `content` events have it. If there are several result
    lines, the newest counts, with the denied tool calls of all.
    """
    fields = {name: value for name, value in results[-1].raw.items() if name not in _NOT_IN_EVENT}
    lists = [result.raw.get("permission_denials") for result in results]
    denials = [entry for each in lists if isinstance(each, list) for entry in each]
    distinct = {json.dumps(entry, sort_keys=True): entry for entry in denials}
    if distinct:
        fields["permission_denials"] = [*distinct.values()]
    return fields
