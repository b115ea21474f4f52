"""arbor: who holds a tree, and what becomes of one that nobody holds."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Literal, cast

from pydantic import BaseModel, Field

from hubd.activation import Encoded, HubError, NotFound, Progress, method
from hubd.activation.pages import RowLimit
from hubd.activation.params import TreeId
from hubd.plugins.arbor import events
from hubd.plugins.arbor.base import (
    LIST_TREES,
    VERSION,
    ArborBase,
    Count,
    OwnerId,
    now,
)
from hubd.plugins.arbor.encode import encoded
from hubd.storage import ids
from hubd.storage.arbor import references, tree
from hubd.storage.arbor.references import DAY, Periods
from hubd.storage.arbor.tree import TreeRow
from hubd.storage.database import Tx

State = Literal["active", "scheduled", "archived", "purged"]

log = logging.getLogger("hubd.arbor")


class Settings(BaseModel, defer_build=True):
    """How long trees that nobody holds are kept, and how often that is looked at."""

    scheduled_days: float = Field(7, ge=0)
    archived_days: float = Field(30, ge=0)
    cleanup_seconds: float = Field(3600, gt=0)


class Holding(ArborBase, version=VERSION):
    """Methods about references and the life of trees."""

    settings_model = Settings

    def __init__(self) -> None:
        super().__init__()
        # Known once attached, in `lifespan`; the defaults until then.
        self._settings = Settings.model_validate({})

    async def lifespan(self) -> AsyncIterator[None]:
        """Clean up in the background for as long as the hub runs."""
        self._settings = self.settings(Settings)
        # What an import had written when the hub died is nobody's.
        await self.db.transaction(tree.give_up)
        cleaner = asyncio.create_task(self._clean_up_for_ever(), name="arbor cleanup")
        try:
            yield
        finally:
            cleaner.cancel()
            await asyncio.wait([cleaner])

    @method(streaming=False, completes=LIST_TREES)
    async def tree_claim(
        self, tree_id: TreeId, owner_id: OwnerId = "system", count: Count = 1
    ) -> AsyncIterator[events.TreeClaimed]:
        """Hold a tree; one that was scheduled for deletion lives again.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            owner_id: Who holds it.
            count: How many references.
        """

        def claim(tx: Tx) -> tuple[TreeRow, tuple[int, int]]:
            found = tree.find(tx, tree_id)
            return found, references.claim(tx, found, owner_id, count, now())

        found, (own, total) = await self.db.transaction(claim)
        yield events.TreeClaimed(
            tree_id=ids.text(found.id), owner_id=owner_id, new_count=total, owner_count=own
        )

    @method(streaming=False, completes=LIST_TREES)
    async def tree_release(
        self, tree_id: TreeId, owner_id: OwnerId = "system", count: Count = 1
    ) -> AsyncIterator[events.TreeReleased]:
        """Let go of a tree; without any reference left it is scheduled for deletion.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            owner_id: Who lets go.
            count: How many references; never more than the owner has.
        """

        def release(tx: Tx) -> tuple[TreeRow, tuple[int, int]]:
            found = tree.find(tx, tree_id)
            return found, references.release(tx, found, owner_id, count, now())

        found, (own, total) = await self.db.transaction(release)
        yield events.TreeReleased(
            tree_id=ids.text(found.id), owner_id=owner_id, new_count=total, owner_count=own
        )

    @method(streaming=False, read_only=True, completes=LIST_TREES)
    async def tree_get_refs(self, tree_id: TreeId) -> AsyncIterator[events.TreeRefs]:
        """Who holds a tree, and every step of its life; also of a tree that is gone.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it while it exists.
        """
        state: State
        try:
            found = await tree.look_up(self.db, tree_id)
        except NotFound:
            gone = ids.span(tree_id)
            assert gone is not None
            known, owners, count, state = gone[0], {}, 0, "purged"
        else:
            known, owners, count = found.id, json.loads(found.owners), found.ref_count
            state = cast("State", found.state)
        steps = await references.history(self.db, known)
        if not steps:
            raise NotFound(f"no tree {tree_id}", suggestion="tree_list shows the trees there are")
        yield events.TreeRefs(
            tree_id=ids.text(known),
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
        """List the trees without an owner, which will be archived, in pages.

        Args:
            limit: The maximum number of trees; all by default.
        """
        async for trees in self._trees("scheduled", limit):
            yield encoded(events.TreesScheduled, trees=trees)

    @method(read_only=True, render="table")
    async def tree_list_archived(
        self, limit: RowLimit | None = None
    ) -> AsyncIterator[events.TreesArchived | Encoded]:
        """List the archived trees, which are read-only and will be removed, in pages.

        Args:
            limit: The maximum number of trees; all by default.
        """
        async for trees in self._trees("archived", limit):
            yield encoded(events.TreesArchived, trees=trees)

    @method(streaming=False, destructive=True, completes=LIST_TREES)
    async def tree_delete(
        self, tree_id: TreeId, owner_id: OwnerId = "system", force: bool = False
    ) -> AsyncIterator[events.TreeDeleted]:
        """Remove a tree for good, at once.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            owner_id: Who wants that; a tree that others hold stays.
            force: Even if others hold it.
        """

        def delete(tx: Tx) -> TreeRow:
            found = tree.find(tx, tree_id)
            references.delete(tx, found, owner_id, now(), force=force)
            return found

        found = await self.db.transaction(delete)
        self.removal_due.set()
        yield events.TreeDeleted(tree_id=ids.text(found.id))

    @method(streaming=False, destructive=True, completes=LIST_TREES)
    async def tree_archive(
        self, tree_id: TreeId, owner_id: OwnerId = "system", force: bool = False
    ) -> AsyncIterator[events.TreeArchived]:
        """Make a tree read-only now; it will be removed after its time in the archive.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            owner_id: Who wants that; a tree that others hold stays as it is.
            force: Even if others hold it.
        """

        def archive(tx: Tx) -> TreeRow:
            found = tree.find(tx, tree_id)
            references.archive(tx, found, owner_id, now(), force=force)
            return found

        found = await self.db.transaction(archive)
        yield events.TreeArchived(tree_id=ids.text(found.id))

    @method(destructive=True, render="table")
    async def cleanup(
        self, dry_run: bool = False
    ) -> AsyncIterator[events.CleanupStep | events.CleanupDone]:
        """Archive and remove what is due now, as the hub does by itself every hour.

        Args:
            dry_run: Only say what would be done.
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
        """Take all steps that are due, and remove what was deleted."""
        done: list[references.Step] = []
        periods = self._periods
        total = len(await self._due())
        progress = Progress(self.host, "archiving and removing trees")
        while steps := await self.db.transaction(
            lambda tx: references.clean_up(tx, periods, now())
        ):
            done += steps
            await progress.update(len(done), total)
        waiting: set[int] = set()
        batches = 0
        progress = Progress(
            self.host, f"freeing space, batches of {references.NODES_AT_ONCE} nodes"
        )
        while await self._purge(waiting):
            batches += 1
            await progress.update(batches)
        return done

    async def _purge(self, waiting: set[int]) -> bool:
        """Remove some nodes; whether there may be more to do.

        Args:
            waiting: Trees that are passed over; one that has to wait is added.
        """
        try:
            return await self.db.transaction(lambda tx: references.purge(tx, waiting))
        except references.StillReferredTo as reason:
            waiting.add(reason.tree)
            log.warning(
                "tree %s: its nodes stay for now, because something still refers to them",
                ids.text(reason.tree_id),
            )
            return True

    async def _clean_up_for_ever(self) -> None:
        while True:
            try:
                await self._clean_up()
            except HubError as error:
                log.warning("cleaning up failed, and is tried again later: %s", error.message)
            except Exception:
                # Whatever it is must not end the cleaning for good.
                log.exception("cleaning up failed, and is tried again later")
            try:
                async with asyncio.timeout(self._settings.cleanup_seconds):
                    await self.removal_due.wait()
            except TimeoutError:
                continue
            self.removal_due.clear()
