"""The store of claudecode keeps no state outside of its transactions."""

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from hubd.conversations.heads import NewHead
from hubd.plugins.claudecode import sessions, store
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.approvals.store import ApprovalRow, NewApproval, Resolution
from hubd.plugins.claudecode.costs import usage
from hubd.plugins.claudecode.protocol.messages import ResultLine
from hubd.plugins.claudecode.sessions import SESSIONS, TABLE, Columns, SessionRow
from hubd.plugins.claudecode.tables import MIGRATIONS
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Tx
from hubd.storage.streams import streams
from tests.storage.rerun import NOW, assert_keeps_no_state, database, transaction_functions

BLOCK: dict[str, Any] = {"block": {"text": "half"}, "growing": {"stream": 1}}
LONG = {"block": {"text": "x" * store.MAX_DATA_BYTES}}
RESULT = ResultLine("success", False, "", None, {"input_tokens": 1}, 0.5, 1, None, None, {})
REQUEST = '{"prompt": "hello"}'
CALL = "toolu_1"
APPROVED = Resolution("approved", "person")


class World(NamedTuple):
    """The rows with which each function runs. Streams and blobs are named by their keys and ids."""

    session: SessionRow
    node: Place
    running: int
    waiting: int
    turn: bytes
    block: bytes
    approval: ApprovalRow


CASES: dict[str, Callable[[Tx, World], object]] = {
    "sessions.SessionTable.find": lambda tx, w: TABLE.find(tx, w.session.name),
    "sessions.SessionTable.is_taken": lambda tx, w: TABLE.is_taken(tx, w.session.name),
    "sessions.SessionTable.insert": lambda tx, w: TABLE.insert(
        tx, NewHead(ids.uuid4(), "new", w.node, NOW), Columns("/")
    ),
    "sessions.SessionTable.set_head": lambda tx, w: TABLE.set_head(
        tx, w.session.key, w.node.key, NOW
    ),
    "sessions.SessionTable.delete": lambda tx, w: TABLE.delete(tx, w.session.key),
    "sessions.SessionTable.is_busy": lambda tx, w: TABLE.is_busy(tx, w.session),
    "sessions.set_options": lambda tx, w: sessions.set_options(tx, w.session.key, '{"a":1}', NOW),
    "sessions.set_engine": lambda tx, w: sessions.set_engine(tx, w.session.key, "offline"),
    "sessions.unset_native_head": lambda tx, w: sessions.unset_native_head(tx, w.session.key),
    "sessions.set_native": lambda tx, w: sessions.set_native(
        tx, w.session.key, "native", w.node.key, NOW
    ),
    "store.place_of": lambda tx, w: store.place_of(tx, w.node.key),
    "store.add_blob": lambda tx, w: [
        store.add_blob(tx, w.session.tree, w.session.id, "content", data, NOW)
        for data in (BLOCK, LONG, LONG)
    ],
    "store.data_of": lambda tx, w: store.data_of(tx, w.block),
    "store.grow_blob": lambda tx, w: store.grow_blob(tx, w.block, {"block": {}}, complete=True),
    "store.break_off": lambda tx, w: store.break_off(tx, w.block),
    "store.growing_blocks": lambda tx, w: store.growing_blocks(tx, w.session.tree),
    "store.close_blobs": lambda tx, w: store.close_blobs(tx, w.session.tree),
    "store.add_turn": lambda tx, w: store.add_turn(tx, w.waiting, w.turn, w.session.id, "offline"),
    "costs.usage.end_turn": lambda tx, w: list(
        map(partial(usage.end_turn, tx, w.running, w.session.id), [RESULT], [{}], [NOW])
    ),
    "store.interrupt_turn": lambda tx, w: store.interrupt_turn(tx, w.running),
    "store.note_run": lambda tx, w: store.note_run(tx, w.running, 4711, "now"),
    "store.forget_run": lambda tx, w: store.forget_run(tx, w.running),
    "store.imported": lambda tx, _: store.imported(tx, "native"),
    "store.note_import": lambda tx, w: store.note_import(tx, "native", w.session.id, "uuid"),
    "store.enqueue": lambda tx, w: store.enqueue(tx, w.running, REQUEST),
    "store.dequeue": lambda tx, w: store.dequeue(tx, w.waiting),
    "store.keep_request": lambda tx, w: store.keep_request(tx, w.waiting, REQUEST),
    "store.set_native_file": lambda tx, w: store.set_native_file(tx, w.running, "/a.jsonl"),
    "store.forget_request": lambda tx, w: store.forget_request(tx, w.running),
    "store.kept_request": lambda tx, w: store.kept_request(tx, w.running),
    "approvals.store.ask": lambda tx, w: approvals.ask(tx, question(w, "toolu_new"), NOW),
    "approvals.store.resolve": lambda tx, w: approvals.resolve(tx, w.approval, APPROVED, NOW),
    "approvals.store.end_all": lambda tx, w: approvals.end_all(
        tx, w.running, "the hub ended", NOW, lost=True
    ),
    "approvals.store.start_call": lambda tx, w: approvals.start_call(tx, w.approval.key),
    "approvals.store.finish_call": lambda tx, w: approvals.finish_call(tx, w.running, CALL),
    "approvals.store.by_key": lambda tx, w: approvals.by_key(tx, w.approval.key),
    "approvals.store.newest_of_call": lambda tx, w: approvals.newest_of_call(tx, w.running, CALL),
    "approvals.store.is_new_call": lambda tx, w: approvals.is_new_call(tx, w.running, CALL),
    "approvals.store.pending_of": lambda tx, w: approvals.pending_of(tx, w.running),
    "approvals.store.of_stream": lambda tx, w: approvals.of_stream(tx, w.running),
    "approvals.store.unreported": lambda tx, w: approvals.unreported(tx, w.session.id),
    "approvals.store.mark_reported": lambda tx, w: approvals.mark_reported(tx, [w.approval.key]),
}


