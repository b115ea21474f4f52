"""A plugin that grows trees in its own transactions, as those that mirror conversations do."""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal
from uuid import UUID

from hubd.activation import Activation, Event, Handle, NotFound, method, resolver
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.database import Tx
from hubd.wire import handle as grammar


class Grown(Event):
    """Nodes that were added."""

    nodes: list[str]


class Thing(Handle, method="thing", kind="document", summary="{text}"):
    """Points at something that resolves as it is told."""

    how: str
    text: str = ""


class Told(Event):
    """The data of a thing."""

    text: str


class Grower(Activation, namespace="grower", version="1.0.0"):
    """Adds what Arbor's own methods do not: other lanes, side nodes, many at once."""

    def __init__(self) -> None:
        # Set once a resolver waits, and when one may go on.
        self.waiting = asyncio.Event()
        self.released = asyncio.Event()
        # Resolvers that were cancelled while they waited, and the most that ran at once.
        self.ended = 0
        self.running = self.most = 0
        # Set when the last one that ran has ended.
        self.idle = asyncio.Event()
        # The marks of every tree; None lets them fail.
        self.names: dict[str, list[str]] | None = {}

    async def marks(self, tree_id: str) -> dict[str, list[str]]:
        """Return the marks that a test has set."""
        if self.names is None:
            raise ValueError("no marks")
        return self.names

    @method(streaming=False)
    async def grow(
        self,
        tree_id: str,
        parent: UUID | None = None,
        content: str = "",
        handle: str | None = None,
        lane: Literal["main", "events"] = "main",
        side: bool = False,
        label: str | None = None,
        count: int = 1,
        chain: bool = True,
    ) -> AsyncIterator[Grown]:
        """Add nodes below one, in a chain or side by side."""

        def work(tx: Tx) -> list[str]:
            row = tree.writable(tx, tree_id)
            above = tree.place(tx, row, parent.bytes if parent else None)
            node_content = (
                tree.text(content) if handle is None else tree.external(tx, _parsed(handle))
            )
            nodes = []
            for _ in range(count):
                node = tree.append(
                    tx, above, node_content, 0, lane=tree.LANES.index(lane), side=side, label=label
                )
                nodes.append(ids.text(node.id))
                above = node if chain else above
            return nodes

        yield Grown(nodes=await self.db.transaction(work))

    @resolver
    async def thing(self, ref: Thing) -> AsyncIterator[Told]:
        """Answer, fail, or wait until told otherwise."""
        self.idle.clear()
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if ref.how == "gone":
                raise NotFound(f"no thing {ref.text}")
            if ref.how == "raises":
                raise ValueError(f"a resolver's mistake: {ref.text}")
            if ref.how == "slow":
                self.waiting.set()
                await self.released.wait()
            yield Told(text=ref.text)
        except asyncio.CancelledError:
            self.ended += 1
            raise
        finally:
            self.running -= 1
            if not self.running:
                self.idle.set()


def _parsed(handle: str) -> grammar.WireHandle:
    return grammar.parse(handle)
