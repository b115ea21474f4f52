"""A named pipe between a test and a shell command, so that neither has to sleep for the other."""

import asyncio
import os
from pathlib import Path

from tests.support import PATIENCE_SECONDS


class Gate:
    """Either the command says that it has come so far, or it waits for the test."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        # Open for both ways, so that opening never waits for the other side.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    async def reached(self) -> None:
        """Wait for a command that does `echo > gate`."""
        arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._descriptor, arrived.set)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await arrived.wait()
        finally:
            loop.remove_reader(self._descriptor)
        os.read(self._descriptor, 1024)

    def open(self) -> None:
        """Let a command go on that does `read line < gate`."""
        os.write(self._descriptor, b"go\n")