def question(world: "World", tool_use_id: str) -> NewApproval:
    """A question of the running chat."""
    return NewApproval(
        asker="session:1",
        tool_name="Bash",
        tool_use_id=tool_use_id,
        input="{}",
        deadline_at=NOW + 60,
        session_id=world.session.id,
        stream=world.running,
    )


@pytest.fixture(scope="module")
def base() -> sqlite3.Connection:
    return database(*MIGRATIONS)


@pytest.fixture(scope="module")
def world(base: sqlite3.Connection) -> World:
    tx = Tx(base)
    session = SESSIONS.create(tx, "work", Columns("/"), NOW)
    root = store.place_of(tx, session.head)
    node = tree.append(tx, root, tree.text("a message"), NOW)
    running, waiting = (streams.create(tx, session.id, session.tree, NOW).key for _ in range(2))
    streams.start(tx, running, node, NOW)
    turn = store.add_blob(
        tx, session.tree, session.id, "turn", {"status": "running"}, NOW, complete=False
    )
    block = store.add_blob(tx, session.tree, session.id, "content", BLOCK, NOW, complete=False)
    store.add_turn(tx, running, turn, session.id, "offline")
    store.note_run(tx, running, 4710, "before")
    store.enqueue(tx, waiting, REQUEST)
    store.keep_request(tx, running, REQUEST)
    new = NewApproval("session:1", "Bash", CALL, "{}", NOW + 60, stream=running)
    approval = approvals.ask(tx, new._replace(session_id=session.id), NOW)
    return World(session, node, running, waiting, turn, block, approval)


def test_every_function_with_a_transaction_is_listed() -> None:
    names = {f"hubd.plugins.claudecode.{name}" for name in CASES}
    assert transaction_functions([store, sessions, approvals, usage]) == names


@pytest.mark.parametrize("name", CASES)
def test_a_second_run_after_a_rollback_is_like_the_first(
    name: str,
    base: sqlite3.Connection,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert_keeps_no_state(base, lambda tx: CASES[name](tx, world), monkeypatch, caplog)
