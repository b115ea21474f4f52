"""The System of trees on top of the functions of hubd.storage."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar
from uuid import UUID

from hubd.plugins.arbor.encode import tree_json
from hubd.plugins.arbor.import_export import Import, export, lines_of
from hubd.storage import ids
from hubd.storage.arbor import outline, references, tree, walk
from hubd.storage.arbor.references import DAY, Periods
from hubd.storage.arbor.tree import LANES, Place, TreeRow
from hubd.storage.database import Database, Tx
from hubd.wire import handle as grammar
from tests.plugins.arbor.forest import ARCHIVED_DAYS, SCHEDULED_DAYS, Content, View
from tests.plugins.arbor.system import Lanes, Line

T = TypeVar("T")


class Storage:
    """The functions of hubd.storage, with a fixed page size and a manual clock."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.now = 1_700_000_000
        # How many rows a page has; the smaller, the more seams.
        self.page = walk.PAGE_NODES
        self._periods = Periods(SCHEDULED_DAYS * DAY, ARCHIVED_DAYS * DAY)

    async def create(self, owner: str, metadata: dict[str, Any] | None) -> tuple[str, str]:
        written = None if metadata is None else json.dumps(metadata)
        created = await self.db.transaction(
            lambda tx: tree.create(tx, owner, self.now, metadata=written)
        )
        return ids.text(created.id), ids.text(created.root_id)

    async def append(
        self, tree_id: str, parent: str, content: Content, lane: str, side: bool, label: str | None
    ) -> str:
        def work(tx: Tx) -> Place:
            above = tree.place(tx, tree.writable(tx, tree_id), UUID(parent).bytes)
            return tree.append(
                tx,
                above,
                content_of(tx, content),
                self.now,
                lane=LANES.index(lane),
                side=side,
                label=label,
            )

        return ids.text((await self.db.transaction(work)).id)

    async def label(self, tree_id: str, node: str, label: str | None) -> None:
        await self._on_node(tree_id, node, lambda tx, place: tree.set_label(tx, place, label))

    async def describe(self, tree_id: str, metadata: dict[str, Any] | None) -> None:
        written = None if metadata is None else json.dumps(metadata)
        await self.db.transaction(
            lambda tx: tree.set_metadata(tx, tree.writable(tx, tree_id), written)
        )

    async def delete_node(self, tree_id: str, node: str, recursive: bool) -> int:
        return await self._on_node(
            tree_id, node, lambda tx, place: tree.delete(tx, place, recursive=recursive)
        )

    async def claim(self, tree_id: str, owner: str, count: int) -> tuple[int, int]:
        return await self.db.transaction(
            lambda tx: references.claim(tx, tree.find(tx, tree_id), owner, count, self.now)
        )

    async def release(self, tree_id: str, owner: str, count: int) -> tuple[int, int]:
        return await self.db.transaction(
            lambda tx: references.release(tx, tree.find(tx, tree_id), owner, count, self.now)
        )

    async def archive(self, tree_id: str, owner: str, force: bool) -> None:
        await self.db.transaction(
            lambda tx: references.archive(tx, tree.find(tx, tree_id), owner, self.now, force=force)
        )

    async def delete(self, tree_id: str, owner: str, force: bool) -> None:
        await self.db.transaction(
            lambda tx: references.delete(tx, tree.find(tx, tree_id), owner, self.now, force=force)
        )

    async def jump(self, days: int) -> None:
        self.now += days * DAY

    async def due(self) -> list[tuple[str, str]]:
        return _steps(await references.due(self.db, self._periods, self.now))

    async def clean_up(self) -> list[tuple[str, str]]:
        done = []
        while steps := await self.db.transaction(
            lambda tx: references.clean_up(tx, self._periods, self.now)
        ):
            done += steps
        while await self.db.transaction(references.purge):
            pass
        return _steps(done)

    async def export(self, tree_id: str) -> list[Line]:
        row = await tree.look_up(self.db, tree_id)
        return [json.loads(line.json) async for line in export(self.db, row)]

    async def load(self, lines: list[Line], new_ids: bool) -> str:
        work = Import(self.db, owner=None, new_ids=new_ids, now=self.now)
        imported, _ = await work.run(lines_of("\n".join(map(json.dumps, lines))))
        return ids.text(imported.id)

    async def trees(self) -> list[dict[str, Any]]:
        rows = []
        for state in ("active", "scheduled", "archived"):
            after = 0
            while page := await walk.page_of_trees(self.db, state, after, self.page):
                assert len(page) <= self.page
                rows += page
                after = page[-1].key
        entries = [tree_json(row) for row in rows]
        for entry in entries:
            del entry["state_since"], entry["created_at"]
        return entries

    async def history(self, tree_id: str) -> list[str]:
        return [step.step for step in await references.history(self.db, UUID(tree_id).bytes)]

    async def whole(self, tree_id: str, lanes: Lanes, depth: int | None = None) -> list[View]:
        row = await tree.look_up(self.db, tree_id)
        return await self._views(
            walk.whole(self.db, row, _numbers(lanes), depth=depth, page=self.page)
        )

    async def after(self, tree_id: str, node: str, lanes: Lanes) -> list[View]:
        """The rest of the whole tree behind one of its nodes."""
        row = await tree.look_up(self.db, tree_id)
        place = await tree.look_up_place(self.db, row, UUID(node).bytes)
        pages = walk.whole(self.db, row, _numbers(lanes), after=place, page=self.page)
        return await self._views(pages)

    async def children(self, tree_id: str, node: str, lanes: Lanes) -> list[str]:
        _, place = await self._place(tree_id, node)
        collected: list[walk.Node] = []
        while page := await walk.children(
            self.db, place, _numbers(lanes), collected[-1].key if collected else 0, self.page
        ):
            assert len(page) <= self.page
            collected += page
        assert {entry.parent for entry in collected} <= {place.id}
        return [ids.text(entry.id) for entry in collected]

    async def parent(self, tree_id: str, node: str) -> str | None:
        _, place = await self._place(tree_id, node)
        above = await walk.parent(self.db, place)
        return ids.text(above.id) if above else None

    async def path(self, tree_id: str, node: str, lanes: Lanes) -> list[View]:
        _, place = await self._place(tree_id, node)
        way = await walk.path(self.db, place)
        return await self._views(walk.nodes(self.db, way, _numbers(lanes), page=self.page))

    async def between(self, tree_id: str, one: str, other: str, lanes: Lanes) -> list[View]:
        up, down, depth = await self._ways(tree_id, one, other)
        numbers = _numbers(lanes)
        first = walk.nodes(self.db, walk.cut(up, depth), numbers, upwards=True, page=self.page)
        second = walk.nodes(self.db, walk.cut(down, depth + 1), numbers, page=self.page)
        return await self._views(first) + await self._views(second)

    async def diff(self, tree_id: str, one: str, other: str) -> tuple[str, int, int, int]:
        up, down, depth = await self._ways(tree_id, one, other)
        common = ids.text(await walk.id_at(self.db, up, depth))
        return common, depth + 1, up[-1].last - depth, down[-1].last - depth

    async def leaves(self, tree_id: str, lanes: Lanes) -> list[str]:
        row = await tree.look_up(self.db, tree_id)
        pages = walk.leaves(self.db, row, _numbers(lanes), self.page)
        return [ids.text(leaf) async for page in pages for leaf in page]

    async def count(self, tree_id: str, lanes: Lanes) -> int:
        """The number of nodes that the tree has."""
        return await walk.count(self.db, await tree.look_up(self.db, tree_id), _numbers(lanes))

    async def left_out(self, tree_id: str, last: str, depth: int, lanes: Lanes) -> dict[str, int]:
        """The nodes created after another or deeper than a depth, by the node they count at."""
        row, place = await self._place(tree_id, last)
        counts = await outline.left_out(self.db, row, _numbers(lanes), place.key, depth)
        both = frozenset((tree.MAIN, tree.EVENTS))
        places = {
            (node.segment, node.depth): ids.text(node.id)
            async for page in walk.whole(self.db, row, both)
            for node in page
        }
        return {places[place]: count for place, count in counts.items()}

    async def _place(self, tree_id: str, node: str) -> tuple[TreeRow, Place]:
        row = await tree.look_up(self.db, tree_id)
        return row, await tree.look_up_place(self.db, row, UUID(node).bytes)

    async def _ways(
        self, tree_id: str, one: str, other: str
    ) -> tuple[list[walk.Stretch], list[walk.Stretch], int]:
        up = await walk.path(self.db, (await self._place(tree_id, one))[1])
        down = await walk.path(self.db, (await self._place(tree_id, other))[1])
        return up, down, walk.parting(up, down)

    async def _views(self, pages: AsyncIterator[list[walk.Node]]) -> list[View]:
        collected = []
        async for page in pages:
            assert 0 < len(page) <= self.page
            collected += [
                View(
                    ids.text(node.id),
                    ids.text(node.parent) if node.parent else None,
                    node.depth,
                    LANES[node.lane],
                    Content("text", node.text)
                    if node.text is not None
                    else Content("external", node.handle or ""),
                    node.label,
                )
                for node in page
            ]
        return collected

    async def _on_node(self, tree_id: str, node: str, work: Callable[[Tx, Place], T]) -> T:
        return await self.db.transaction(
            lambda tx: work(tx, tree.place(tx, tree.writable(tx, tree_id), UUID(node).bytes))
        )


def content_of(tx: Tx, content: Content) -> tree.Content:
    """Return the content of a node as storage takes it."""
    if content.kind == "text":
        return tree.text(content.value)
    return tree.external(tx, grammar.parse(content.value))


def _numbers(lanes: Lanes) -> frozenset[int]:
    return frozenset(map(LANES.index, lanes))


def _steps(steps: list[references.Step]) -> list[tuple[str, str]]:
    return [(ids.text(step.tree_id), step.step) for step in steps]
