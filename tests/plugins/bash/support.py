"""A hub with the plugin bash, and short time limits."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hubd.plugins.bash.plugin import Bash
from hubd.testing import InProcessHub, hub

# Prints its pid and ignores SIGTERM, as its child does.
STUBBORN = "trap '' TERM; tail -f /dev/null & echo $$ $!; wait; tail -f /dev/null"


@asynccontextmanager
async def bash_hub(directory: Path, **settings: Any) -> AsyncIterator[InProcessHub]:
    """Run a hub whose caller is in `directory`, with these settings of bash."""
    database = directory / "hub.db"
    async with hub(Bash(), path=database, settings={"bash": settings}) as running:
        yield running.calling(cwd=directory, env={"PATH": os.environ["PATH"], "GREETING": "hello"})


async def run(h: InProcessHub, command: str, **params: Any) -> list[dict[str, Any]]:
    """Return the events of a command."""
    return [event async for event in h.call("bash.execute", command=command, **params)]


async def data_of(h: InProcessHub, event: dict[str, Any]) -> dict[str, Any]:
    """Return the record behind the handle of an event."""
    return dict((await h.resolve(event["handle"])).data)


async def listed(h: InProcessHub, **params: Any) -> list[dict[str, Any]]:
    """Return all rows of the list."""
    pages = [page async for page in h.call("bash.list", **params)]
    return [row for page in pages for row in page["executions"]]
