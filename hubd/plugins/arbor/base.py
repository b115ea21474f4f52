"""What all parts of Arbor share: the types of their parameters, and finding trees and nodes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field
from pydantic_core import to_json

from hubd.activation import Activation, InvalidParams
from hubd.activation.pages import ROWS_PER_ITEM, limited
from hubd.activation.params import NodeId, SafeText
from hubd.plugins.arbor import events
from hubd.plugins.arbor.encode import tree_json
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import LANES, Place, TreeRow
from hubd.storage.arbor.walk import Node

# Longer texts belong behind a handle, which a tree can hold just as well.
MAX_TEXT: Final = 1024 * 1024
MAX_METADATA: Final = 64 * 1024
MAX_HANDLE: Final = 4096
MAX_LABEL: Final = 200
MAX_OWNER: Final = 200

OwnerId = Annotated[SafeText, Field(min_length=1, max_length=MAX_OWNER, examples=["system"])]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Label = Annotated[SafeText, Field(max_length=MAX_LABEL, examples=["draft"])]
Lanes = list[events.Lane] | None
Metadata = dict[str, Any] | None

LIST_TREES: Final = {"tree_id": "arbor.tree_list"}

VERSION: Final = "1.0.0"

T = TypeVar("T")


class ArborBase(Activation, version=VERSION):
    """Finding what a call names."""

    def __init__(self) -> None:
        # Set when a tree was deleted, so that its space is freed at once.
        self.removal_due = asyncio.Event()

    async def changes(self, method: str, params: Mapping[str, Any]) -> AsyncIterator[None]:
        """Yield whenever a tree has other nodes or labels than before, or there are other trees."""
        topic: Hashable = tree.TREES
        if "tree_id" in params:
            topic = tree.topic((await tree.look_up(self.db, params["tree_id"])).key)
        with self.db.waiters.waiting_for(topic) as written:
            while True:
                yield
                await written.wait()
                written.clear()

    async def _place(self, tree_id: str, node_id: NodeId | None) -> tuple[TreeRow, Place]:
        found = await tree.look_up(self.db, tree_id)
        place = await tree.look_up_place(self.db, found, node_id)
        return found, place

    async def _path_pages(self, place: Place, lanes: Lanes) -> AsyncIterator[list[Node]]:
        """Pages of the path to a node; at least one, which may be empty."""
        stretches = await walk.path(self.db, place)
        async for page in at_least_one(walk.nodes(self.db, stretches, lanes_of(lanes, place))):
            yield page

    async def _trees(
        self,
        state: str,
        limit: int | None,
        wanted: Callable[[dict[str, Any]], bool] = lambda entry: True,
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Pages of trees in order of creation; at least one, which may be empty."""

        async def pages() -> AsyncIterator[list[dict[str, Any]]]:
            after = 0
            while page := await walk.page_of_trees(self.db, state, after, ROWS_PER_ITEM):
                yield [entry for entry in map(tree_json, page) if wanted(entry)]
                after = page[-1].key

        async for page in limited(pages(), limit):
            yield page


async def at_least_one(pages: AsyncIterator[list[T]]) -> AsyncIterator[list[T]]:
    """The same pages, or an empty one where there are none."""
    empty = True
    async for page in pages:
        empty = False
        yield page
    if empty:
        yield []


def now() -> int:
    return int(time.time())


def lanes_of(lanes: Lanes, *named: Place) -> frozenset[int]:
    """The lanes to show: those asked for, else `main` and those of the nodes that were named."""
    if lanes:
        return frozenset(map(LANES.index, lanes))
    return frozenset((tree.MAIN, *(place.lane for place in named)))


def metadata_text(metadata: Metadata) -> str | None:
    """Metadata as it is stored.

    Raises:
        InvalidParams: It is too large, or holds a number that JSON cannot carry.
    """
    if metadata is None:
        return None
    written = to_json(metadata)
    if to_json(metadata, inf_nan_mode="null") != written:
        # `1e999` is JSON, and infinite once it is read.
        raise InvalidParams("metadata holds a number that is too large for JSON")
    if len(written) > MAX_METADATA:
        raise InvalidParams(f"metadata may have {MAX_METADATA} bytes, not {len(written)}")
    return written.decode()
