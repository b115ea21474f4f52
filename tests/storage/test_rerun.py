"""Functions of the storage keep no state outside of their transaction."""

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

import hubd.storage
from hubd.storage import ids
from hubd.storage.arbor import references, tree
from hubd.storage.arbor.references import DAY, Periods
from hubd.storage.arbor.tree import Place, TreeRow
from hubd.storage.blobs import rows as blobs
from hubd.storage.database import Tx
from hubd.storage.id_lookup import IdLookup
from hubd.storage.names import Names
from hubd.storage.search import changes
from hubd.storage.streams import consumers, retention, streams
from hubd.storage.streams.streams import StreamRow
from hubd.wire.handle import WireHandle
from tests.storage.rerun import NOW, assert_keeps_no_state, database, transaction_functions

SESSION = b"s" * 16
HANDLE = WireHandle("echo", "1.0.0", "note", ("7",))
NAMES = Names(
    "SELECT * FROM (SELECT key, id, owner AS name FROM arbor_trees) AS t",
    table="t",
    thing="tree",
    advice="",
)


IDS = IdLookup("SELECT key, id FROM arbor_trees", thing="tree", advice="")
SMALL = blobs.Blob(b"a" * 32, 1, b"a")
LARGE = blobs.Blob(b"b" * 32, 1)
RELEASED = blobs.Blob(b"c" * 32, 1)


class World(NamedTuple):
    """The rows with which each function runs."""

    active: TreeRow
    scheduled: TreeRow
    importing: TreeRow
    node: Place
    leaf: Place
    running: StreamRow
    newest: Place
    ended: StreamRow


CASES: dict[str, Callable[[Tx, World], object]] = {
    "names.Names.find": lambda tx, w: NAMES.find(tx, ids.text(w.active.id)),
    "id_lookup.IdLookup.find": lambda tx, w: IDS.find(tx, ids.text(w.active.id)),
    "arbor.tree.create": lambda tx, _: tree.create(tx, "ann", NOW, metadata="{}"),
    "arbor.tree.reveal": lambda tx, w: tree.reveal(tx, w.importing),
    "arbor.tree.give_up": lambda tx, _: tree.give_up(tx),
    "arbor.tree.remove": lambda tx, w: tree.remove(tx, w.scheduled.key, w.scheduled.id),
    "arbor.tree.find": lambda tx, w: tree.find(tx, ids.text(w.active.id)),
    "arbor.tree.writable": lambda tx, w: tree.writable(tx, ids.text(w.active.id)),
    "arbor.tree.place": lambda tx, w: tree.place(tx, w.active, w.leaf.id),
    "arbor.tree.append": lambda tx, w: [
        tree.append(tx, w.leaf, tree.text("below"), NOW),
        tree.append(tx, w.node, tree.text("a branch"), NOW, label="b"),
        tree.append(tx, w.node, tree.text("aside"), NOW, side=True),
    ],
    "arbor.tree.external": lambda tx, _: tree.external(tx, HANDLE),
    "arbor.tree.origin": lambda tx, _: tree.origin(tx, HANDLE),
    "arbor.tree.set_label": lambda tx, w: tree.set_label(tx, w.node, "label"),
    "arbor.tree.set_metadata": lambda tx, w: tree.set_metadata(tx, w.active, '{"a":1}'),
    "arbor.tree.delete": lambda tx, w: tree.delete(tx, w.leaf, recursive=True),
    "arbor.tree.record": lambda tx, w: tree.record(tx, w.active.id, "claimed", NOW, "ann", 1),
    "arbor.references.claim": lambda tx, w: references.claim(tx, w.scheduled, "bob", 2, NOW),
    "arbor.references.release": lambda tx, w: references.release(tx, w.active, "ann", 1, NOW),
    "arbor.references.let_go": lambda tx, w: references.let_go(tx, w.active, "ann", NOW),
    "arbor.references.archive": lambda tx, w: references.archive(tx, w.active, "ann", NOW),
    "arbor.references.delete": lambda tx, w: references.delete(tx, w.active, "ann", NOW),
    "arbor.references.clean_up": lambda tx, _: references.clean_up(
        tx, Periods(), NOW + int(60 * DAY)
    ),
    "arbor.references.purge": lambda tx, _: references.purge(tx),
    "search.changes.changed": lambda tx, w: changes.changed(tx, "notes.notes", w.node.key),
    "search.changes.forget": lambda tx, _: changes.forget(tx, 1),
    "streams.streams.create": lambda tx, w: streams.create(tx, SESSION, w.active.key, NOW),
    "streams.streams.start": lambda tx, w: streams.start(tx, w.running.key, w.leaf, NOW),
    "streams.streams.push": lambda tx, w: [
        streams.push(tx, w.running.key, 1, "text", '{"n":2}', NOW),
        streams.push(tx, w.running.key, 1, "text", '{"n":3}', NOW, after=(w.newest, 1)),
    ],
    "streams.streams.push_many": lambda tx, w: streams.push_many(
        tx, w.running.key, 1, [("text", '{"n":2}'), ("text", '{"n":3}')], NOW
    ),
    "streams.streams.set_status": lambda tx, w: streams.set_status(
        tx, w.running.key, "failed", NOW, "no reason"
    ),
    "streams.streams.left_open": lambda tx, _: streams.left_open(tx),
    "streams.streams.is_busy": lambda tx, _: streams.is_busy(tx, SESSION),
    "streams.streams.by_key": lambda tx, w: streams.by_key(tx, w.running.key),
    "streams.consumers.position": lambda tx, w: consumers.position(tx, w.running.key, "reader"),
    "streams.consumers.set_position": lambda tx, w: consumers.set_position(
        tx, w.running.key, "reader", 2, NOW
    ),
    "streams.consumers.advance": lambda tx, w: consumers.advance(tx, w.running.key, "new", 1, NOW),
    "streams.consumers.delete": lambda tx, w: consumers.delete(tx, w.running.key, "reader"),
    "streams.retention.remove_events": lambda tx, w: retention.remove_events(tx, w.ended.key),
    "blobs.rows.refer": lambda tx, _: list(map(partial(blobs.refer, tx), (SMALL, LARGE))),
    "blobs.rows.release": lambda tx, _: list(
        map(partial(blobs.release, tx), (SMALL.digest, LARGE.digest))
    ),
    "blobs.rows.keep": lambda tx, w: [
        blobs.keep(tx, w.active.key, content) for content in (b"kept", b"kept", b"x")
    ],
    "blobs.rows.release_tree": lambda tx, w: list(
        map(partial(blobs.release_tree, tx), [w.active.key])
    ),
    "blobs.rows.remove_released": lambda tx, _: blobs.remove_released(tx, 10),
}


