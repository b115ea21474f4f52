"""Cursors as clients write them: whole ids, and ends that one event of the stream has."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hubd.errors import Ambiguous, CursorExpired, InvalidParams, NotFound
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.database import Database, Tx
from hubd.storage.streams import cursors, retention, streams
from hubd.storage.streams.streams import StreamRow
from hubd.wire.handle import parse

ENDS = ("000000001234", "0000000f1234", "0000000f5678")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "hub.db") as opened:
        yield opened


async def chat(db: Database, monkeypatch: pytest.MonkeyPatch) -> tuple[StreamRow, list[bytes]]:
    """A stream with an event for each of `ENDS`."""

    def work(tx: Tx) -> StreamRow:
        oak = tree.create(tx, "system", 0)
        stream = streams.create(tx, ids.uuid4(), oak.key, 0)
        streams.start(tx, stream.key, tree.place(tx, oak, None), 0)
        origin = tree.origin(tx, parse("chatter@1.0.0::event"))
        for end in ENDS:
            node_id = bytes.fromhex(f"019a00000000700080{stream.key:02}{end}")
            monkeypatch.setattr(ids, "uuid7", lambda node_id=node_id: node_id)
            streams.push(tx, stream.key, origin, "e", "{}", 0)
        monkeypatch.undo()
        return streams.by_key(tx, stream.key)

    row = await db.transaction(work)
    return row, [event.node_id for event in await streams.events(db, row.key, 0, 10)]


async def test_last_digits_find_the_only_matching_event_of_the_stream(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, nodes = await chat(db, monkeypatch)
    # Another stream with the same ends does not matter.
    await chat(db, monkeypatch)
    for written, node in (("5678", 2), ("F5678", 2), ("01234", 0), ("00f1234", 1)):
        assert await cursors.node_id(db, first, written) == nodes[node]
    for node_id in nodes:
        assert await cursors.node_id(db, first, ids.text(node_id)) == node_id


async def test_last_digits_of_no_event_or_of_several_are_refused(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, nodes = await chat(db, monkeypatch)
    with pytest.raises(Ambiguous, match=r"2 events of stream .* end with 1234") as raised:
        await cursors.node_id(db, stream, "1234")
    assert [*raised.value.available] == [ids.text(node_id) for node_id in nodes[:2]]
    with pytest.raises(NotFound, match="ends with 9999"):
        await cursors.node_id(db, stream, "9999")
    for written in ("123", "nope", ""):
        with pytest.raises(InvalidParams, match=f"'{written}' is not the id of a node"):
            await cursors.node_id(db, stream, written)


async def test_last_digits_of_a_removed_event_have_expired(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _ = await chat(db, monkeypatch)
    await db.transaction(lambda tx: retention.remove_events(tx, stream.key))
    with pytest.raises(CursorExpired):
        await cursors.node_id(db, await streams.reread(db, stream.key), "5678")
