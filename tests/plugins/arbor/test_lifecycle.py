"""The life of trees through the hub: lists, queries, cleaning up now and in the background."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hubd.plexus.discovery import Source
from hubd.plexus.dispatch import Call
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.plexus.lifecycle import plugins
from hubd.plexus.root import build_hub
from hubd.plugins.arbor.plugin import Arbor
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.references import DAY
from hubd.storage.database import Database, Tx
from tests.support import PATIENCE_SECONDS, Collector, call_error, call_events, hub_with

ARBOR = Source("hubd.plugins.arbor.plugin:Arbor", "a test")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """Nothing runs in the background here."""
    async with hub_with(tmp_path, Arbor()) as built:
        yield built


@asynccontextmanager
async def living(directory: Path, **settings: Any) -> AsyncIterator[Hub]:
    """A hub in which Arbor's background work runs, with these settings."""
    async with Database(directory / "hub.db") as database:
        hub = build_hub(database=database, settings={"arbor": settings})
        async with plugins(hub, PlexusHost(hub), [ARBOR]):
            yield hub


async def plant(hub: Hub, **params: Any) -> str:
    [created] = await call_events(hub, "arbor.tree_create", **params)
    return str(created["tree_id"])


async def listed(hub: Hub, method: str, **params: Any) -> list[str]:
    pages = await call_events(hub, f"arbor.{method}", **params)
    return [entry["tree_id"] for page in pages for entry in page["trees"]]


async def steps_of(hub: Hub, tree_id: str) -> list[str]:
    [refs] = await call_events(hub, "arbor.tree_get_refs", tree_id=tree_id)
    return [step["step"] for step in refs["history"]]


async def grow_older(hub: Hub, days: int) -> None:
    assert hub.database is not None
    await hub.database.execute("UPDATE arbor_trees SET state_since = state_since - ?", days * DAY)


