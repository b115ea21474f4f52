"""Trees in a real daemon: many clients at once, restarts, crashes and periodic cleanup."""

import asyncio
import json
import random
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest

from hubd.errors import HubError
from tests.plugins.arbor.over_wire import by_socket, events
from tests.support import PATIENCE_SECONDS, Daemon, LineClient, events_of, hubd

GROWER = ("--plugin", "tests.plugins.arbor.grower:Grower")
CLIENTS, APPENDS, READERS = 32, 8, 4
# Enough that importing or purging them takes many transactions.
MANY = 20_000

Events = list[dict[str, Any]]


async def call(client: LineClient, method: str, **params: Any) -> Events:
    return await events(by_socket(client), f"arbor.{method}", **params)


async def plant(client: LineClient) -> tuple[str, str]:
    [created] = await call(client, "tree_create")
    return created["tree_id"], created["root"]


async def children(client: LineClient, tree_id: str) -> list[str]:
    pages = await call(client, "node_get_children", tree_id=tree_id)
    return [node["id"] for page in pages for node in page["children"]]


async def everything(daemon: Daemon) -> list[Any]:
    """Return all trees, drawn and exported."""
    seen: list[Any] = []
    async with daemon.client() as client:
        for page in await call(client, "tree_list"):
            seen += page["trees"]
        for entry in list(seen):
            tree_id = entry["tree_id"]
            for method in ("tree_render", "tree_export", "tree_get", "tree_get_refs"):
                seen += await call(client, method, tree_id=tree_id)
    return seen


def until(found: Callable[[], bool]) -> None:
    """Wait until a condition holds in another process."""
    end = monotonic() + PATIENCE_SECONDS
    while not found():
        assert monotonic() < end, "it did not happen"


def number(daemon: Daemon, sql: str) -> int:
    """Return the only number of a query on the database file."""
    with closing(sqlite3.connect(f"file:{daemon.paths.database}?mode=ro", uri=True)) as database:
        [row] = database.execute(sql).fetchone()
    return int(row)


def export_file(directory: Path, count: int) -> tuple[Path, str]:
    """Write a tree with so many nodes, half of them in a chain, to a file; return its id too."""
    tree_id, root = str(uuid4()), str(uuid4())
    header = {"type": "tree", "format": 1, "tree_id": tree_id, "owner_id": "system"}
    lines: Events = [{**header, "metadata": None, "root": root, "created_at": 0}]
    parent = root
    for place in range(count):
        node = {"type": "node", "id": str(uuid4()), "parent": parent, "lane": "main"}
        lines.append({**node, "data": {"type": "text", "content": str(place)}, "created_at": 0})
        parent = str(node["id"]) if place % 2 else parent
    file = directory / "large.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file, tree_id


# Many at once


