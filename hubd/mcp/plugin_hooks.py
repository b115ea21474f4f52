"""What plugins do for MCP outside of calls: whatever goes wrong there harms its own request only.

Calls have dispatch.py for that; this is for prompts, and for what `extend_mcp` added.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

from mcp.shared.exceptions import MCPError

from hubd.errors import ExecutionError, HubError, Timeout, reason_of

log = logging.getLogger("hubd.transport")

T = TypeVar("T")


async def ask_plugin(what: str, work: Awaitable[T], seconds: float | None = None) -> T:
    """Wait for a plugin. Cancelling is safe, and cancels it.

    Args:
        what: What it does, for the log and the caller.
        work: What it does.
        seconds: How long it may take; None for as long as its caller waits.

    Raises:
        HubError: Whatever it raised; a `sys.exit` too, which would end the daemon.
        MCPError: What it wants its caller to get.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except (HubError, MCPError):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        log.exception("%s was cancelled from within", what)
        raise ExecutionError(f"{what} was cancelled from within") from error
    except (Exception, SystemExit) as error:
        if limit.expired():
            raise Timeout(f"{what} took longer than {seconds:g} s") from error
        log.exception("%s failed", what)
        raise ExecutionError(reason_of(error)) from error