@pytest.fixture(scope="module")
def base() -> sqlite3.Connection:
    return database()


@pytest.fixture(scope="module")
def world(base: sqlite3.Connection) -> World:
    tx = Tx(base)
    active, scheduled, importing, purged = (
        tree.create(tx, "ann", NOW, state=state)
        for state in ("active", "scheduled", "importing", "active")
    )
    node = tree.append(tx, tree.place(tx, active, None), tree.text("a message"), NOW)
    leaf = tree.append(tx, node, tree.text("a reply"), NOW)
    origin = tree.origin(tx, WireHandle("claudecode", "1.0.0", "event"))
    running, ended = (streams.create(tx, SESSION, active.key, NOW) for _ in range(2))
    for stream in (running, ended):
        streams.start(tx, stream.key, node, NOW)
        streams.push(tx, stream.key, origin, "text", '{"n":0}', NOW)
    newest = streams.push(tx, running.key, origin, "text", '{"n":1}', NOW)
    streams.set_status(tx, ended.key, "complete", NOW)
    consumers.set_position(tx, running.key, "reader", 1, NOW)
    references.delete(tx, purged, "ann", NOW)
    for blob in (SMALL, LARGE, RELEASED):
        blobs.refer(tx, blob)
    blobs.release(tx, RELEASED.digest)
    for content in (b"kept", b"kept"):
        blobs.keep(tx, active.key, content)
    return World(active, scheduled, importing, node, leaf, running, newest, ended)


def test_every_function_of_the_storage_is_listed() -> None:
    assert transaction_functions([hubd.storage]) == {f"hubd.storage.{name}" for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_a_second_run_after_a_rollback_is_like_the_first(
    name: str,
    base: sqlite3.Connection,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert_keeps_no_state(base, lambda tx: CASES[name](tx, world), monkeypatch, caplog)


def test_a_function_that_caches_a_key_fails_the_comparison(
    base: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache: dict[WireHandle, int] = {}

    def cached_origin(tx: Tx) -> int:
        if HANDLE not in cache:
            cache[HANDLE] = tree.origin(tx, HANDLE)
        return cache[HANDLE]

    with pytest.raises(AssertionError):
        assert_keeps_no_state(base, cached_origin, monkeypatch, caplog)
