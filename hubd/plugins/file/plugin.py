"""file: the plugin with its methods and its resolver."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from typing import Annotated, Any, Final, NotRequired, TypedDict, Unpack
from uuid import UUID

from pydantic import BaseModel, Field

from hubd.activation import Activation, NotFound, SearchSource, method, resolver
from hubd.activation.pages import RowLimit, limited
from hubd.activation.params import IdPrefix
from hubd.plugins.file import comparing, events, reading, search, store, text_check, writing
from hubd.plugins.file import pages as snapshot_pages
from hubd.plugins.file.handles import SnapshotRef
from hubd.plugins.file.store import SnapshotRow
from hubd.plugins.file.tables import MIGRATIONS
from hubd.storage import ids
from hubd.storage.blobs.rows import Blob

MIB: Final = 1024 * 1024
# Bytes of a content that resolving returns. `get` returns all of it, in pieces.
MAX_RESOLVED_BYTES: Final = 8 * MIB
# How often a file is read that changes meanwhile.
ATTEMPTS: Final = 3

FilePath = Annotated[str, Field(min_length=1, max_length=4096, examples=["README.md"])]
SnapshotId = IdPrefix
# A snapshot's id, its first digits, its handle, or the path of a file.
Comparable = Annotated[str, Field(min_length=1, max_length=8192, examples=["README.md"])]
LIST_SNAPSHOTS: Final = {"snapshot_id": "file.list"}

# The functional form, because `from` is a keyword.
Comparison = TypedDict(
    "Comparison",
    {
        "from": Annotated[
            Comparable,
            Field(
                description="The first snapshot: its id, its first 8 or more digits, or its handle."
            ),
        ],
        "to": NotRequired[
            Annotated[
                Comparable | None,
                Field(
                    description="The second snapshot, or the path of a file; by default the file "
                    "of the first one as it is now."
                ),
            ]
        ],
    },
)


class Settings(BaseModel, defer_build=True):
    """The section `file` of the settings."""

    max_mib: Annotated[float, Field(gt=0)] = 1024.0


class File(Activation, namespace="file", version="1.0.0"):
    """Exact copies of files. A copy stays as it was when its file changes, moves or vanishes.

    Equal contents are stored once. A link is followed; a directory, a device, a FIFO and a socket
    are refused. A file that changes while it is read is read again, up to three times.
    """

    migrations = MIGRATIONS
    settings_model = Settings

    @method(needs_context=True, weight=40)
    async def snapshot(
        self, path: FilePath, max_bytes: Annotated[int, Field(ge=1)] | None = None
    ) -> events.Snapshot:
        """Keep an exact copy of a file, and return its handle.

        Args:
            path: The file; a relative path begins at the caller's directory.
            max_bytes: The largest size in bytes; the setting `max_mib` by default.
        """
        absolute = self._absolute(path)
        limit = max_bytes or self._max_bytes
        with closing(await asyncio.to_thread(reading.open_regular, absolute)) as file:
            for attempt in range(1, ATTEMPTS + 1):
                async with self.db.blobs.stage() as staging:
                    copied = await reading.copy(file, staging, limit)
                    if copied.changed and attempt < ATTEMPTS:
                        continue
                    blob = await staging.finish()
                    return _event(await self._store(absolute, blob, copied))
        raise AssertionError("the last attempt returns")

    @method(read_only=True, completes=LIST_SNAPSHOTS)
    async def get(
        self,
        snapshot_id: SnapshotId,
        offset: Annotated[int, Field(ge=0)] = 0,
        max_bytes: Annotated[int, Field(ge=1)] | None = None,
    ) -> AsyncIterator[events.Snapshot | events.Text | events.Bytes]:
        """Return a snapshot and its content, in pieces.

        Args:
            snapshot_id: The id of the snapshot, or its first 8 or more digits.
            offset: The position of the first byte.
            max_bytes: The number of bytes; all by default.
        """
        row = await store.look_up(self.db, snapshot_id)
        yield _event(row)
        end = row.size if max_bytes is None else min(row.size, offset + max_bytes)
        content = snapshot_pages.pages(
            self.db.blobs, row.digest, offset, end, is_text=bool(row.is_text)
        )
        async for page in content:
            yield page

    @method(name="list", read_only=True, render="table", needs_context=True)
    async def list_(
        self, path: FilePath | None = None, limit: RowLimit = 1000
    ) -> AsyncIterator[events.Snapshots]:
        """List the snapshots, the newest first.

        Args:
            path: Only the snapshots of this file.
            limit: The maximum number of rows.
        """
        absolute = None if path is None else self._absolute(path)
        async for rows in limited(self._pages(absolute), limit):
            yield events.Snapshots(snapshots=[_entry(row) for row in rows])

    @method(read_only=True, render="text", needs_context=True, completes={"from": "file.list"})
    async def diff(self, **comparison: Unpack[Comparison]) -> events.Diff:
        """Compare two snapshots, or a snapshot with a file as it is now."""
        first = await self._snapshot(comparison["from"])
        if first is None:
            raise NotFound(
                f"no snapshot '{comparison['from'][:80]}'",
                suggestion="List the snapshots with `synapse file list`",
            )
        other = comparison.get("to")
        second = await self._snapshot(other) if other else None
        if second is not None:
            sizes, same = (first.size, second.size), first.digest == second.digest
            after = None if same else await self._comparable(second)
            label = _label(second)
        else:
            label = self._absolute(other) if other else first.path
            now = await reading.examine(label, self._max_bytes, comparing.MAX_DIFF_BYTES)
            sizes, same, after = (first.size, now.size), first.digest == now.digest, now.content
        event = events.Diff(
            identical=same,
            text=None,
            added=0 if same else None,
            removed=0 if same else None,
            truncated=False,
            first=_label(first),
            second=label,
            sizes=sizes,
        )
        before = None if same else await self._comparable(first)
        if before is None or after is None or not _is_comparable(after):
            return event
        difference = await comparing.compare(self.host, before, after)
        return event.model_copy(update=difference._asdict())

    @method(needs_context=True, completes=LIST_SNAPSHOTS)
    async def restore(
        self, snapshot_id: SnapshotId, to: FilePath | None = None, overwrite: bool = False
    ) -> events.Restored:
        """Write the content of a snapshot to a file.

        The file appears complete or not at all. A link at its path is replaced, not followed.

        Args:
            snapshot_id: The id of the snapshot, or its first 8 or more digits.
            to: The file to write; by default the file of the snapshot.
            overwrite: Replace an existing file.
        """
        row = await store.look_up(self.db, snapshot_id)
        path = self._absolute(to) if to else row.path
        file = await asyncio.to_thread(writing.NewFile, path, row.mode, overwrite=overwrite)
        try:
            async for chunk in self.db.blobs.chunks(row.digest):
                await asyncio.to_thread(file.write, chunk)
            await asyncio.to_thread(file.finish)
        finally:
            file.close()
        return events.Restored(path=path, size=row.size, digest=row.digest.hex(), handle=_ref(row))

    @method(destructive=True, completes=LIST_SNAPSHOTS)
    async def delete(self, snapshot_id: SnapshotId) -> events.SnapshotDeleted:
        """Delete a snapshot. Its handle no longer resolves.

        Args:
            snapshot_id: The id of the snapshot, or its first 8 or more digits.
        """
        row = await store.look_up(self.db, snapshot_id)
        await self.db.transaction(lambda tx: store.delete(tx, row.key))
        return events.SnapshotDeleted(snapshot_id=ids.text(row.id), path=row.path)

    def search_sources(self) -> Sequence[SearchSource]:
        """Return the snapshots."""
        return (search.source(),)

    @resolver(many=True)
    async def resolve_snapshot(
        self, refs: list[SnapshotRef]
    ) -> AsyncIterator[events.Document | events.Binary | NotFound]:
        """Return the contents of snapshots, each up to 8 MiB."""
        for row in await store.look_up_each(self.db, [ref.snapshot_id for ref in refs]):
            yield row if isinstance(row, NotFound) else await self._resolved(row)

    async def _resolved(self, row: SnapshotRow) -> events.Document | events.Binary:
        content = await self.db.blobs.read(row.digest, 0, MAX_RESOLVED_BYTES)
        fields: dict[str, Any] = {
            "handle": _ref(row),
            "path": row.path,
            "name": row.name,
            "size": row.size,
            "digest": row.digest.hex(),
            "mime_type": row.mime_type,
            "modified_at": row.modified_at,
            "changed": bool(row.changed),
            "created_at": row.created_at,
            "truncated": len(content) < row.size,
        }
        if row.is_text:
            # A cut may divide a character.
            return events.Document(**fields, text=content.decode(errors="ignore"))
        return events.Binary(**fields, base64=b64encode(content).decode())

    async def _store(self, path: str, blob: Blob, copied: reading.Copied) -> SnapshotRow:
        row = SnapshotRow(
            key=0,
            id=ids.uuid4(),
            path=path,
            size=blob.size,
            digest=blob.digest,
            mime_type=text_check.mime_type(path, is_text=copied.is_text),
            is_text=copied.is_text,
            mode=copied.mode,
            modified_at=copied.modified_at,
            changed=copied.changed,
            created_at=int(time.time()),
        )
        await self.db.transaction(lambda tx: store.add(tx, row, blob))
        return row

    async def _pages(self, path: str | None) -> AsyncIterator[list[SnapshotRow]]:
        before = store.NO_KEY
        while rows := await store.page(self.db, before, path):
            yield rows
            before = rows[-1].key

    async def _snapshot(self, written: str) -> SnapshotRow | None:
        """Return the snapshot with this id or handle; None if the text is neither."""
        if "::" in written:
            return await store.look_up(self.db, str(SnapshotRef.parse(written).snapshot_id))
        if ids.span(written) is None:
            return None
        return await store.look_up(self.db, written)

    async def _comparable(self, row: SnapshotRow) -> bytes | None:
        """Return the content for a comparison by lines; None if it is too large or not text."""
        if not row.is_text or row.size > comparing.MAX_DIFF_BYTES:
            return None
        return await self.db.blobs.read(row.digest)

    @property
    def _max_bytes(self) -> int:
        return int(self.settings(Settings).max_mib * MIB)

    def _absolute(self, path: str) -> str:
        return reading.absolute(path, self.host.context.cwd)


def _is_comparable(content: bytes) -> bool:
    check = text_check.TextCheck()
    check.add(content)
    return len(content) <= comparing.MAX_DIFF_BYTES and check.ends_as_text()


def _ref(row: SnapshotRow) -> SnapshotRef:
    return SnapshotRef(snapshot_id=UUID(bytes=row.id), name=row.name)


def _label(row: SnapshotRow) -> str:
    return f"{row.path} ({ids.text(row.id)})"


def _entry(row: SnapshotRow) -> events.SnapshotEntry:
    return events.SnapshotEntry(
        snapshot_id=ids.text(row.id),
        path=row.path,
        name=row.name,
        size=row.size,
        mime_type=row.mime_type,
        digest=row.digest.hex(),
        created_at=row.created_at,
        handle=_ref(row),
    )


def _event(row: SnapshotRow) -> events.Snapshot:
    return events.Snapshot(
        **_entry(row).model_dump(exclude={"handle"}),
        handle=_ref(row),
        is_text=bool(row.is_text),
        modified_at=row.modified_at,
        changed=bool(row.changed),
    )
