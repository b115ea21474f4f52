"""Long methods of arbor report their progress."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import progress
from hubd.plexus.hub import Hub
from hubd.plugins.arbor.import_export import NODES_AT_ONCE
from hubd.plugins.arbor.plugin import Arbor
from hubd.storage.arbor import references
from hubd.storage.arbor.tree import append, create, place, text
from hubd.storage.database import Tx
from tests.support import call_items, hub_with

NODES = 2 * NODES_AT_ONCE + 100


@pytest.fixture
async def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    """As if every step took longer than a second."""
    monkeypatch.setattr(progress, "REPORT_SECONDS", 0.0)
    async with hub_with(tmp_path, Arbor()) as built:
        yield built


async def plant(hub: Hub) -> str:
    def work(tx: Tx) -> str:
        oak = create(tx, "system", 0)
        above = place(tx, oak, None)
        for _ in range(NODES):
            above = append(tx, above, text("x"), 0)
        return oak.id.hex()

    assert hub.database is not None
    return await hub.database.transaction(work)


def reports(items: list[dict[str, Any]]) -> list[tuple[str, float | None]]:
    return [
        (item["message"], item.get("percentage")) for item in items if item["type"] == "progress"
    ]


@pytest.mark.parametrize("by_file", [False, True])
async def test_import_and_export_report_the_number_of_nodes(
    hub: Hub, tmp_path: Path, by_file: bool
) -> None:
    items = await call_items(hub, "arbor.tree_export", tree_id=await plant(hub))
    assert reports(items)[-1] == (f"exporting nodes: {NODES} of {NODES}", 100.0)
    lines = [json.dumps(item["content"]) for item in items if item["type"] == "data"]
    data = "\n".join(lines)
    given = {"data": data}
    if by_file:
        file = tmp_path / "tree.jsonl"
        file.write_text(f"{data}\n")
        given = {"file": str(file)}
    items = await call_items(hub, "arbor.tree_import", **given, new_ids=True)
    assert items[-2]["content"]["nodes"] == NODES
    total = NODES + 1
    assert [message for message, _ in reports(items)] == [
        f"importing nodes: {done} of {total}" for done in (500, 1000, NODES)
    ]


async def test_cleanup_reports_the_number_of_trees_and_nodes(hub: Hub) -> None:
    tree_id = await plant(hub)
    assert hub.database is not None
    await call_items(hub, "arbor.tree_archive", tree_id=tree_id)
    await hub.database.execute("UPDATE arbor_trees SET state_since = 0")
    items = await call_items(hub, "arbor.cleanup")
    assert items[-2]["content"]["purged"] == 1
    batches = f"freeing space, batches of {references.NODES_AT_ONCE} nodes"
    assert reports(items) == [
        ("archiving and removing trees: 1 of 1", 100.0),
        (f"{batches}: 1", None),
        (f"{batches}: 2", None),
    ]
