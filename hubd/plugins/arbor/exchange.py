"""Trees as JSON lines, out and in again: the same ids, texts, handles, labels and order.

An import is written in parts, so that it holds up nobody, into a tree that nobody sees until it
is whole; what fails or is cut off by a crash is removed.
"""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import closing
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import to_json

from hubd.activation import Encoded, Event, InvalidParams, NotFound
from hubd.plugins.arbor.encode import encoded, node_json, tree_json
from hubd.plugins.arbor.events import ExportedNode, ExportedTree, ExternalData
from hubd.storage import ids, tree, walk
from hubd.storage.database import Database, Tx
from hubd.storage.tree import LANES, TreeRow

FORMAT: Final = 1
# Nodes that are written in one transaction.
NODES_AT_ONCE: Final = 500
# A line holds one node; its text may be a mebibyte, and every character of it escaped.
MAX_LINE: Final = 8 * 1024 * 1024

# The smallest export there is: a tree with nothing but its root.
EXAMPLE: Final = (
    '{"type":"tree","format":1,"tree_id":"550e8400-e29b-41d4-a716-446655440000",'
    '"owner_id":"system","metadata":null,"root":"01890a5d-ac96-774b-bcce-b302099a8057",'
    '"created_at":1767000000}'
)

E = TypeVar("E", bound=Event)


async def export(db: Database, found: TreeRow) -> AsyncIterator[Encoded]:
    """The tree itself, then its nodes in the order in which they were made, without the root."""
    about = tree_json(found)
    wanted = ("tree_id", "owner_id", "metadata", "root", "created_at")
    line = {"type": ExportedTree.tag, "format": FORMAT, **{name: about[name] for name in wanted}}
    yield Encoded(to_json(line))
    async for node in walk.in_order(db, found):
        if node.parent is not None:
            fields = node_json("", node)
            del fields["tree_id"], fields["depth"]
            yield encoded(ExportedNode, **fields)


Lines = Generator[bytes, None, None]


def lines_of(data: str) -> Lines:
    """The lines of a text."""
    return (line.encode() for line in data.split("\n") if line.strip())


def lines_in(file: Path) -> Lines:
    """The lines of a file.

    Raises:
        NotFound, InvalidParams: It cannot be read, or a line is too long.
    """
    try:
        with file.open("rb") as opened:
            while line := opened.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE:
                    raise InvalidParams(f"{file} has a line of more than {MAX_LINE} bytes")
                if line.strip():
                    yield line
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}") from error


class Import:
    """One import, from its first line to the tree that everybody sees."""

    def __init__(
        self, db: Database, *, owner: str | None, new_ids: bool, now: int, max_text: int
    ) -> None:
        self._db = db
        self._owner = owner
        self._new_ids = new_ids
        self._now = now
        self._max_text = max_text
        # The number of the line that is being read, for messages.
        self._line = 0

    async def run(self, lines: Lines) -> tuple[TreeRow, int]:
        """Read all lines; the tree, and how many nodes it has besides its root.

        Raises:
            InvalidParams: A line is not what it should be; nothing was imported.
            Conflict: The tree, or one of its nodes, exists already.
        """
        with closing(lines) as source:
            [first] = await asyncio.to_thread(lambda: list(islice(source, 1))) or [b""]
            header = self._read(ExportedTree, first)
            if header.format != FORMAT:
                raise InvalidParams(f"format {header.format} is not known; this hub reads {FORMAT}")
            found = await self._db.transaction(lambda tx: self._create(tx, header))
            count = 0
            try:
                # Reading may wait for a disk, so it is done elsewhere.
                while part := await asyncio.to_thread(lambda: list(islice(source, NODES_AT_ONCE))):
                    nodes = [self._read(ExportedNode, line) for line in part]
                    self._check_texts(nodes)
                    await self._db.transaction(
                        lambda tx, nodes=nodes: self._append(tx, found, nodes)  # type: ignore[misc]
                    )
                    count += len(nodes)
                await self._db.transaction(lambda tx: tree.reveal(tx, found))
            except BaseException:
                await asyncio.shield(self._db.transaction(lambda tx: tree.give_up(tx, found)))
                raise
        return found, count

    def _create(self, tx: Tx, header: ExportedTree) -> TreeRow:
        tree_id = ids.uuid4() if self._new_ids else self._id(header.tree_id)
        metadata = None if header.metadata is None else to_json(header.metadata).decode()
        self._tree_id = tree_id
        return tree.create(
            tx,
            self._owner or header.owner_id,
            self._now,
            metadata=metadata,
            tree_id=tree_id,
            root_id=self._node_id(header.root),
            created_at=header.created_at,
            state="importing",
        )

    def _append(self, tx: Tx, found: TreeRow, nodes: Iterable[ExportedNode]) -> None:
        for node in nodes:
            parent = tree.place(tx, found, self._node_id(node.parent))
            if isinstance(node.data, ExternalData):
                content = tree.external(tx, node.data.handle)
            else:
                content = tree.text(node.data.content)
            tree.append(
                tx,
                parent,
                content,
                node.created_at,
                lane=LANES.index(node.lane),
                label=node.label,
                metadata=None if node.metadata is None else to_json(node.metadata).decode(),
                node_id=self._node_id(node.id),
            )

    def _read(self, model: type[E], line: bytes) -> E:
        self._line += 1
        try:
            return model.model_validate_json(line)
        except ValidationError as error:
            first: Any = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidParams(
                f"line {self._line} is no {model.tag} of an export: {where}: {first['msg']}",
                suggestion="Give what tree_export printed, unchanged",
            ) from None

    def _check_texts(self, nodes: Iterable[ExportedNode]) -> None:
        for node in nodes:
            if not isinstance(node.data, ExternalData) and len(node.data.content) > self._max_text:
                raise InvalidParams(f"node {node.id} has a text of more than {self._max_text}")

    def _id(self, written: str) -> bytes:
        try:
            return UUID(written).bytes
        except ValueError:
            raise InvalidParams(f"line {self._line}: '{written[:80]}' is not an id") from None

    def _node_id(self, written: str) -> bytes:
        """The id, or the one that stands for it in this copy; both sort alike."""
        old = self._id(written)
        if not self._new_ids:
            return old
        digest = blake2b(old[8:], key=self._tree_id, digest_size=8).digest()
        return old[:8] + bytes([old[8] & 0xC0 | digest[0] & 0x3F]) + digest[1:]
