"""Trees by the methods of Arbor, as any client calls them."""

import json
from typing import Any, Protocol

from hubd.errors import by_code
from hubd.plexus.hub import Hub
from hubd.storage.arbor.references import DAY
from tests.plugins.arbor.forest import Content, View
from tests.plugins.arbor.system import Lanes, Line
from tests.support import LineClient, call_items

Items = list[dict[str, Any]]


class Caller(Protocol):
    """Runs one call to its end."""

    async def __call__(self, method: str, /, **params: Any) -> Items: ...


def in_process(hub: Hub) -> Caller:
    """Calls a hub in this process."""

    async def call(method: str, /, **params: Any) -> Items:
        return await call_items(hub, method, **params)

    return call


def by_socket(client: LineClient) -> Caller:
    """Calls a daemon."""

    async def call(method: str, /, **params: Any) -> Items:
        return await client.call(method, params)

    return call


async def events(call: Caller, method: str, /, **params: Any) -> Items:
    """The events of a call; its error is raised."""
    given = {name: value for name, value in params.items() if value is not None}
    items = await call(method, **given)
    assert items[-1]["type"] == "done"
    for item in items:
        if item["type"] == "error":
            raise by_code(item["code"], item["message"])
    return [item["content"] for item in items if item["type"] == "data"]


