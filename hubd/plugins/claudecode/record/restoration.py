"""Read the record of a chat back from the database, to continue it without its first process."""

from typing import Any, NamedTuple
from uuid import UUID

from pydantic_core import from_json

from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.handles import EventRef
from hubd.plugins.claudecode.record.mirror import SYNTHETIC, Mirror
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Tx
from hubd.storage.streams import streams

_PLACE = "n.key, n.id, n.tree, n.segment, n.depth, n.lane"
_BY_ID = f"SELECT {_PLACE} FROM arbor_nodes AS n WHERE n.id = ?"
_PARENT = f"""
    SELECT {_PLACE} FROM arbor_nodes AS c JOIN arbor_nodes AS n
        ON n.key = c.parent
            OR (c.parent IS NULL AND n.segment = c.segment AND n.depth = c.depth - 1)
    WHERE c.key = ?
"""


class Restored(NamedTuple):
    """The state of a chat that another process continues."""

    mirror: Mirror
    # The results of tool calls so far, by call: the block and the id of its entry.
    results: dict[str, dict[str, Any]]
    # The calls whose subagents have begun.
    subagents: set[str]


def restore(tx: Tx, mirror: Mirror, stream: streams.StreamRow, now: int) -> Restored:
    """Give a new mirror the state of a chat that has begun.

    A message that was open when its program ended is finished: the program does not print it
    again.

    Args:
        tx: The running transaction.
        mirror: A mirror of the same session and stream.
        stream: The stream of the chat.
        now: The time in seconds.
    """
    anchor, anchor_depth = tx.raw.execute(
        "SELECT n.key, n.depth FROM chat_streams AS s JOIN arbor_nodes AS n ON n.key = s.anchor "
        "WHERE s.key = ?",
        (stream.key,),
    ).fetchone()
    turn = _parent(tx, anchor)
    [blob_id] = tx.raw.execute(
        "SELECT blob FROM claudecode_turns WHERE stream = ?", (stream.key,)
    ).fetchone()
    origin = tree.origin(tx, EventRef(event_id=UUID(int=0), event_type="x").wire)
    restored = Restored(mirror, {}, set())
    tool_uses: dict[str, Place] = {}
    callers: dict[str, Place] = {}
    last: Place | None = None
    for event_type, event in _events(tx, stream.key):
        place = _by_id(tx, event["position"]["node_id"])
        if parent := event.get("parent_tool_use_id"):
            restored.subagents.add(parent)
        if event_type == "tool_result":
            restored.results[event["tool_use_id"]] = _blob(tx, place)
        elif event_type == "tool_use" and event.get("tool_use_id"):
            tool_uses[event["tool_use_id"]] = place
            callers[event["tool_use_id"]] = _parent(tx, place.key)
        elif event_type == "assistant_message" and not parent and _is_answer(_blob(tx, place)):
            last = place
    turn_data = store.data_of(tx, blob_id)
    attached = turn_data.get("attachments")
    first = _by_id(tx, attached[0]["node_id"]) if attached else turn
    mirror.restore(
        turn=turn,
        before=_parent(tx, first.key),
        turn_blob=blob_id,
        turn_data=turn_data,
        origin=origin,
        tool_uses=tool_uses,
        callers=callers,
        last_message=last,
        anchor_depth=anchor_depth,
        pushed=stream.next_seq,
    )
    for place in dict.fromkeys(callers.values()):
        # Messages of subagents are below the calls that started them.
        if _parent(tx, place.key).key == turn.key:
            _finish_message(tx, mirror, place, now)
    return restored


def _is_answer(message: dict[str, Any]) -> bool:
    """Return whether the head of a session may be at a message."""
    return message.get("finished") is not False and message.get("model") != SYNTHETIC


def _blob(tx: Tx, place: Place) -> dict[str, Any]:
    """Return the data behind a node's handle."""
    [meta] = tx.raw.execute("SELECT meta FROM arbor_nodes WHERE key = ?", (place.key,)).fetchone()
    return store.data_of(tx, UUID(meta.partition(":")[0]).bytes)


def _finish_message(tx: Tx, mirror: Mirror, place: Place, now: int) -> None:
    """Finish the message at a node if it is not complete."""
    [meta] = tx.raw.execute("SELECT meta FROM arbor_nodes WHERE key = ?", (place.key,)).fetchone()
    blob_id = UUID(meta.partition(":")[0]).bytes
    row = tx.raw.execute(
        "SELECT data FROM claudecode_blobs WHERE id = ? AND complete = 0", (blob_id,)
    ).fetchone()
    if row is not None:
        mirror.finish_restored(tx, blob_id, place, from_json(row[0]), now)


def _events(tx: Tx, stream: int) -> list[tuple[str, dict[str, Any]]]:
    rows = tx.raw.execute(
        f"SELECT e.event_type, e.event_data FROM {streams.EVENTS_OF_STREAM} WHERE s.key = ? "
        "AND e.event_type IN ('tool_use', 'tool_result', 'assistant_message') ORDER BY n.depth",
        (stream,),
    ).fetchall()
    return [(event_type, from_json(data)) for event_type, data in rows]


def _by_id(tx: Tx, node_id: str) -> Place:
    return Place._make(tx.raw.execute(_BY_ID, (UUID(node_id).bytes,)).fetchone())


def _parent(tx: Tx, key: int) -> Place:
    return Place._make(tx.raw.execute(_PARENT, (key,)).fetchone())
