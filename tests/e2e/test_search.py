"""The search in a real daemon: kills lose and repeat no document, and the index can be rebuilt."""

import asyncio
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE_SECONDS, Daemon, LineClient, hubd
from tests.synapse.support import synapse_process as synapse

PLUGIN = "tests.sample_plugins.searched:Searched"


async def everything(client: LineClient, query: str) -> list[str]:
    """Return the handles of all hits, when the index is up to date."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            items = await client.call("plexus.search", {"query": query, "limit": 1000})
            assert not [item for item in items if item["type"] == "error"], items
            if "search_status" not in [item.get("error_type") for item in items]:
                return [item["content"]["handle"] for item in items if item["type"] == "data"]


async def write_until_killed(daemon: Daemon, word: str, count: int) -> list[str]:
    """Store notes, and kill the daemon after some. Return the handles that were acknowledged."""
    refs: list[str] = []
    with suppress(ConnectionError):
        async with daemon.client() as client:
            while True:
                items = await client.call("searched.add", {"text": f"{word} {'hay ' * 500}"})
                refs.append(items[0]["content"]["ref"])
                if len(refs) == count:
                    daemon.kill()
    return refs


@pytest.mark.parametrize("kills", [1, pytest.param(40, marks=pytest.mark.soak)])
async def test_kills_lose_and_repeat_no_document(home: Path, kills: int) -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    acknowledged: dict[str, list[str]] = {}
    with Daemon(home, "--plugin", PLUGIN) as daemon:
        for kill in range(kills):
            word = f"needle-{kill}-"
            acknowledged[word] = await write_until_killed(daemon, word, dice.randint(1, 40))
            daemon.start()
        async with daemon.client() as client:
            for word, refs in acknowledged.items():
                hits = await everything(client, word)
                assert len(hits) == len(set(hits)), f"{word} with seed {seed}"
                assert set(refs) <= set(hits), f"{word} with seed {seed}"
                # One more was perhaps stored without an answer.
                assert len(hits) <= len(refs) + 1, f"{word} with seed {seed}"


async def test_the_index_is_rebuilt_with_and_without_a_daemon(home: Path) -> None:
    with Daemon(home) as daemon:
        async with daemon.client() as client:
            tree = (await client.call("arbor.tree_create", {"metadata": {"title": "needle"}}))[0]
            [ref] = await everything(client, "needle")
            assert tree["content"]["tree_id"] in ref
            running = hubd("check", "--rebuild-search", "--json", home=home)
            assert await everything(client, "needle") == [ref]
        daemon.stop()
        stopped = hubd("check", "--rebuild-search", "--json", home=home)
        daemon.start()
        async with daemon.client() as client:
            assert await everything(client, "needle") == [ref]
    for result in (running, stopped):
        assert result.returncode == 0, result.stderr
        rows: list[dict[str, Any]] = json.loads(result.stdout)
        assert [row["ok"] for row in rows if row["what"] == "search index"] == [True]
    assert "1 texts" in stopped.stdout


async def test_a_hit_on_the_command_line_pipes_into_resolve_handle(home: Path) -> None:
    with Daemon(home) as daemon:
        async with daemon.client() as client:
            await client.call("cone.create", {"name": "c"})
            await client.call("cone.chat", {"identifier": "c", "prompt": "a needle in hay"})
            await everything(client, "needle")
        listed = synapse(
            "plexus", "search", "--query", "needle", "--role", "user", "--since", "1d", home=home
        )
        assert (listed.returncode, listed.stderr) == (0, "")
        hit = json.loads(listed.stdout)
        assert hit["snippet"] == "a needle in hay"
        command = ("plexus", "resolve_handle", "--handle", hit["handle"])
        resolved = json.loads(synapse(*command, home=home).stdout)
        assert resolved["data"]["content"] == "a needle in hay"
        wrong = synapse("plexus", "search", "--query", "needle", "--since", "soon", home=home)
        assert wrong.returncode == 2
        assert "since 'soon' is not a time" in wrong.stderr