class Wire:
    """The System of trees on top of arbor's methods. The plugin Grower adds missing ones."""

    def __init__(self, call: Caller, hub: Hub | None = None) -> None:
        self._call = call
        # The hub whose clock can be moved; None over the wire.
        self._hub = hub

    async def create(self, owner: str, metadata: dict[str, Any] | None) -> tuple[str, str]:
        [created] = await self._arbor("tree_create", owner_id=owner, metadata=metadata)
        assert (created["owner_id"], created["metadata"]) == (owner, metadata)
        return created["tree_id"], created["root"]

    async def append(
        self, tree_id: str, parent: str, content: Content, lane: str, side: bool, label: str | None
    ) -> str:
        name = "content" if content.kind == "text" else "handle"
        common = {"tree_id": tree_id, "parent": parent, "label": label, name: content.value}
        if lane == "main" and not side:
            [node] = await self._arbor(f"node_create_{content.kind}", **common)
            assert (node["parent"], node["content"]) == (parent, content.value)
            return str(node["node_id"])
        [grown] = await events(self._call, "grower.grow", lane=lane, side=side, **common)
        return str(grown["nodes"][0])

    async def label(self, tree_id: str, node: str, label: str | None) -> None:
        await self._arbor("node_label", tree_id=tree_id, node_id=node, label=label)

    async def describe(self, tree_id: str, metadata: dict[str, Any] | None) -> None:
        await self._arbor("tree_update_metadata", tree_id=tree_id, metadata=metadata)

    async def delete_node(self, tree_id: str, node: str, recursive: bool) -> int:
        [gone] = await self._arbor(
            "node_delete", tree_id=tree_id, node_id=node, recursive=recursive
        )
        return int(gone["count"])

    async def claim(self, tree_id: str, owner: str, count: int) -> tuple[int, int]:
        return await self._held("tree_claim", tree_id, owner, count)

    async def release(self, tree_id: str, owner: str, count: int) -> tuple[int, int]:
        return await self._held("tree_release", tree_id, owner, count)

    async def archive(self, tree_id: str, owner: str, force: bool) -> None:
        await self._arbor("tree_archive", tree_id=tree_id, owner_id=owner, force=force)

    async def delete(self, tree_id: str, owner: str, force: bool) -> None:
        await self._arbor("tree_delete", tree_id=tree_id, owner_id=owner, force=force)

    async def jump(self, days: int) -> None:
        """To a tree it is the same whether the clock goes on, or its state began earlier."""
        assert self._hub is not None
        assert self._hub.database is not None
        await self._hub.database.execute(
            "UPDATE arbor_trees SET state_since = state_since - ?", days * DAY
        )

    async def due(self) -> list[tuple[str, str]]:
        return await self._cleanup(dry_run=True)

    async def clean_up(self) -> list[tuple[str, str]]:
        return await self._cleanup(dry_run=False)

    async def export(self, tree_id: str) -> list[Line]:
        return await self._arbor("tree_export", tree_id=tree_id)

    async def load(self, lines: list[Line], new_ids: bool) -> str:
        data = "\n".join(map(json.dumps, lines))
        [imported] = await self._arbor("tree_import", data=data, new_ids=new_ids)
        assert imported["nodes"] == len(lines) - 1
        return str(imported["tree_id"])

    async def trees(self) -> list[dict[str, Any]]:
        collected = []
        for method in ("tree_list", "tree_list_scheduled", "tree_list_archived"):
            for page in await self._arbor(method):
                collected += page["trees"]
        for entry in collected:
            del entry["state_since"], entry["created_at"]
        return collected

    async def history(self, tree_id: str) -> list[str]:
        [refs] = await self._arbor("tree_get_refs", tree_id=tree_id)
        return [step["step"] for step in refs["history"]]

    async def whole(self, tree_id: str, lanes: Lanes, depth: int | None = None) -> list[View]:
        pages = await self._arbor("tree_get", tree_id=tree_id, lanes=sorted(lanes), depth=depth)
        bones = await self._arbor(
            "tree_get_skeleton", tree_id=tree_id, lanes=sorted(lanes), depth=depth
        )
        views = [_view(node) for page in pages for node in page["tree"]["nodes"]]
        assert [_bone(node) for page in bones for node in page["tree"]["nodes"]] == [
            view._replace(content=Content(view.content.kind, "")) for view in views
        ]
        return views

    async def children(self, tree_id: str, node: str, lanes: Lanes) -> list[str]:
        """One by one, and all at once."""
        common = {"tree_id": tree_id, "node_id": node, "lanes": sorted(lanes)}
        pages = await self._arbor("node_get_children", **common)
        collected: list[str] = []
        after = None
        while True:
            [page] = await self._arbor("node_get_children", **common, limit=1, after=after)
            collected += [child["id"] for child in page["children"]]
            after = page.get("next")
            if after is None:
                break
        assert collected == [child["id"] for page in pages for child in page["children"]]
        return collected

    async def parent(self, tree_id: str, node: str) -> str | None:
        [event] = await self._arbor("node_get_parent", tree_id=tree_id, node_id=node)
        return event["parent"]["id"] if event["parent"] else None

    async def path(self, tree_id: str, node: str, lanes: Lanes) -> list[View]:
        common = {"tree_id": tree_id, "node_id": node, "lanes": sorted(lanes)}
        pages = await self._arbor("context_get_path", **common)
        views = [_view(node) for page in pages for node in page["path"]]
        plain = await self._arbor("node_get_path", **common)
        assert [view.id for view in views] == [entry for page in plain for entry in page["path"]]
        return views

    async def between(self, tree_id: str, one: str, other: str, lanes: Lanes) -> list[View]:
        pages = await self._arbor(
            "node_get_path_between", tree_id=tree_id, start=one, end=other, lanes=sorted(lanes)
        )
        return [_view(node) for page in pages for node in page["path"]]

    async def diff(self, tree_id: str, one: str, other: str) -> tuple[str, int, int, int]:
        [event] = await self._arbor("context_diff", tree_id=tree_id, node_id=one, other=other)
        return event["common"], event["shared"], event["ahead"], event["behind"]

    async def leaves(self, tree_id: str, lanes: Lanes) -> list[str]:
        pages = await self._arbor("context_list_leaves", tree_id=tree_id, lanes=sorted(lanes))
        return [leaf for page in pages for leaf in page["leaves"]]

    async def handles(self, tree_id: str, node: str | None, lanes: Lanes) -> list[str]:
        """Those of the tree, or of the path to a node."""
        pages = await self._arbor(
            "context_get_handles", tree_id=tree_id, node_id=node, lanes=sorted(lanes)
        )
        return [handle for page in pages for handle in page["handles"]]

    async def drawing(self, tree_id: str, lanes: Lanes, depth: int) -> tuple[str, int]:
        """The tree as text, and how many nodes were left out."""
        [event] = await self._arbor(
            "tree_render", tree_id=tree_id, lanes=sorted(lanes), depth=depth
        )
        return event["render"], event["more"]

    async def _arbor(self, method: str, **params: Any) -> Items:
        return await events(self._call, f"arbor.{method}", **params)

    async def _held(self, method: str, tree_id: str, owner: str, count: int) -> tuple[int, int]:
        [references] = await self._arbor(method, tree_id=tree_id, owner_id=owner, count=count)
        return references["owner_count"], references["new_count"]

    async def _cleanup(self, *, dry_run: bool) -> list[tuple[str, str]]:
        *steps, done = await self._arbor("cleanup", dry_run=dry_run)
        named = [(step["tree_id"], step["step"]) for step in steps]
        for name in ("archived", "purged"):
            assert done[name] == [step for _, step in named].count(name)
        return named


def _bone(node: dict[str, Any]) -> View:
    content = Content(node["kind"], "")
    return View(node["id"], node["parent"], node["depth"], node["lane"], content, node.get("label"))


def _view(node: dict[str, Any]) -> View:
    data = node["data"]
    content = Content(data["type"], data["content" if data["type"] == "text" else "handle"])
    return View(node["id"], node["parent"], node["depth"], node["lane"], content, node.get("label"))
