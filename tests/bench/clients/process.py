"""Clients in separate processes, so that they do not share the interpreter with a server."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tests.bench.clients.worker import Address
from tests.bench.measure import Slice
from tests.support import environment

# Bounds one slice. A server that does not answer must not stop the run.
SLICE_SECONDS: Final = 60.0


class Side:
    """One side of a comparison: its client processes and their counts."""

    def __init__(self, processes: list[asyncio.subprocess.Process], producers: int) -> None:
        self._processes = processes
        self._producers = producers
        # The units of all slices.
        self.done = 0
        # Processor time of the clients over elapsed time, of each slice.
        self.busy: list[float] = []

    async def work(self, units: int) -> int:
        """Let all producers together do so many units."""
        each = max(1, units // self._producers)
        began = time.perf_counter()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"%d\n" % each)
        spent = 0.0
        for process in self._processes:
            assert process.stdout is not None
            async with asyncio.timeout(SLICE_SECONDS):
                spent += float(await process.stdout.readline())
        self.busy.append(spent / (time.perf_counter() - began) / len(self._processes))
        self.done += each * self._producers
        return each * self._producers

    def slice(self, units: int) -> Slice:
        """Return the work as a side of a comparison."""
        return lambda: self.work(units)

    @property
    def busy_share(self) -> float:
        """How busy the clients were. At 100 % the client was the limit, not the server."""
        return sum(self.busy) / max(1, len(self.busy))


@asynccontextmanager
async def clients(
    kind: str, address: Address, producers: int = 1, processes: int = 1
) -> AsyncIterator[Side]:
    """Start clients; each process has an equal share of the producers.

    Args:
        kind: The kind of client, as `module:function`.
        address: Where the server is, and whatever else the kind needs.
        producers: The number of producers.
        processes: The number of processes.
    """
    share = producers // processes
    started: list[asyncio.subprocess.Process] = []
    try:
        for number in range(processes):
            arguments = (kind, str(number * share), str(share))
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.bench.clients.worker", *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=environment(),
            )
            started.append(process)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(address).encode() + b"\n")
            assert await process.stdout.readline() == b"ready\n", f"{kind} did not start"
        yield Side(started, producers)
    finally:
        for process in started:
            process.kill()
            await process.wait()
