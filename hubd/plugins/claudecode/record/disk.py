"""Writes that are repeated while the disk refuses them."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from hubd.errors import DatabaseUnusable
from hubd.storage.database import Database, Tx

T = TypeVar("T")

# Seconds between two attempts of a failed write. A full disk may have space again by then.
RETRY_SECONDS: Final = 0.5
# The disk is full or fails, or the file is locked: the same write may succeed later.
DISK_FAILURES: Final = (DatabaseUnusable, sqlite3.OperationalError)


async def until_written(
    db: Database, function: Callable[[Tx], T], stopping: asyncio.Event | None = None
) -> T:
    """Run a transaction, and repeat it while the disk refuses it.

    Args:
        db: The database.
        function: The transaction.
        stopping: Set when the hub stops. The write is not repeated from then on.

    Raises:
        DatabaseUnusable: The disk refuses it, and the hub is stopping.
    """
    while True:
        try:
            return await db.transaction(function)
        except DISK_FAILURES:
            if stopping is not None and stopping.is_set():
                raise
            await pause(stopping)


async def pause(stopping: asyncio.Event | None = None) -> None:
    """Wait before the next attempt of a write, but not longer than the hub runs."""
    with suppress(TimeoutError):
        async with asyncio.timeout(RETRY_SECONDS):
            await (stopping or asyncio.Event()).wait()
