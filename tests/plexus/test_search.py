"""`plexus.search`: texts are found after their commit, and never after they were deleted."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Activation
from hubd.errors import HubError, PermissionDenied
from hubd.plexus.lifecycle import examine_plugins
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.cone.plugin import Cone
from hubd.plugins.file.plugin import File
from hubd.storage.search import index, indexing, searching, service
from hubd.storage.search.index import index_path
from hubd.storage.search.service import Search
from hubd.storage.search.source import SearchSource
from hubd.storage.search.text import prepare, terms_of
from hubd.testing import InProcessHub, hub
from hubd.wire.caller import Actor
from tests.sample_plugins.searched import Searched


@pytest.fixture
async def h(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InProcessHub]:
    # A search then sees every commit before it, on a slow machine too.
    monkeypatch.setattr(service, "PATIENCE_SECONDS", 60.0)
    async with hub(Searched(), path=tmp_path / "hub.db") as opened:
        yield opened


def search_of(h: InProcessHub) -> Search:
    assert h.hub.search is not None
    return h.hub.search


async def add(h: InProcessHub, text: str, **fields: Any) -> str:
    added = await h.call_one("searched.add", text=text, **fields)
    return str(added["ref"])


async def found(h: InProcessHub, query: str, **filters: Any) -> list[str]:
    """Return the handles of the hits."""
    return [hit["handle"] async for hit in h.call("plexus.search", query=query, **filters)]


async def resolved(h: InProcessHub, hit: dict[str, Any]) -> dict[str, Any]:
    answer = await h.call_one("plexus.resolve_handle", handle=hit["handle"])
    return dict(answer["data"])


async def advice(h: InProcessHub, query: str, **filters: Any) -> list[str]:
    items = [item async for item in h.items("plexus.search", query=query, **filters)]
    return [item["error_type"] for item in items if item["type"] == "guidance"]


async def test_a_hit_has_a_snippet_and_a_handle_that_resolves(h: InProcessHub) -> None:
    ref = await add(h, f"{'x' * 300} the needle {'y' * 300}", at=7, session="fix", role="user")
    [hit] = [hit async for hit in h.call("plexus.search", query="NEEDLE the")]
    start, end = hit["matches"][-1]
    assert hit["snippet"][start:end] == "needle"
    assert (hit["handle"], hit["kind"], hit["session"], hit["created_at"], hit["role"]) == (
        ref,
        "document",
        "fix",
        7,
        "user",
    )
    assert (await h.resolve(hit["handle"])).text.endswith("y")


async def test_the_best_hit_is_first_and_the_newest_of_equal_ones(h: InProcessHub) -> None:
    for number in range(5):
        await add(h, f"something else {number}")
    old = await add(h, "a needle here", at=1)
    new = await add(h, "a needle here", at=2)
    weak = await add(h, f"a needle in {'hay ' * 100}", at=3)
    assert await found(h, "needle") == [new, old, weak]
    assert await found(h, "needle", limit=1) == [new]


async def test_filters_select_texts(h: InProcessHub) -> None:
    one = await add(h, "needle", at=100, session="fix", role="user")
    two = await add(h, "needle", at=200, session="doc", role="assistant", tool="Bash")
    for filters, refs in (
        ({"session": "fix"}, [one]),
        ({"session": "0123456789-doc"}, [two]),
        ({"session": "0123456789"}, [two, one]),
        ({"session": "01234567"}, [two, one]),
        ({"session": "0123456"}, []),
        ({"role": "assistant"}, [two]),
        ({"tool": "Bash"}, [two]),
        ({"kind": "document"}, [two, one]),
        ({"kind": "message"}, []),
        ({"since": 101}, [two]),
        ({"since": "200"}, [two]),
        ({"until": 199}, [one]),
        ({"since": 100, "until": 200}, [two, one]),
        ({"since": "1d"}, []),
        ({"until": 2**70}, [two, one]),
        ({"since": -(2**70)}, [two, one]),
    ):
        assert await found(h, "needle", **filters) == refs, filters


async def test_a_deleted_text_is_not_found(h: InProcessHub) -> None:
    kept, deleted = await add(h, "needle one"), await add(h, "needle two")
    assert await found(h, "needle") == [deleted, kept]
    await h.call_one("searched.delete", ref=deleted)
    assert await found(h, "needle") == [kept]
    # SQLite gives the key of the last row to the next one.
    again = await add(h, "needle three")
    assert set(await found(h, "needle")) == {kept, again}
    for ref in (kept, again):
        await h.call_one("searched.delete", ref=ref)
    others = [await add(h, "needle four") for _ in range(4)]
    assert await found(h, "needle") == others[::-1]


async def test_a_text_that_grows_is_found_when_it_is_complete(h: InProcessHub) -> None:
    ref = await add(h, "need", growing=True)
    later = await add(h, "needless")
    assert await found(h, "need") == [later]
    await h.call_one("searched.finish", ref=ref, text="needle")
    assert await found(h, "needle") == [ref, later]


async def test_a_changed_text_is_found_by_its_new_words(h: InProcessHub) -> None:
    ref = await add(h, "old words")
    assert await found(h, "old") == [ref]
    await h.call_one("searched.change", ref=ref, text="new words")
    assert await found(h, "old") == []
    assert await found(h, "new") == [ref]


async def test_an_index_that_was_removed_or_damaged_is_built_again(h: InProcessHub) -> None:
    ref = await add(h, "needle")
    assert await found(h, "needle") == [ref]
    path = index_path(h.database.path)
    index.remove(path)
    assert await found(h, "needle") == [ref]
    assert oct(path.stat().st_mode)[-3:] == "600"


async def test_a_damaged_index_is_replaced_at_the_start(tmp_path: Path) -> None:
    async with hub(Searched(), path=tmp_path / "hub.db") as h:
        ref = await add(h, "needle")
        await search_of(h).caught_up()
    index_path(tmp_path / "hub.db").write_bytes(b"not a database" * 1000)
    async with hub(Searched(), path=tmp_path / "hub.db") as h:
        await search_of(h).caught_up()
        assert await found(h, "needle") == [ref]


async def test_documents_are_indexed_once_over_restarts(tmp_path: Path) -> None:
    refs = []
    for _ in range(3):
        async with hub(Searched(), path=tmp_path / "hub.db") as h:
            refs.append(await add(h, "needle"))
            await search_of(h).caught_up()
            assert await found(h, "needle") == refs[::-1]
            assert search_of(h).status == (len(refs), 0, True)


async def test_documents_that_were_deleted_meanwhile_leave_the_index(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    async with hub(Searched(), path=path) as h:
        refs = [await add(h, "needle") for _ in range(3)]
        await search_of(h).caught_up()
        await h.call_one("searched.delete", ref=refs[0])
    async with hub(Searched(), path=path) as h:
        await search_of(h).caught_up()
        assert search_of(h).status.indexed == 2


HOSTILE = [
    '"', "'", "*", "(", ")", "a OR b", "NOT needle", "NEAR(a b)", "text:needle", "^needle",
    "needle*", '"" AND', "\\", "%", "_", "{a b} : c", "-needle", "needle + x", '"a" "b', "\x00",
    "ﷺ", "a" * 1000, '"' * 999, "? ?1 :x $y", "; DROP TABLE search_documents; --",
    " ".join(f"w{n}" for n in range(32)),
]  # fmt: skip


async def test_hostile_queries_are_only_words(h: InProcessHub) -> None:
    await add(h, "needle")
    words = [query for query in HOSTILE if terms_of(query)]
    for query in words:
        assert await found(h, query) == [], query
    refs = [await add(h, prepare(query)) for query in words]
    for ref, query in zip(refs, words, strict=True):
        assert ref in await found(h, query, limit=100), query


async def test_the_longest_query_finds_its_text(h: InProcessHub) -> None:
    for query in ("x" * 1000, f'"{"ab " * 332}"', " ".join(f"{n:030}" for n in range(32))):
        ref = await add(h, query.strip('"'))
        assert await found(h, query) == [ref]
        with pytest.raises(HubError, match="query"):
            await found(h, query + "y" * 1000)


async def test_a_search_that_no_longer_waits_lets_indexing_rest(
    h: InProcessHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = search_of(h)
    await search.caught_up()
    started, released = threading.Event(), threading.Event()

    def hold(*_: object) -> bool:
        started.set()
        released.wait(60)
        return False

    monkeypatch.setattr(indexing, "step", hold)
    monkeypatch.setattr(service, "PATIENCE_SECONDS", 0.01)
    await add(h, "needle")
    assert await advice(h, "needle") == ["search_status"]
    assert await asyncio.to_thread(started.wait, 60)
    assert not search._urgent.is_set()
    released.set()


async def test_a_query_needs_words_but_not_too_many(h: InProcessHub) -> None:
    for query in (" ", '""', " ".join(f"w{n}" for n in range(33))):
        with pytest.raises(HubError, match="1 to 32 words"):
            await found(h, query)


async def test_a_short_word_with_too_many_tokens_reads_the_texts(
    h: InProcessHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MAX_TOKENS", 2)
    refs = [await add(h, f"a{letter}c needle") for letter in "defgh"]
    assert await found(h, "a") == refs[::-1]
    assert await found(h, "a needle") == refs[::-1]
    assert await found(h, "ad") == refs[:1]


async def test_a_search_that_reads_texts_reports_where_it_stopped(
    h: InProcessHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [await add(h, f"a{letter}c") for letter in "defgh"]
    monkeypatch.setattr(searching, "MAX_TOKENS", 2)
    monkeypatch.setattr(searching, "MAX_SCANNED", 3)
    assert await found(h, "a") == refs[:1:-1]
    assert await advice(h, "a") == ["search_incomplete"]
    monkeypatch.setattr(searching, "MAX_SCANNED", 5)
    assert await advice(h, "a") == []


async def test_a_search_ends_in_time_and_reports_it(
    h: InProcessHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [await add(h, "needle") for _ in range(searching.READ_FIRST + 1)]
    monkeypatch.setattr(searching, "SECONDS", -1.0)
    monkeypatch.setattr(searching, "STEPS_PER_CHECK", 2**30)
    assert await found(h, "needle", limit=100) == refs[:0:-1]
    assert await advice(h, "needle other") == []
    monkeypatch.setattr(searching, "STEPS_PER_CHECK", 1)
    assert await advice(h, "needle") == ["search_incomplete"]


async def test_only_the_newest_of_many_matches_are_ranked(
    h: InProcessHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MAX_RANKED", 4)
    best = await add(h, "needle needle", at=1)
    refs = [await add(h, f"a needle in {'hay ' * at}", at=at) for at in range(2, 7)]
    assert await found(h, "needle", limit=1) == [refs[1]]
    assert await advice(h, "needle", limit=1) == ["search_incomplete"]
    # A search for more hits than that ranks all of them.
    assert await found(h, "needle", limit=6) == [best, *refs]
    assert await advice(h, "needle") == []


async def test_fewer_long_texts_are_ranked(
    h: InProcessHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "READ_FIRST", 1)
    monkeypatch.setattr(searching, "RANKED_CHARACTERS", 100)
    best = await add(h, "needle", at=1)
    long = await add(h, f"needle {'hay ' * 30}", at=2)
    assert await found(h, "needle", limit=1) == [long]
    assert await found(h, "needle", limit=2) == [best, long]


async def test_a_whole_word_is_better_than_a_part_of_a_word(h: InProcessHub) -> None:
    whole = await add(h, "the cat sat", at=1)
    part = await add(h, "concatenate", at=2)
    assert await found(h, "cat") == [whole, part]


async def test_without_fts5_the_search_reads_the_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hub.db"
    with monkeypatch.context() as patched:
        patched.setattr(index, "has_full_text", lambda: False)
        async with hub(Searched(), path=path) as h:
            refs = [await add(h, f"needle {number}") for number in range(3)]
            await search_of(h).caught_up()
            assert await found(h, "needle") == refs[::-1]
            assert await found(h, "le 1") == refs[1:2]
            assert not search_of(h).status.full_text
            [finding] = [row for row in await examine_plugins(h.hub) if row.what == "search"]
            assert "FTS5" in finding.detail
    # With FTS5 the index is built again.
    async with hub(Searched(), path=path) as h:
        await search_of(h).caught_up()
        assert await found(h, "needle") == refs[::-1]
        assert search_of(h).status == (3, 0, True)


async def test_many_rows_are_indexed_in_steps(
    h: InProcessHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "STEP_ROWS", 2)
    monkeypatch.setattr(indexing, "STEP_CHARACTERS", 20)
    refs = [await add(h, f"needle {'x' * length}") for length in (0, 30, 1, 2, 3, 4, 100)]
    assert sorted(await found(h, "needle")) == sorted(refs)


async def test_a_row_that_cannot_be_read_does_not_stop_the_others(
    h: InProcessHub, caplog: pytest.LogCaptureFixture
) -> None:
    await h.database.execute(
        "INSERT INTO searched_notes (id, text, growing, created_at) VALUES (x'00', 'bad', 0, 0)"
    )
    ref = await add(h, "needle")
    assert await found(h, "needle") == [ref]
    assert "can't read its row" in caplog.text


class Wrong(Activation, namespace="wrong", version="1.0.0"):
    """A plugin whose rows have no ids."""

    def search_sources(self) -> Sequence[SearchSource]:
        """Return rows without ids."""
        return (SearchSource("notes", "SELECT 1 AS key", lambda row, reader: None),)


async def test_a_source_with_a_wrong_query_is_refused() -> None:
    with pytest.raises(TypeError, match=r"search source 'notes': no such column: id"):
        async with hub(Wrong()):
            pass


async def test_an_agent_finds_only_texts_that_it_may_resolve(h: InProcessHub) -> None:
    def agent(*grants: str) -> InProcessHub:
        return h.calling(actor=Actor("session", "s", grants=grants))

    ref = await add(h, "needle")
    for grants, refs in (
        (("plexus.search", "searched.resolve_handle"), [ref]),
        (("plexus.search", "searched"), [ref]),
        (("plexus",), [ref]),
        (("plexus.search", "searched.add", "other.resolve_handle"), []),
        (("plexus.search",), []),
    ):
        assert await found(agent(*grants), "needle") == refs, grants
    assert await advice(agent("plexus.search"), "needle") == ["search_grants"]
    assert await advice(agent("plexus"), "needle") == []
    with pytest.raises(PermissionDenied):
        await found(agent("plexus.methods"), "needle")


async def test_trees_nodes_labels_cones_and_files_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PATIENCE_SECONDS", 60.0)
    async with hub(Arbor(), Cone(), File()) as h:
        tree = await h.call_one("arbor.tree_create", metadata={"title": "alpha plan"})
        node = await h.call_one("arbor.node_create_text", tree_id=tree["tree_id"], content="beta")
        place = {"tree_id": tree["tree_id"], "node_id": node["node_id"]}
        [hit] = [hit async for hit in h.call("plexus.search", query="alpha")]
        assert (await resolved(h, hit))["tree"]["metadata"] == {"title": "alpha plan"}
        [hit] = [hit async for hit in h.call("plexus.search", query="beta")]
        assert (await resolved(h, hit))["node"]["data"]["content"] == "beta"
        await h.call_one("arbor.node_label", **place, label="gamma")
        await h.call_one("arbor.tree_update_metadata", tree_id=tree["tree_id"], metadata={})
        assert await found(h, "gamma beta") == [hit["handle"]]
        assert await found(h, "alpha") == []
        await h.call_one("arbor.tree_delete", tree_id=tree["tree_id"])
        assert await found(h, "beta") == []

        await h.call_one("cone.create", name="bob", model_id="offline")
        async for _ in h.call("cone.chat", identifier="bob", prompt="delta question"):
            pass
        assert len(await found(h, "delta", role="user", kind="message")) == 1
        assert len(await found(h, "delta", role="assistant")) == 1
        await h.call_one("cone.delete", identifier="bob")
        assert await found(h, "delta") == []

        (tmp_path / "notes.txt").write_text(f"epsilon {'long ' * 30_000} zeta")
        snapshot = await h.call_one("file.snapshot", path=str(tmp_path / "notes.txt"))
        assert await found(h, "zeta epsilon notes.txt") == [snapshot["handle"]]
        await h.call_one("file.delete", snapshot_id=snapshot["snapshot_id"])
        assert await found(h, "zeta") == []


def test_fts5_is_looked_for_where_it_is_used() -> None:
    assert index.has_full_text() == ("ENABLE_FTS5" in _options())


def _options() -> set[str]:
    connection = sqlite3.connect(":memory:")
    try:
        return {option for (option,) in connection.execute("PRAGMA compile_options")}
    finally:
        connection.close()
