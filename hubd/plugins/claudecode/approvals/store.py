"""The rows of approvals. Each change of a chat's approval is also an event of its stream.

An approval of a chat needs no process: it stays `pending` until it is answered, also after a
restart. `call_state` is the progress of the tool call:

    waiting ── just before the agent gets "allow" ──▶ started ── result ──▶ done
       └───────────── the result of a denied call ─────────────────────────▶ done

A `waiting` call can be continued by another process. A `started` call is never repeated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from pydantic_core import from_json, to_json

from hubd.errors import Ambiguous, InvalidParams, NotFound
from hubd.plugins.claudecode import chat_events
from hubd.plugins.claudecode.approvals.summary import summary
from hubd.plugins.claudecode.handles import ApprovalRef, EventRef
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams

Status = Literal["pending", "approved", "denied", "timed_out", "withdrawn", "lost"]
Approver = Literal["human", "parent", "parent_then_human"]

# Every change of any approval is written under this topic.
ALL: Final = ("approvals",)

SUBAGENT: Final = "a subagent's call can't be continued without its process"

_COLUMNS: Final = (
    "key, id, asker, session_id, session_name, stream, tool_use_id, agent_id, tool_name, input, "
    "working_dir, approver, ancestors, escalate_at, deadline_at, status, call_state, message, "
    "updated_input, decided_by, created_at, resolved_at"
)
_SELECT: Final = f"SELECT {_COLUMNS} FROM claudecode_approvals"


class ApprovalRow(NamedTuple):
    """An approval. `input`, `updated_input` and `ancestors` are JSON texts."""

    key: int
    id: bytes
    # The actor that asks, as text.
    asker: str
    # None if no session of this hub asks.
    session_id: bytes | None
    session_name: str | None
    stream: int | None
    tool_use_id: str
    # The subagent that makes the call; None for the main agent.
    agent_id: str | None
    tool_name: str
    input: str
    working_dir: str | None
    approver: Approver
    # The actors that started the asking session, directly or through others, the nearest first.
    ancestors: str
    # The time from which people are asked too; None if they are asked at once or never.
    escalate_at: int | None
    deadline_at: int
    status: Status
    call_state: Literal["waiting", "started", "done"]
    message: str | None
    updated_input: str | None
    decided_by: str | None
    created_at: int
    resolved_at: int | None

    @property
    def topic(self) -> tuple[str, int]:
        """The topic of this approval."""
        return ("approval", self.key)

    @property
    def ref(self) -> ApprovalRef:
        """The handle of this approval."""
        return ApprovalRef(approval_id=UUID(bytes=self.id))

    def public(self) -> dict[str, Any]:
        """Return the approval as clients see it."""
        tool_input = from_json(self.input)
        fields = {
            "id": ids.text(self.id),
            "session_id": ids.text(self.session_id) if self.session_id else None,
            "session_name": self.session_name,
            "tool_name": self.tool_name,
            "tool_use_id": self.tool_use_id,
            "agent_id": self.agent_id,
            "input": tool_input,
            "summary": summary(tool_input),
            "working_dir": self.working_dir,
            "status": self.status,
            "approver": self.approver,
            "message": self.message,
            "updated_input": from_json(self.updated_input) if self.updated_input else None,
            "by": self.decided_by,
            "created_at": self.created_at,
            "deadline_at": self.deadline_at,
            "resolved_at": self.resolved_at,
            "handle": str(self.ref),
        }
        return {name: value for name, value in fields.items() if value is not None}


class NewApproval(NamedTuple):
    """A question that an agent asks."""

    asker: str
    tool_name: str
    tool_use_id: str
    # JSON text.
    input: str
    deadline_at: int
    approver: Approver = "human"
    ancestors: Sequence[str] = ()
    escalate_at: int | None = None
    session_id: bytes | None = None
    session_name: str | None = None
    stream: int | None = None
    agent_id: str | None = None
    working_dir: str | None = None


class Resolution(NamedTuple):
    """The answer to an approval, or the reason why it needs none."""

    status: Status
    # An actor as text, `rule:ID`, `deadline` or `hub`.
    by: str
    message: str | None = None
    # JSON text.
    updated_input: str | None = None

    @property
    def approved(self) -> bool:
        """Whether the tool may run."""
        return self.status == "approved"


def ask(tx: Tx, new: NewApproval, now: int) -> ApprovalRow:
    """Store a question; of a chat also its event and its status."""
    approval_id = ids.uuid4()
    key = tx.raw.execute(
        "INSERT INTO claudecode_approvals (id, asker, session_id, session_name, stream, "
        "tool_use_id, agent_id, tool_name, input, working_dir, approver, ancestors, escalate_at, "
        "deadline_at, status, call_state, created_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', 'waiting', ?)",
        (
            approval_id,
            new.asker,
            new.session_id,
            new.session_name,
            new.stream,
            new.tool_use_id,
            new.agent_id,
            new.tool_name,
            new.input,
            new.working_dir,
            new.approver,
            json.dumps(list(new.ancestors)),
            new.escalate_at,
            new.deadline_at,
            now,
        ),
    ).lastrowid
    assert key is not None
    row = by_key(tx, key)
    if new.stream is not None:
        stream = streams.by_key(tx, new.stream)
        event = chat_events.AwaitingApproval.fields(
            approval_id=ids.text(row.id),
            tool_name=row.tool_name,
            tool_use_id=row.tool_use_id,
            input=from_json(row.input),
            session_id=ids.text(stream.session_id),
            stream_id=ids.text(stream.id),
            approval=str(row.ref),
            agent_id=row.agent_id,
        )
        _push(tx, new.stream, event, now)
        streams.set_status(tx, new.stream, "awaiting_permission", now)
    tx.topics += [ALL, row.topic]
    return row


def resolve(tx: Tx, row: ApprovalRow, resolution: Resolution, now: int) -> ApprovalRow:
    """End a pending approval; of a chat also with its event. The chat then runs again.

    Returns:
        The approval. It is unchanged if it was not pending any more.
    """
    changed = tx.raw.execute(
        "UPDATE claudecode_approvals SET status = ?, decided_by = ?, message = ?, "
        "updated_input = ?, resolved_at = ? WHERE key = ? AND status = 'pending'",
        (
            resolution.status,
            resolution.by,
            resolution.message,
            resolution.updated_input,
            now,
            row.key,
        ),
    ).rowcount
    if changed and row.stream is not None:
        stream = streams.by_key(tx, row.stream)
        if stream.status in streams.OPEN:
            edited = resolution.updated_input
            event = chat_events.ApprovalResolved.fields(
                approval_id=ids.text(row.id),
                approved=resolution.approved,
                status=resolution.status,
                by=resolution.by,
                message=resolution.message,
                updated_input=from_json(edited) if edited else None,
            )
            _push(tx, row.stream, event, now)
            if stream.status == "awaiting_permission" and not pending_of(tx, row.stream):
                streams.set_status(tx, row.stream, "running", now)
    tx.topics += [ALL, row.topic]
    return by_key(tx, row.key)


def end_all(tx: Tx, stream: int, reason: str, now: int, *, lost: bool = False) -> None:
    """End the approvals of a chat that ends.

    A pending approval is withdrawn. An approved call that has not started is lost: the next turn
    tells the agent about it.

    Args:
        tx: The running transaction.
        stream: The key of the stream.
        reason: The reason, in words.
        now: The time in seconds.
        lost: Whether the hub can't continue the chat. Pending approvals are then lost too, and the
            next turn also tells the agent about denials that it may not have received.
    """
    for row in pending_of(tx, stream):
        why = SUBAGENT if lost and row.agent_id is not None else reason
        resolve(tx, row, Resolution("lost" if lost else "withdrawn", "hub", why), now)
    decided = ("approved", "denied", "timed_out") if lost else ("approved",)
    for row in of_stream(tx, stream):
        if row.call_state == "waiting" and row.status in decided:
            tx.raw.execute(
                "UPDATE claudecode_approvals SET status = 'lost', message = ? WHERE key = ?",
                (_undelivered(row, reason), row.key),
            )
            tx.topics += [ALL, row.topic]


def _undelivered(row: ApprovalRow, reason: str) -> str:
    """Return the decision about a call in words, and why the agent did not get it."""
    if row.status == "approved":
        edit = f" with the input {row.updated_input}" if row.updated_input else ""
        return f"approved by {row.decided_by}{edit}, but not carried out: {reason}"
    words = f": {row.message}" if row.message else ""
    return f"denied by {row.decided_by}{words} ({reason})"


def start_call(tx: Tx, key: int) -> bool:
    """Note that a tool call starts.

    Returns:
        False if the call has started before, in this chat or in another one of the same tree: a
        fork may have the same call.
    """
    return (
        tx.raw.execute(
            "UPDATE claudecode_approvals AS own SET call_state = 'started' "
            "WHERE own.key = ? AND own.call_state = 'waiting' AND NOT EXISTS ("
            "SELECT 1 FROM claudecode_approvals AS other "
            "JOIN chat_streams AS s ON s.key = other.stream "
            "WHERE other.tool_use_id = own.tool_use_id AND own.tool_use_id != '' "
            "AND other.stream != own.stream AND other.call_state != 'waiting' "
            "AND other.status = 'approved' "
            "AND s.tree = (SELECT tree FROM chat_streams WHERE key = own.stream))",
            (key,),
        ).rowcount
        == 1
    )


def finish_call(tx: Tx, stream: int, tool_use_id: str) -> None:
    """Note that the result of a tool call is there."""
    tx.raw.execute(
        "UPDATE claudecode_approvals SET call_state = 'done' WHERE stream = ? AND tool_use_id = ?",
        (stream, tool_use_id),
    )


def by_key(tx: Tx, key: int) -> ApprovalRow:
    """Return an approval that exists."""
    return ApprovalRow._make(tx.raw.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone())


def newest_of_call(tx: Tx, stream: int, tool_use_id: str) -> ApprovalRow | None:
    """Return the newest approval of a call in a chat, if there is one."""
    sql = f"{_SELECT} WHERE stream = ? AND tool_use_id = ? ORDER BY key DESC LIMIT 1"
    row = tx.raw.execute(sql, (stream, tool_use_id)).fetchone()
    return ApprovalRow._make(row) if row else None


def is_new_call(tx: Tx, stream: int, tool_use_id: str) -> bool:
    """Return whether a chat has made a call more often than it has asked about it.

    The same id twice is rare, but a program may use it again. A program that continues a call
    after a restart asks again without a new call.
    """
    [calls] = tx.raw.execute(
        f"SELECT count(*) FROM {streams.EVENTS_OF_STREAM} WHERE s.key = ? "
        "AND e.event_type = 'tool_use' AND e.event_data ->> 'tool_use_id' = ?",
        (stream, tool_use_id),
    ).fetchone()
    [questions] = tx.raw.execute(
        "SELECT count(*) FROM claudecode_approvals WHERE stream = ? AND tool_use_id = ?",
        (stream, tool_use_id),
    ).fetchone()
    return bool(calls > questions)


def pending_of(tx: Tx, stream: int) -> list[ApprovalRow]:
    """Return the pending approvals of a chat, the oldest first."""
    sql = f"{_SELECT} WHERE stream = ? AND status = 'pending' ORDER BY key"
    return [ApprovalRow._make(row) for row in tx.raw.execute(sql, (stream,)).fetchall()]


def of_stream(tx: Tx, stream: int) -> list[ApprovalRow]:
    """Return all approvals of a chat, the oldest first."""
    rows = tx.raw.execute(f"{_SELECT} WHERE stream = ? ORDER BY key", (stream,)).fetchall()
    return [ApprovalRow._make(row) for row in rows]


async def read_pending_of(db: Database, stream: int) -> list[ApprovalRow]:
    """Return the same as `pending_of`, outside a transaction."""
    sql = f"{_SELECT} WHERE stream = ? AND status = 'pending' ORDER BY key"
    return [ApprovalRow._make(row) for row in await db.fetch_rows(sql, stream)]


async def all_pending(db: Database) -> list[ApprovalRow]:
    """Return all pending approvals, the oldest first."""
    rows = await db.fetch_rows(f"{_SELECT} WHERE status = 'pending' ORDER BY key")
    return [ApprovalRow._make(row) for row in rows]


async def reread(db: Database, key: int) -> ApprovalRow:
    """Return an approval that exists, outside a transaction."""
    [row] = await db.fetch_rows(f"{_SELECT} WHERE key = ?", key)
    return ApprovalRow._make(row)


async def look_up(db: Database, written: str) -> ApprovalRow:
    """Return an approval by its id, or by first digits of it that no other has.

    Raises:
        InvalidParams, NotFound, Ambiguous: The text is not an id, or none or several match.
    """
    span = ids.span(written)
    if span is None:
        raise InvalidParams(f"'{written[:80]}' is not the id of an approval")
    rows = await db.fetch_rows(f"{_SELECT} WHERE id BETWEEN ? AND ? LIMIT 2", *span)
    if not rows:
        raise NotFound(
            f"no approval {written}",
            suggestion="List the pending ones with `synapse loopback pending`",
        )
    if len(rows) > 1:
        raise Ambiguous(
            f"more than one approval has an id that starts with {written}",
            suggestion="Give more digits",
            available=[ids.text(row[1]) for row in rows],
        )
    return ApprovalRow._make(rows[0])


async def page(
    db: Database,
    before: int | None,
    limit: int,
    *,
    session_id: bytes | None = None,
    status: Status | None = None,
) -> list[ApprovalRow]:
    """Return approvals before a key, the newest first; optionally of one session or status."""
    rows = await db.fetch_rows(
        f"{_SELECT} WHERE key < ?1 AND (?2 IS NULL OR session_id = ?2) "
        "AND (?3 IS NULL OR status = ?3) ORDER BY key DESC LIMIT ?4",
        2**62 if before is None else before,
        session_id,
        status,
        limit,
    )
    return [ApprovalRow._make(row) for row in rows]


def unreported(tx: Tx, session_id: bytes) -> list[ApprovalRow]:
    """Return the calls of a session with an end that must still be reported to its agent.

    They are lost, or they had started when their chat ended.
    """
    sql = (
        f"{_SELECT} WHERE session_id = ?1 AND told = 0 AND (status = 'lost' OR ("
        "call_state = 'started' AND stream IN (SELECT key FROM chat_streams "
        "WHERE session_id = ?1 AND ended_at IS NOT NULL))) ORDER BY key"
    )
    return [ApprovalRow._make(row) for row in tx.raw.execute(sql, (session_id,)).fetchall()]


def mark_reported(tx: Tx, keys: Sequence[int]) -> None:
    """Note that the end of these calls was reported to the agent."""
    sql = "UPDATE claudecode_approvals SET told = 1 WHERE key = ?"
    tx.raw.executemany(sql, [(key,) for key in keys])


def _push(tx: Tx, stream: int, event: dict[str, Any], now: int) -> None:
    origin = tree.origin(tx, EventRef(event_id=UUID(int=0), event_type="x").wire)
    streams.push(tx, stream, origin, event["type"], to_json(event).decode(), now)