class Crowd:
    """Clients that append to trees, and readers that look on."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        # By tree: what each client was told it added, in order.
        self.added: dict[str, dict[int, list[str]]] = {}
        # What readers saw of the tree that all share.
        self.seen: list[list[str]] = []
        self._writing = 0

    async def append(self, tree_id: str, client_number: int) -> None:
        mine = self.added.setdefault(tree_id, {}).setdefault(client_number, [])
        self._writing += 1
        async with self._daemon.client() as client:
            for _ in range(APPENDS):
                [node] = await call(
                    client, "node_create_text", tree_id=tree_id, content=str(client_number)
                )
                mine.append(node["node_id"])
        self._writing -= 1

    async def read(self, tree_id: str) -> None:
        """Read while others write, at least once."""
        async with self._daemon.client() as client:
            while True:
                listed = await children(client, tree_id)
                self.seen.append(listed)
                [drawn] = await call(client, "tree_render", tree_id=tree_id)
                assert len(drawn["nodes"]) > len(listed)
                pages = await call(client, "tree_get", tree_id=tree_id)
                ids = [node["id"] for page in pages for node in page["tree"]["nodes"]]
                assert len(ids) == len(set(ids)) >= len(drawn["nodes"])
                if not self._writing:
                    return


async def test_many_clients_append_at_once_and_nothing_is_lost_doubled_or_reordered(
    daemon: Daemon,
) -> None:
    crowd = Crowd(daemon)
    async with daemon.client() as client:
        shared, root = await plant(client)
        own = [(await plant(client))[0] for _ in range(CLIENTS)]
        async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
            for place in range(CLIENTS):
                group.create_task(crowd.append(shared, place))
                group.create_task(crowd.append(own[place], place))
            for _ in range(READERS):
                group.create_task(crowd.read(shared))
        final = {tree_id: await children(client, tree_id) for tree_id in (shared, *own)}
        [leaves] = await call(client, "context_list_leaves", tree_id=shared)
    for tree_id, by_client in crowd.added.items():
        acknowledged = [node for mine in by_client.values() for node in mine]
        assert len(final[tree_id]) == len(acknowledged) == len(set(acknowledged))
        assert set(final[tree_id]) == set(acknowledged)
        for mine in by_client.values():
            assert [node for node in final[tree_id] if node in set(mine)] == mine
    assert len(final[shared]) == CLIENTS * APPENDS
    assert sorted(leaves["leaves"]) == sorted(final[shared])
    assert root not in final[shared]
    # Earlier reads returned the beginning of the same list.
    assert len(crowd.seen) >= READERS
    for seen in crowd.seen:
        assert seen == final[shared][: len(seen)]


# Restarts and crashes


class Gardener:
    """Changes one tree in every way until the daemon has ended."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self._daemon = daemon
        self._dice = random.Random(seed)
        # Acknowledged changes: nodes with their parents, labels, references.
        self.nodes: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.held = 1
        self.tree = ""
        # A label or a reference without an answer may have been written or not.
        self.unsure: str | None = None

    async def work(self, reached: asyncio.Event, goal: int) -> None:
        with suppress(ConnectionError):
            async with self._daemon.client() as client:
                self.tree, root = await plant(client)
                while True:
                    await self._step(client, root)
                    if len(self.nodes) >= goal:
                        reached.set()

    async def _step(self, client: LineClient, root: str) -> None:
        node = self._dice.choice([root, *self.nodes])
        if self._dice.random() < 0.7:
            [added] = await call(
                client, "node_create_text", tree_id=self.tree, parent=node, content="x\ny"
            )
            self.nodes[added["node_id"]] = node
        elif self._dice.random() < 0.5:
            label = str(len(self.nodes))
            self.unsure = node
            await call(client, "node_label", tree_id=self.tree, node_id=node, label=label)
            self.labels[node] = label
        else:
            self.unsure = "held"
            await call(client, "tree_claim", tree_id=self.tree)
            self.held += 1
        self.unsure = None

    async def check(self, client: LineClient) -> None:
        """Check that all acknowledged changes are there."""
        pages = await call(client, "tree_get", tree_id=self.tree)
        by_id = {node["id"]: node for page in pages for node in page["tree"]["nodes"]}
        for node, parent in self.nodes.items():
            assert by_id[node]["parent"] == parent
        # The root, and the node without an answer.
        assert len(by_id) - len(self.nodes) in (1, 2)
        for node, label in self.labels.items():
            assert by_id[node].get("label") == label or self.unsure == node
        references = pages[0]["tree"]["ref_count"]
        assert references == self.held or (self.unsure == "held" and references == self.held + 1)


@pytest.mark.parametrize("end", [Daemon.kill, Daemon.stop], ids=["kill -9", "SIGTERM"])
async def test_acknowledged_changes_of_trees_survive_the_end_of_the_daemon(
    daemon: Daemon, end: Callable[[Daemon], object]
) -> None:
    seed = random.randrange(2**32)
    gardeners = [Gardener(daemon, seed + place) for place in range(8)]
    reached = asyncio.Event()
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
        for gardener in gardeners:
            group.create_task(_until_gone(gardener.work(reached, 15)))
        await reached.wait()
        await asyncio.to_thread(end, daemon)
    daemon.start()
    async with daemon.client() as client:
        for gardener in gardeners:
            await gardener.check(client)
    before = await everything(daemon)
    assert sum(entry["type"] == "tree_render" for entry in before if "type" in entry) == 8
    for again in (daemon.stop, daemon.kill):
        again()
        daemon.start()
        assert await everything(daemon) == before, f"seed {seed}"