class Heard(logging.Handler):
    """The log of the hub, with a wait for a message."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._more = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Comes from the writer's thread as well."""
        self._lines.append(record.getMessage())
        self._loop.call_soon_threadsafe(self._more.set)

    async def wait_for(self, hub: Hub, text: str) -> None:
        """Wait until a message is logged and its transaction is on disk."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any(text in line for line in self._lines):
                self._more.clear()
                await self._more.wait()
            assert hub.database is not None
            await hub.database.transaction(lambda tx: None)


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    listener = Heard()
    log = logging.getLogger("hubd")
    before = log.level
    log.setLevel(logging.INFO)
    log.addHandler(listener)
    yield listener
    log.removeHandler(listener)
    log.setLevel(before)


async def count_nodes(hub: Hub) -> int:
    assert hub.database is not None
    [(count,)] = await hub.database.fetch_rows("SELECT count(*) FROM arbor_nodes")
    return int(count)


# Lists


async def test_trees_are_listed_by_state_and_by_owner(hub: Hub) -> None:
    active, scheduled, archived = [await plant(hub, owner_id="ann") for _ in range(3)]
    shared = await plant(hub, owner_id="bob")
    await call_events(hub, "arbor.tree_claim", tree_id=shared, owner_id="ann")
    await call_events(hub, "arbor.tree_release", tree_id=scheduled, owner_id="ann")
    await call_events(hub, "arbor.tree_archive", tree_id=archived, owner_id="ann")
    assert await listed(hub, "tree_list") == [active, shared]
    assert await listed(hub, "tree_list", owner_id="bob") == [shared]
    assert await listed(hub, "tree_list", owner_id="ann") == [active, shared]
    assert await listed(hub, "tree_list", owner_id="ann%") == []
    assert await listed(hub, "tree_list_scheduled") == [scheduled]
    assert await listed(hub, "tree_list_archived") == [archived]


async def test_many_trees_are_listed_once_each_in_pages(hub: Hub) -> None:
    def work(tx: Tx) -> list[str]:
        metadata = ['{"n": 0}', '{"n": 1}'] * 502
        return [ids.text(tree.create(tx, "ann", 0, metadata=text).id) for text in metadata[:1003]]

    assert hub.database is not None
    trees = await hub.database.transaction(work)
    pages = await call_events(hub, "arbor.tree_list")
    assert [len(page["trees"]) for page in pages] == [100] * 10 + [3]
    assert [entry["tree_id"] for page in pages for entry in page["trees"]] == trees
    assert await listed(hub, "tree_query", metadata={"n": 1}) == trees[1::2]
    for limit in (1, 100, 101, 2000):
        assert await listed(hub, "tree_list", limit=limit) == trees[:limit]
        assert (
            await listed(hub, "tree_query", metadata={"n": 1}, limit=limit) == trees[1::2][:limit]
        )
    # Pages without any tree are left out, except the only one.
    [none] = await call_events(hub, "arbor.tree_query", metadata={"n": 2})
    assert none["trees"] == []


async def test_a_long_list_lets_other_calls_run_after_each_page(hub: Hub) -> None:
    def work(tx: Tx) -> None:
        for _ in range(301):
            tree.create(tx, "ann", 0)

    assert hub.database is not None
    await hub.database.transaction(work)
    turns: list[int] = []
    caller = Collector()

    async def count_turns() -> None:
        while True:
            turns.append(sum(item["type"] == "data" for item in caller.items))
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    await Call(hub, "arbor.tree_list", {}, caller).run()
    counting.cancel()
    assert {1, 2, 3} <= set(turns)


async def test_owner_id_is_a_current_owner(hub: Hub) -> None:
    [created] = await call_events(hub, "arbor.tree_create", owner_id="ann")
    tree_id = created["tree_id"]

    async def owner(method: str) -> str | None:
        [page] = await call_events(hub, f"arbor.{method}")
        [entry] = page["trees"]
        return entry["owner_id"]  # type: ignore[no-any-return]

    for name in ("carl", "bob"):
        await call_events(hub, "arbor.tree_claim", tree_id=tree_id, owner_id=name)
    assert await owner("tree_list") == "ann"
    await call_events(hub, "arbor.tree_release", tree_id=tree_id, owner_id="ann")
    assert await owner("tree_list") == "bob"
    [tree_page] = await call_events(hub, "arbor.tree_get", tree_id=tree_id)
    assert tree_page["tree"]["owner_id"] == "bob"
    for name in ("carl", "bob"):
        await call_events(hub, "arbor.tree_release", tree_id=tree_id, owner_id=name)
    assert await owner("tree_list_scheduled") is None
    # The export names the owner that made it, because an import needs one.
    header, *_ = await call_events(hub, "arbor.tree_export", tree_id=tree_id)
    assert header["owner_id"] == "ann"


@pytest.mark.parametrize(
    ("metadata", "query", "is_found"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": 1}}}, True),
        ({"a": {"b": 1}}, {"a": {}}, True),
        ({"a": 1}, {"a": {}}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": True}, True),
        ({"a": [1]}, {"a": [True]}, False),
        ({"a": [1, {"x": 1, "y": 2}]}, {"a": [1, {"y": 2, "x": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        ({"a": 1}, {}, True),
        (None, {"a": 1}, False),
    ],
)
async def test_a_query_finds_trees_by_a_part_of_their_metadata(
    hub: Hub, metadata: dict[str, Any] | None, query: dict[str, Any], is_found: bool
) -> None:
    tree_id = await plant(hub, **({} if metadata is None else {"metadata": metadata}))
    assert await listed(hub, "tree_query", metadata=query) == ([tree_id] if is_found else [])


# Cleaning up


async def test_a_dry_run_lists_the_steps_of_the_real_run(hub: Hub) -> None:
    young, old, older = [await plant(hub) for _ in range(3)]
    await call_events(hub, "arbor.tree_archive", tree_id=older)
    await grow_older(hub, 30)
    await call_events(hub, "arbor.tree_release", tree_id=old)
    await grow_older(hub, 7)
    await call_events(hub, "arbor.tree_release", tree_id=young)
    for dry_run in (True, False):
        *steps, done = await call_events(hub, "arbor.cleanup", dry_run=dry_run)
        assert {(step["tree_id"], step["step"]) for step in steps} == {
            (old, "archived"),
            (older, "purged"),
        }
        assert {step["dry_run"] for step in steps} == {dry_run}
        assert done == {"type": "cleanup_done", "archived": 1, "purged": 1, "dry_run": dry_run}
        is_there = await listed(hub, "tree_list_archived")
        assert is_there == ([older] if dry_run else [old])
    [done] = await call_events(hub, "arbor.cleanup")
    assert (done["archived"], done["purged"]) == (0, 0)
    assert await listed(hub, "tree_list_scheduled") == [young]


async def test_the_history_of_a_removed_tree_can_be_read(hub: Hub) -> None:
    tree_id = await plant(hub, owner_id="ann")
    await call_events(hub, "arbor.tree_claim", tree_id=tree_id, owner_id="bob", count=2)
    await call_events(hub, "arbor.tree_delete", tree_id=tree_id, force=True)
    [refs] = await call_events(hub, "arbor.tree_get_refs", tree_id=tree_id)
    assert (refs["state"], refs["ref_count"], refs["owners"]) == ("purged", 0, {})
    assert [(step["step"], step["owner_id"], step["count"]) for step in refs["history"]] == [
        ("created", "ann", 1),
        ("claimed", "bob", 2),
        ("purged", None, None),
    ]
    error = await call_error(hub, "arbor.tree_get_refs", tree_id=tree_id[:8])
    assert error["code"] == "not_found"
    error = await call_error(hub, "arbor.tree_get", tree_id=tree_id)
    assert error["code"] == "not_found"


async def test_an_archived_tree_can_still_be_deleted(hub: Hub) -> None:
    tree_id = await plant(hub)
    await call_events(hub, "arbor.tree_archive", tree_id=tree_id)
    await call_events(hub, "arbor.tree_delete", tree_id=tree_id)
    assert await steps_of(hub, tree_id) == ["created", "archived", "purged"]


# In the background


async def test_a_tree_without_owners_is_removed_in_the_background(
    tmp_path: Path, heard: Heard
) -> None:
    settings = {"scheduled_days": 0, "archived_days": 0, "cleanup_seconds": 0.001}
    async with living(tmp_path, **settings) as hub:
        kept, tree_id = await plant(hub), await plant(hub)
        await call_events(hub, "arbor.tree_release", tree_id=tree_id)
        await heard.wait_for(hub, f"tree {tree_id}: all of its nodes are removed")
        life = ["created", "released", "scheduled", "archived", "purged"]
        assert await steps_of(hub, tree_id) == life
        assert await listed(hub, "tree_list") == [kept]
        assert await count_nodes(hub) == 1


async def test_a_deleted_tree_is_purged_without_waiting_for_the_next_cleanup(
    tmp_path: Path, heard: Heard
) -> None:
    async with living(tmp_path, cleanup_seconds=math.inf) as hub:
        tree_id = await plant(hub)
        await call_events(hub, "arbor.tree_delete", tree_id=tree_id)
        await heard.wait_for(hub, f"tree {tree_id}: all of its nodes are removed")
        assert await count_nodes(hub) == 0


async def test_infinite_periods_keep_trees_forever(tmp_path: Path) -> None:
    forever = {"scheduled_days": math.inf, "archived_days": math.inf}
    async with living(tmp_path, **forever, cleanup_seconds=0.001) as hub:
        scheduled, archived = await plant(hub), await plant(hub)
        await call_events(hub, "arbor.tree_release", tree_id=scheduled)
        await call_events(hub, "arbor.tree_archive", tree_id=archived)
        await grow_older(hub, 10_000)
        [done] = await call_events(hub, "arbor.cleanup")
        assert (done["archived"], done["purged"]) == (0, 0)
        assert await listed(hub, "tree_list_scheduled") == [scheduled]
        assert await listed(hub, "tree_list_archived") == [archived]


async def test_a_tree_that_other_rows_refer_to_does_not_block_the_cleanup(
    tmp_path: Path, heard: Heard
) -> None:
    """Another plugin's table still points at a node; when it does not, all is purged."""
    async with living(tmp_path, cleanup_seconds=0.001) as hub:
        db = hub.database
        assert db is not None
        kept, behind = await plant(hub), await plant(hub)
        await db.execute("CREATE TABLE other_head (node INTEGER REFERENCES arbor_nodes (key))")
        await db.execute("INSERT INTO other_head (node) SELECT min(key) FROM arbor_nodes")
        for tree_id in (kept, behind):
            await call_events(hub, "arbor.tree_delete", tree_id=tree_id)
        await heard.wait_for(hub, f"tree {kept}: its nodes can't be removed yet")
        await heard.wait_for(hub, f"tree {behind}: all of its nodes are removed")
        assert await count_nodes(hub) == 1
        # The result has only the steps that were taken.
        [done] = await call_events(hub, "arbor.cleanup")
        assert done["type"] == "cleanup_done"
        await db.execute("DELETE FROM other_head")
        await heard.wait_for(hub, f"tree {kept}: all of its nodes are removed")
        assert await count_nodes(hub) == 0


