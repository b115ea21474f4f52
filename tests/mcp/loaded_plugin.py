"""Tells which modules its process has imported. Imports nothing of MCP itself."""

import sys
from collections.abc import AsyncIterator

from hubd.activation import Activation, Event, method

# What takes long to import, and only MCP clients need.
HEAVY = ("anyio", "httpx2", "jsonschema", "mcp", "mcp_types", "starlette", "uvicorn")


class Imported(Event):
    """Those of the heavy modules that are there."""

    names: list[str]


class Loaded(Activation, namespace="loaded", version="1.0.0"):
    """Looks at its own process."""

    @method(streaming=False, read_only=True)
    async def heavy(self) -> AsyncIterator[Imported]:
        """Which of the heavy modules are imported."""
        yield Imported(names=[name for name in HEAVY if name in sys.modules])
