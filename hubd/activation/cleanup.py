"""A cleanup that runs in the background of a plugin: at its start, then every hour."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from hubd.errors import HubError

# Seconds between two cleanups.
CLEANUP_SECONDS: Final = 3600.0


@asynccontextmanager
async def hourly(
    remove: Callable[[], Awaitable[None]], what: str, log: logging.Logger
) -> AsyncIterator[None]:
    """Run a cleanup every hour inside the block.

    Args:
        remove: One cleanup. A failure is logged, and the next one comes an hour later.
        what: The things that are removed, in the plural, for the log.
        log: The plugin's logger.
    """
    task = asyncio.create_task(_repeat(remove, what, log), name=f"cleanup of {what}")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _repeat(remove: Callable[[], Awaitable[None]], what: str, log: logging.Logger) -> None:
    while True:
        try:
            await remove()
        except HubError as error:
            log.warning("%s could not be removed: %s", what, error.message)
        except Exception:
            # No error may end the task for good.
            log.exception("%s could not be removed", what)
        await asyncio.sleep(CLEANUP_SECONDS)