async def _until_gone(work: Awaitable[None]) -> None:
    """Wait for calls that a stopping daemon may refuse."""
    try:
        await work
    except HubError as error:
        if error.code not in ("unavailable", "cancelled"):
            raise


async def test_an_interrupted_import_is_removed_and_can_be_repeated(
    daemon: Daemon, tmp_path: Path
) -> None:
    file, tree_id = export_file(tmp_path, MANY)
    async with daemon.client() as client:
        kept, _ = await plant(client)
        params = {"method": "arbor.tree_import", "params": {"file": str(file)}}
        await client.send("plexus.call", params)
        some = "SELECT count(*) > 1000 FROM arbor_nodes"
        await asyncio.to_thread(until, lambda: bool(number(daemon, some)))
        daemon.kill()
    assert number(daemon, "SELECT count(*) FROM arbor_trees WHERE state = 'importing'") == 1
    daemon.start()
    async with daemon.client() as client:
        [page] = await call(client, "tree_list")
        assert [entry["tree_id"] for entry in page["trees"]] == [kept]
        await call(client, "cleanup")
        assert number(daemon, "SELECT count(*) FROM arbor_nodes") == 1
        [imported] = await call(client, "tree_import", file=str(file))
        assert imported == {
            "type": "tree_imported",
            "tree_id": tree_id,
            "owner_id": "system",
            "nodes": MANY,
        }


async def test_an_import_that_is_cancelled_leaves_nothing(daemon: Daemon, tmp_path: Path) -> None:
    file, tree_id = export_file(tmp_path, MANY)
    async with daemon.client() as client:
        params = {"method": "arbor.tree_import", "params": {"file": str(file)}}
        await client.send("plexus.call", params)
        subscription = (await client.receive())["result"]
        some = "SELECT count(*) > 0 FROM arbor_nodes"
        await asyncio.to_thread(until, lambda: bool(number(daemon, some)))
        await client.send("plexus.cancel", {"subscription": subscription})
        messages = [await client.receive() for _ in range(3)]
        items = [message["params"]["result"] for message in messages if "params" in message]
        assert [item["type"] for item in items] == ["error", "done"]
        assert items[0]["code"] == "cancelled"
        await call(client, "cleanup")
        for table in ("trees", "nodes", "purges", "history"):
            assert number(daemon, f"SELECT count(*) FROM arbor_{table}") == 0
        [imported] = await call(client, "tree_import", file=str(file))
        assert imported["tree_id"] == tree_id


async def test_an_interrupted_purge_continues_after_a_crash(home: Path) -> None:
    with Daemon(home, *GROWER) as daemon:
        async with daemon.client() as client:
            kept, root = await plant(client)
            doomed, _ = await plant(client)
            await events(by_socket(client), "grower.grow", tree_id=doomed, count=2 * MANY)
            before = number(daemon, "SELECT count(*) FROM arbor_nodes")
            await call(client, "tree_delete", tree_id=doomed)
            fewer = f"SELECT count(*) < {before} FROM arbor_nodes"
            await asyncio.to_thread(until, lambda: bool(number(daemon, fewer)))
            daemon.kill()
        left = number(daemon, "SELECT count(*) FROM arbor_nodes")
        assert 1 < left < before
        daemon.start()
        async with daemon.client() as client:
            await call(client, "cleanup")
            assert number(daemon, "SELECT count(*) FROM arbor_nodes") == 1
            [data] = await call(client, "tree_get", tree_id=kept)
            assert [node["id"] for node in data["tree"]["nodes"]] == [root]
            [refs] = await call(client, "tree_get_refs", tree_id=doomed)
            assert [step["step"] for step in refs["history"]] == ["created", "purged"]


# Values that are too large


async def test_seven_megabytes_of_text_are_refused_and_the_connection_stays(
    daemon: Daemon,
) -> None:
    async with daemon.client() as client:
        tree_id, _ = await plant(client)
        params = {"tree_id": tree_id, "content": "x" * 7_000_000}
        items = await client.call("arbor.node_create_text", params)
        assert [item["type"] for item in items] == ["guidance", "error", "done"]
        assert items[1]["code"] == "invalid_params"
        assert "content" in items[1]["message"]
        assert await children(client, tree_id) == []


