"""arbor: the methods for references to trees, and the cleanup of trees without owners."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Annotated, Literal, NotRequired, TypedDict, Unpack, cast

from pydantic import BaseModel, Field

from hubd.activation import Encoded, HubError, NotFound, Progress, method
from hubd.activation.pages import RowLimit
from hubd.activation.params import TreeId
from hubd.plugins.arbor import events
from hubd.plugins.arbor.base import LIST_TREES, ArborBase, Count, OwnerId, now
from hubd.plugins.arbor.encode import encoded
from hubd.storage import ids
from hubd.storage.arbor import references, tree
from hubd.storage.arbor.references import DAY, Periods
from hubd.storage.arbor.tree import TreeRow
from hubd.storage.database import Tx

State = Literal["active", "scheduled", "archived", "purged"]

log = logging.getLogger(__name__)


class Settings(BaseModel, defer_build=True):
    """The days that trees without owners are kept, and the seconds between cleanup runs."""

    scheduled_days: float = Field(7, ge=0)
    archived_days: float = Field(30, ge=0)
    cleanup_seconds: float = Field(3600, gt=0)


class References(TypedDict):
    """References of one owner to a tree.

    Args:
        tree_id: The id of the tree, or its first 8 or more digits.
        owner_id: The owner of the references.
        count: The number of references.
    """

    tree_id: TreeId
    owner_id: NotRequired[Annotated[OwnerId, Field(default="system")]]
    count: NotRequired[Annotated[Count, Field(default=1)]]


class Removal(TypedDict):
    """A tree, and the owner that removes it.

    Args:
        tree_id: The id of the tree, or its first 8 or more digits.
        owner_id: The caller. If others own the tree, the call is refused.
        force: Ignore other owners.
    """

    tree_id: TreeId
    owner_id: NotRequired[Annotated[OwnerId, Field(default="system")]]
    force: NotRequired[Annotated[bool, Field(default=False)]]


class Lifecycle(ArborBase):
    """Methods for references and for the life cycle of trees."""

    settings_model = Settings

    def __init__(self) -> None:
        super().__init__()
        # The defaults until `lifespan` reads the settings.
        self._settings = Settings.model_validate({})

    async def lifespan(self) -> AsyncIterator[None]:
        """Clean up in the background while the hub runs."""
        self._settings = self.settings(Settings)
        # Remove imports that were incomplete when the hub died.
        await self.db.transaction(tree.give_up)
        cleaner = asyncio.create_task(self._clean_up_periodically(), name="arbor cleanup")
        try:
            yield
        finally:
            cleaner.cancel()
            await asyncio.wait([cleaner])

    @method(completes=LIST_TREES)
    async def tree_claim(self, **added: Unpack[References]) -> events.TreeClaimed:
        """Add references to a tree. A tree that was scheduled for deletion becomes active."""
        owner_id, count = added.get("owner_id", "system"), added.get("count", 1)

        def claim(tx: Tx) -> tuple[TreeRow, tuple[int, int]]:
            row = tree.find(tx, added["tree_id"])
            return row, references.claim(tx, row, owner_id, count, now())

        row, (own, total) = await self.db.transaction(claim)
        return events.TreeClaimed(
            tree_id=ids.text(row.id), owner_id=owner_id, new_count=total, owner_count=own
        )

    @method(completes=LIST_TREES)
    async def tree_release(self, **removed: Unpack[References]) -> events.TreeReleased:
        """Remove references to a tree. A tree without references is scheduled for deletion."""
        owner_id, count = removed.get("owner_id", "system"), removed.get("count", 1)

        def release(tx: Tx) -> tuple[TreeRow, tuple[int, int]]:
            row = tree.find(tx, removed["tree_id"])
            return row, references.release(tx, row, owner_id, count, now())

        row, (own, total) = await self.db.transaction(release)
        return events.TreeReleased(
            tree_id=ids.text(row.id), owner_id=owner_id, new_count=total, owner_count=own
        )

    @method(read_only=True, completes=LIST_TREES)
    async def tree_get_refs(self, tree_id: TreeId) -> events.TreeRefs:
        """List the owners of a tree and the steps of its life, also of a removed tree.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits; of a removed tree, the
                whole id.
        """
        state: State
        try:
            row = await tree.look_up(self.db, tree_id)
        except NotFound:
            removed = ids.span(tree_id)
            assert removed is not None
            key, owners, count, state = removed[0], {}, 0, "purged"
        else:
            key, owners, count = row.id, json.loads(row.owners), row.ref_count
            state = cast("State", row.state)
        steps = await references.history(self.db, key)
        if not steps:
            raise NotFound(
                f"no tree {tree_id}", suggestion="List the trees with `synapse arbor tree-list`"
            )
        return events.TreeRefs(
            tree_id=ids.text(key),
            state=state,
            ref_count=count,
            owners=owners,
            history=[
                events.LifeStep(
                    step=step.step, at=step.at, owner_id=step.owner, count=step.references
                )
                for step in steps
            ],
        )

    @method(read_only=True, render="table")
    async def tree_list_scheduled(
        self, limit: RowLimit | None = None
    ) -> AsyncIterator[events.TreesScheduled | Encoded]:
        """List the trees without owners, which are due to be archived, in pages.

        Args:
            limit: The maximum number of trees; all by default.
        """
        async for trees in self._tree_pages("scheduled", limit):
            yield encoded(events.TreesScheduled, trees=trees)

    @method(read_only=True, render="table")
    async def tree_list_archived(
        self, limit: RowLimit | None = None
    ) -> AsyncIterator[events.TreesArchived | Encoded]:
        """List the archived trees, which are read-only and due to be removed, in pages.

        Args:
            limit: The maximum number of trees; all by default.
        """
        async for trees in self._tree_pages("archived", limit):
            yield encoded(events.TreesArchived, trees=trees)

    @method(destructive=True, completes=LIST_TREES)
    async def tree_delete(self, **removal: Unpack[Removal]) -> events.TreeDeleted:
        """Remove a tree at once and for good."""
        owner_id, force = removal.get("owner_id", "system"), removal.get("force", False)

        def delete(tx: Tx) -> TreeRow:
            row = tree.find(tx, removal["tree_id"])
            references.delete(tx, row, owner_id, now(), force=force)
            return row

        row = await self.db.transaction(delete)
        self.removal_due.set()
        return events.TreeDeleted(tree_id=ids.text(row.id))

    @method(destructive=True, completes=LIST_TREES)
    async def tree_archive(self, **removal: Unpack[Removal]) -> events.TreeArchived:
        """Archive a tree now. It is read-only, and removed after its time in the archive."""
        owner_id, force = removal.get("owner_id", "system"), removal.get("force", False)

        def archive(tx: Tx) -> TreeRow:
            row = tree.find(tx, removal["tree_id"])
            references.archive(tx, row, owner_id, now(), force=force)
            return row

        row = await self.db.transaction(archive)
        return events.TreeArchived(tree_id=ids.text(row.id))

    @method(destructive=True, render="table")
    async def cleanup(
        self, dry_run: bool = False
    ) -> AsyncIterator[events.CleanupStep | events.CleanupDone]:
        """Archive and remove the trees that are due, as the hub does every hour.

        Args:
            dry_run: Only list the steps that are due.
        """
        steps = await self._due() if dry_run else await self._clean_up()
        for step in steps:
            yield events.CleanupStep(
                tree_id=ids.text(step.tree_id),
                step=step.step,
                since=step.since,
                dry_run=dry_run,
            )
        names = [step.step for step in steps]
        yield events.CleanupDone(
            archived=names.count("archived"), purged=names.count("purged"), dry_run=dry_run
        )

    @property
    def _periods(self) -> Periods:
        settings = self._settings
        return Periods(settings.scheduled_days * DAY, settings.archived_days * DAY)

    async def _due(self) -> list[references.Step]:
        return await references.due(self.db, self._periods, now())

    async def _clean_up(self) -> list[references.Step]:
        """Take all steps that are due, and free the space of deleted trees."""
        done: list[references.Step] = []
        periods = self._periods
        total = len(await self._due())
        progress = Progress(self.host, "archiving and removing trees")
        while steps := await self.db.transaction(
            lambda tx: references.clean_up(tx, periods, now())
        ):
            done += steps
            await progress.update(len(done), total)
        skipped: set[int] = set()
        batches = 0
        progress = Progress(
            self.host, f"freeing space, batches of {references.NODES_AT_ONCE} nodes"
        )
        while await self._purge(skipped):
            batches += 1
            await progress.update(batches)
        return done

    async def _purge(self, skipped: set[int]) -> bool:
        """Remove some nodes. Return whether there may be more to remove.

        Args:
            skipped: Keys of trees to skip; a tree that can't be removed yet is added.
        """
        try:
            return await self.db.transaction(lambda tx: references.purge(tx, skipped))
        except references.StillReferredTo as reason:
            skipped.add(reason.tree)
            log.warning(
                "tree %s: its nodes can't be removed yet, because other rows refer to them",
                ids.text(reason.tree_id),
            )
            return True

    async def _clean_up_periodically(self) -> None:
        while True:
            try:
                await self._clean_up()
            except HubError as error:
                log.warning("cleanup failed and will be repeated later: %s", error.message)
            except Exception:
                # No error may end the cleanup task.
                log.exception("cleanup failed and will be repeated later")
            try:
                async with asyncio.timeout(self._settings.cleanup_seconds):
                    await self.removal_due.wait()
            except TimeoutError:
                continue
            self.removal_due.clear()
