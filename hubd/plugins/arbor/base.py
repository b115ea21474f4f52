"""The parameters that the parts of arbor share, and the lookup of trees and nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from typing import Annotated, Any, Final, NotRequired, TypedDict, TypeVar

from pydantic import Field
from pydantic_core import to_json

from hubd.activation import Activation, InvalidParams
from hubd.activation.pages import ROWS_PER_ITEM, limited
from hubd.activation.params import NodeId, SafeText, TreeId
from hubd.plugins.arbor.encode import tree_json
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import LANES, Lane, Place, TreeRow
from hubd.storage.arbor.walk import Node

# Longer texts belong behind a handle, which a node can hold as well.
MAX_TEXT: Final = 1024 * 1024
MAX_METADATA: Final = 64 * 1024
MAX_LABEL: Final = 200
MAX_OWNER: Final = 200

OwnerId = Annotated[SafeText, Field(min_length=1, max_length=MAX_OWNER, examples=["system"])]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Label = Annotated[SafeText, Field(max_length=MAX_LABEL, examples=["draft"])]
Lanes = list[Lane] | None
Metadata = dict[str, Any] | None

LIST_TREES: Final = {"tree_id": "arbor.tree_list"}

T = TypeVar("T")


class TreePages(TypedDict):
    """The part of a tree to read.

    Args:
        tree_id: The id of the tree, or its first 8 or more digits.
        depth: The deepest level to read; all levels by default.
        lanes: The lanes to show; `main` by default.
        after: The node to continue after: `next` of the previous page.
    """

    tree_id: TreeId
    depth: NotRequired[Annotated[int, Field(ge=0)] | None]
    lanes: NotRequired[Lanes]
    after: NotRequired[NodeId | None]


class NewNode(TypedDict):
    """The place of a new node, and its description.

    Args:
        parent: The id of the parent, or its last 4 or more digits; the root by default.
        label: A name for the node.
        metadata: A JSON object with more about the node.
    """

    parent: NotRequired[NodeId | None]
    label: NotRequired[Label | None]
    metadata: NotRequired[Metadata]


class PathToNode(TypedDict):
    """A path from the root of a tree to a node.

    Args:
        tree_id: The id of the tree, or its first 8 or more digits.
        node_id: The id of the node, or its last 4 or more digits.
        lanes: The lanes to show; `main` and the lane of the node by default.
    """

    tree_id: TreeId
    node_id: NodeId
    lanes: NotRequired[Lanes]


class ArborBase(Activation):
    """The lookup of trees and nodes, for all parts of arbor."""

    def __init__(self) -> None:
        # Set when a tree was deleted, so that the cleanup frees its space at once.
        self.removal_due = asyncio.Event()

    async def changes(self, method: str, params: Mapping[str, Any]) -> AsyncIterator[None]:
        """Yield when the nodes or labels of a tree, or the list of trees, change."""
        topic: Hashable = tree.TREES
        if "tree_id" in params:
            topic = tree.topic((await tree.look_up(self.db, params["tree_id"])).key)
        with self.db.waiters.waiting_for(topic) as written:
            while True:
                yield
                await written.wait()
                written.clear()

    async def _place(self, tree_id: str, node_id: NodeId | None) -> tuple[TreeRow, Place]:
        row = await tree.look_up(self.db, tree_id)
        return row, await tree.look_up_place(self.db, row, node_id)

    async def _path_pages(self, place: Place, lanes: Lanes) -> AsyncIterator[list[Node]]:
        """Yield the path to a node in pages: at least one, which may be empty."""
        stretches = await walk.path(self.db, place)
        async for page in at_least_one(walk.nodes(self.db, stretches, lanes_of(lanes, place))):
            yield page

    async def _tree_pages(
        self,
        state: str,
        limit: int | None,
        matches: Callable[[dict[str, Any]], bool] = lambda entry: True,
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield trees in order of creation, in pages: at least one, which may be empty."""

        async def pages() -> AsyncIterator[list[dict[str, Any]]]:
            after = 0
            while page := await walk.page_of_trees(self.db, state, after, ROWS_PER_ITEM):
                yield [entry for entry in map(tree_json, page) if matches(entry)]
                after = page[-1].key

        async for page in limited(pages(), limit):
            yield page


async def at_least_one(pages: AsyncIterator[list[T]]) -> AsyncIterator[list[T]]:
    """Yield the pages, or one empty page if there are none."""
    empty = True
    async for page in pages:
        empty = False
        yield page
    if empty:
        yield []


def now() -> int:
    """Return the time in seconds."""
    return int(time.time())


def lanes_of(lanes: Lanes, *places: Place) -> frozenset[int]:
    """Return the lanes to show: the given ones, else `main` and the lanes of the places."""
    if lanes:
        return frozenset(map(LANES.index, lanes))
    return frozenset((tree.MAIN, *(place.lane for place in places)))


def metadata_text(metadata: Metadata) -> str | None:
    """Return metadata as the database stores it.

    Raises:
        InvalidParams: It is too large, or has a number that JSON can't carry.
    """
    if metadata is None:
        return None
    text = to_json(metadata)
    if to_json(metadata, inf_nan_mode="null") != text:
        # `1e999` is valid JSON, and infinite once it is parsed.
        raise InvalidParams("metadata has a number that is too large for JSON")
    if len(text) > MAX_METADATA:
        raise InvalidParams(f"metadata is longer than {MAX_METADATA} bytes")
    return text.decode()
