"""Trees as JSON lines. An import restores the ids, texts, handles, labels and order of an export.

An import writes its nodes in parts, so that other writers can take turns. Its tree is hidden until
it is complete. If the import fails or the hub dies, the tree is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from contextlib import closing
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import to_json

from hubd.activation import Conflict, Encoded, Event, InvalidParams, NotFound
from hubd.activation.params import name_problem
from hubd.plugins.arbor import events
from hubd.plugins.arbor.base import MAX_LABEL, MAX_OWNER, MAX_TEXT, metadata_text
from hubd.plugins.arbor.encode import encoded, node_json, tree_json
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import LANES, MAX_HANDLE, TreeRow
from hubd.storage.database import Database, Tx

FORMAT: Final = 1
# Nodes in one transaction.
NODES_AT_ONCE: Final = 500
# Bytes of a line. It holds one node: a text of one mebibyte with every character escaped fits.
MAX_LINE: Final = 8 * 1024 * 1024
# The largest integer of the database.
MAX_SECONDS: Final = 2**63

# The smallest export: a tree with only its root.
EXAMPLE: Final = (
    '{"type":"tree","format":1,"tree_id":"550e8400-e29b-41d4-a716-446655440000",'
    '"owner_id":"system","metadata":null,"root":"01890a5d-ac96-774b-bcce-b302099a8057",'
    '"created_at":1767000000}'
)

E = TypeVar("E", bound=Event)
T = TypeVar("T")


async def export(db: Database, row: TreeRow) -> AsyncIterator[Encoded]:
    """Yield the tree, then its nodes in order of creation, without the root."""
    fields = tree_json(row)
    names = ("tree_id", "owner_id", "metadata", "root", "created_at")
    line = {
        "type": events.ExportedTree.tag,
        "format": FORMAT,
        **{name: fields[name] for name in names},
    }
    # An import needs an owner, and the tree may have none any more.
    line["owner_id"] = row.owner
    yield Encoded(to_json(line))
    async for node in walk.in_order(db, row):
        if node.parent is not None:
            fields = node_json("", node)
            del fields["tree_id"], fields["depth"]
            yield encoded(events.ExportedNode, **fields)


# Lines with their numbers.
Lines = Generator[tuple[int, bytes], None, None]


def lines_of(data: str) -> Lines:
    """Yield the lines of a text."""
    for number, line in enumerate(data.split("\n"), 1):
        if line.strip():
            yield number, line.encode()


def lines_in(file: Path) -> Lines:
    """Yield the lines of a file.

    Raises:
        NotFound: The file can't be read.
        InvalidParams: A line is too long.
    """
    try:
        # Reading a pipe or a device might never end.
        if not file.is_file():
            raise NotFound(f"{file} is not a file")
        with file.open("rb") as opened:
            number = 0
            while line := opened.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise InvalidParams(f"line {number} is longer than {MAX_LINE} bytes")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise NotFound(f"can't read {file}: {error.strerror}") from error


def count_lines(file: Path) -> int:
    """Return the approximate number of lines of a file; 0 if it can't be read."""
    try:
        if not file.is_file():
            return 0
        with file.open("rb") as opened:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: opened.read(MAX_LINE), b""))
    except OSError:
        return 0


class _Entry(NamedTuple):
    """One node of an import, ready to store."""

    line: int
    node: events.ExportedNode
    id: bytes
    parent: bytes
    metadata: str | None