async def test_infinite_numbers_are_refused(daemon: Daemon) -> None:
    """`1e999` is valid JSON, but it is read as infinity, which JSON cannot contain."""
    async with daemon.client() as client:
        client.writer.write(
            b'{"jsonrpc":"2.0","id":1,"method":"arbor.tree_create",'
            b'"params":{"metadata":{"a":1e999}}}\n'
        )
        items = [await client.receive() for _ in range(4)][1:]
        assert items[1]["params"]["result"]["code"] == "invalid_params"
        [page] = await call(client, "tree_list")
        assert page["trees"] == []


# Periodic cleanup


@contextmanager
def started(home: Path, **environment: str) -> Iterator[Path]:
    """A daemon in the background, with settings from its environment."""
    result = hubd("start", home=home, HUBD_PORT="0", **environment)
    assert result.returncode == 0, result.stderr
    try:
        yield home
    finally:
        assert hubd("stop", home=home).returncode == 0


def life(home: Path, tree_id: str) -> tuple[str, list[str]]:
    [refs] = events_of(home, "arbor.tree_get_refs", tree_id=tree_id)
    return refs["state"], [step["step"] for step in refs["history"]]


def test_a_released_tree_is_archived_and_purged_by_the_daemon_itself(home: Path) -> None:
    with started(
        home,
        HUBD_ARBOR_SCHEDULED_DAYS="0",
        HUBD_ARBOR_ARCHIVED_DAYS="0",
        HUBD_ARBOR_CLEANUP_SECONDS="0.05",
    ):
        [kept] = events_of(home, "arbor.tree_create")
        [created] = events_of(home, "arbor.tree_create", owner_id="ann")
        tree_id = created["tree_id"]
        [released] = events_of(home, "arbor.tree_release", tree_id=tree_id, owner_id="ann")
        assert released["new_count"] == 0
        until(lambda: life(home, tree_id)[0] == "purged")
        assert life(home, tree_id)[1] == [
            *("created", "released", "scheduled", "archived", "purged")
        ]
        [page] = events_of(home, "arbor.tree_list")
        assert [entry["tree_id"] for entry in page["trees"]] == [kept["tree_id"]]
    # Every step is in the log as well.
    log = (home / "hubd.log").read_text()
    for step in ("scheduled", "archived", "purged"):
        assert f"tree {tree_id}: {step}" in log


async def test_cleanup_periods_come_from_the_configuration_file(home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[arbor]\nscheduled_days = 0\narchived_days = 0.5\n")
    with Daemon(home) as daemon:
        async with daemon.client() as client:
            tree_id, _ = await plant(client)
            await call(client, "tree_release", tree_id=tree_id)
            assert life(home, tree_id)[0] == "scheduled"
            step, done = await call(client, "cleanup")
            assert (step["tree_id"], step["step"]) == (tree_id, "archived")
            assert (done["archived"], done["purged"]) == (1, 0)
            assert life(home, tree_id) == (
                "archived",
                ["created", "released", "scheduled", "archived"],
            )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[arbor]\nscheduled_days = -1\n", "the setting arbor.scheduled_days: "),
        ('[arbor]\narchived_days = "soon"\n', "the setting arbor.archived_days: "),
        ("[arbor]\ndays = 3\n", "config.toml: [arbor] has no setting 'days'"),
    ],
)
async def test_a_wrong_setting_leaves_out_only_arbor_and_is_explained(
    home: Path, content: str, reason: str
) -> None:
    home.mkdir()
    (home / "config.toml").write_text(content)
    with Daemon(home) as daemon:
        async with daemon.client() as client:
            listed = await events(by_socket(client), "plexus.activations")
            [broken] = [entry for entry in listed if entry["type"] == "broken_plugin"]
            assert broken["reason"].startswith(reason)
            assert "arbor" in broken["source"]
            items = await client.call("arbor.tree_list")
            assert items[1]["code"] == "activation_not_found"
            items = await client.call("echo.once", {"message": "hi"})
            assert items[0]["content"]["message"] == "hi"