async def test_the_cleanup_continues_after_a_failure(tmp_path: Path, heard: Heard) -> None:
    async with living(tmp_path, cleanup_seconds=0.001) as hub:
        db = hub.database
        assert db is not None
        tree_id = await plant(hub)
        await db.execute(
            "CREATE TRIGGER trouble BEFORE DELETE ON arbor_nodes "
            "BEGIN SELECT raise(ABORT, 'trouble'); END"
        )
        await call_events(hub, "arbor.tree_delete", tree_id=tree_id)
        await heard.wait_for(hub, "cleanup failed and will be repeated later")
        assert await count_nodes(hub) == 1
        await db.execute("DROP TRIGGER trouble")
        await heard.wait_for(hub, f"tree {tree_id}: all of its nodes are removed")
        assert await count_nodes(hub) == 0


async def test_an_import_interrupted_by_a_crash_is_removed_at_the_next_start(
    tmp_path: Path, heard: Heard
) -> None:
    async with Database(tmp_path / "hub.db") as db:
        imported = await db.transaction(lambda tx: tree.create(tx, "ann", 0, state="importing"))
        await db.transaction(
            lambda tx: tree.append(
                tx,
                tree.Place(imported.root, imported.root_id, imported.key, imported.root, 0, 0),
                tree.text("x"),
                0,
            )
        )
    async with living(tmp_path) as hub:
        await heard.wait_for(hub, f"tree {ids.text(imported.id)}: all of its nodes are removed")
        assert await count_nodes(hub) == 0
        assert hub.database is not None
        assert await hub.database.fetch_rows("SELECT count(*) FROM arbor_trees") == [(0,)]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"scheduled_days": -1}, "the setting arbor.scheduled_days: "),
        ({"archived_days": "soon"}, "the setting arbor.archived_days: "),
        ({"cleanup_seconds": 0}, "the setting arbor.cleanup_seconds: "),
        ({"days": 1}, "config.toml: [arbor] has no setting 'days'"),
    ],
)
async def test_an_invalid_setting_disables_the_plugin_with_a_message(
    tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    async with living(tmp_path, **settings) as hub:
        [(source, failure)] = hub.broken
        assert source == str(ARBOR)
        assert failure.startswith(reason)
        error = await call_error(hub, "arbor.tree_list")
        assert error["code"] == "activation_not_found"