class Import:
    """One import, from its first line to the visible tree."""

    def __init__(self, db: Database, *, owner: str | None, new_ids: bool, now: int) -> None:
        self._db = db
        self._owner = owner
        self._new_ids = new_ids
        self._now = now
        # The number of the current line, for messages.
        self._line = 1
        # Set when the first line is read.
        self._tree_id = b""
        # Set when the hidden tree is created. A failed import removes it.
        self._tree: TreeRow | None = None

    async def run(
        self, lines: Lines, report: Callable[[int], Awaitable[None]] | None = None
    ) -> tuple[TreeRow, int]:
        """Import all lines. Return the tree, and the number of its nodes without the root.

        A cancelled import leaves nothing, unless it was complete.

        Args:
            lines: The lines of an export.
            report: Called after each part with the number of nodes so far.

        Raises:
            InvalidParams: A line is invalid; nothing was imported.
            Conflict: The tree, or one of its nodes, exists already.
        """
        with closing(lines) as source:
            try:
                header = self._header(await _part(source, 1))
                row = await _finish(self._db.transaction(lambda tx: self._create(tx, header)))
                count = 0
                while part := await _part(source, NODES_AT_ONCE):
                    entries = [self._entry(number, line) for number, line in part]
                    await self._db.transaction(
                        lambda tx, entries=entries: self._append(tx, row, entries)  # type: ignore[misc]
                    )
                    count += len(entries)
                    if report is not None:
                        await report(count)
                await self._db.transaction(lambda tx: tree.reveal(tx, row))
            except BaseException:
                if self._tree is not None:
                    hidden = self._tree
                    await asyncio.shield(self._db.transaction(lambda tx: tree.give_up(tx, hidden)))
                raise
        return row, count

    def _header(self, part: list[tuple[int, bytes]]) -> events.ExportedTree:
        """Read the first line, which describes the tree."""
        [(self._line, line)] = part or [(1, b"")]
        header = self._read(events.ExportedTree, line)
        if header.format != FORMAT:
            raise self._wrong(f"format {header.format} is not supported, only {FORMAT}")
        if not 1 <= len(header.owner_id) <= MAX_OWNER:
            raise self._wrong(f"owner_id must have 1 to {MAX_OWNER} characters")
        self._check_name("owner_id", header.owner_id)
        self._check_time(header.created_at)
        self._tree_id = ids.uuid4() if self._new_ids else self._id(header.tree_id)
        return header

    def _check_name(self, field: str, text: str) -> None:
        if (problem := name_problem(text)) is not None:
            raise self._wrong(f"{field} {problem}")

    def _create(self, tx: Tx, header: events.ExportedTree) -> TreeRow:
        self._tree = tree.create(
            tx,
            self._owner or header.owner_id,
            self._now,
            metadata=self._metadata(header),
            tree_id=self._tree_id,
            root_id=self._node_id(header.root),
            created_at=header.created_at,
            state="importing",
        )
        return self._tree

    def _entry(self, number: int, line: bytes) -> _Entry:
        """Read a node, and check everything that needs no database."""
        self._line = number
        node = self._read(events.ExportedNode, line)
        if isinstance(node.data, events.ExternalData):
            if len(str(node.data.handle)) > MAX_HANDLE:
                raise self._wrong(f"the handle is longer than {MAX_HANDLE} characters")
        elif len(node.data.content) > MAX_TEXT:
            raise self._wrong(f"the text is longer than {MAX_TEXT} characters")
        if len(node.label or "") > MAX_LABEL:
            raise self._wrong(f"the label is longer than {MAX_LABEL} characters")
        self._check_name("label", node.label or "")
        self._check_time(node.created_at)
        node_id, parent = self._node_id(node.id), self._node_id(node.parent)
        return _Entry(number, node, node_id, parent, self._metadata(node))

    def _append(self, tx: Tx, row: TreeRow, entries: Iterable[_Entry]) -> None:
        for self._line, node, node_id, parent_id, metadata in entries:
            try:
                parent = tree.place(tx, row, parent_id)
            except NotFound:
                raise self._wrong(f"the parent {node.parent} is not on an earlier line") from None
            if isinstance(node.data, events.ExternalData):
                content = tree.external(tx, node.data.handle)
            else:
                content = tree.text(node.data.content)
            try:
                tree.append(
                    tx,
                    parent,
                    content,
                    node.created_at,
                    lane=LANES.index(node.lane),
                    label=node.label,
                    metadata=metadata,
                    node_id=node_id,
                )
            except Conflict as error:
                raise Conflict(f"line {self._line}: {error.message}") from None

    def _read(self, model: type[E], line: bytes) -> E:
        try:
            return model.model_validate_json(line)
        except ValidationError as error:
            first: Any = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            what = f"{where}: {first['msg']}" if where else first["msg"]
            raise self._wrong(f"not a valid {model.tag} of an export: {what}") from None

    def _wrong(self, what: str) -> InvalidParams:
        return InvalidParams(
            f"line {self._line}: {what}",
            suggestion="Use the unchanged output of `synapse arbor tree-export`",
        )

    def _check_time(self, seconds: int) -> None:
        if abs(seconds) >= MAX_SECONDS:
            raise self._wrong(f"created_at: {seconds} is not a valid time")

    def _metadata(self, line: events.ExportedTree | events.ExportedNode) -> str | None:
        try:
            return metadata_text(line.metadata)
        except InvalidParams as error:
            raise self._wrong(error.message) from None

    def _id(self, written: str) -> bytes:
        try:
            return UUID(written).bytes
        except ValueError:
            raise self._wrong(f"'{written[:80]}' is not an id") from None

    def _node_id(self, written: str) -> bytes:
        """Return the id, or the new id that replaces it. New ids keep the order of the old."""
        old = self._id(written)
        if not self._new_ids:
            return old
        digest = blake2b(old[8:], key=self._tree_id, digest_size=8).digest()
        return old[:8] + bytes([old[8] & 0xC0 | digest[0] & 0x3F]) + digest[1:]


async def _part(source: Lines, count: int) -> list[tuple[int, bytes]]:
    """Read the next lines in a thread, because the disk may be slow."""
    return await _finish(asyncio.to_thread(lambda: list(islice(source, count))))


async def _finish(work: Awaitable[T]) -> T:
    """Return the result of work that can't be cancelled. A cancelled caller waits for its end.

    A generator can't be closed while a thread runs it, and a tree can't be removed before it is
    created.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        task.exception()  # Retrieved, so that asyncio does not log it.
        raise
