"""The cost of indexing for durable pushes, from pairs of slices with indexing on and off."""

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from hubd.storage.database import Database
from hubd.storage.search.indexing import Sources
from hubd.storage.search.service import Search
from tests.bench.search.corpus import Chat

T = TypeVar("T")

PRODUCERS = 16
# Long enough for some steps of indexing and the rests after them.
SLICE_SECONDS = 1.0
PAIRS = 60
RESAMPLES = 2000


class PausedSearch(Search):
    """A search with indexing that can be switched off between two steps."""

    def __init__(self, db: Database, sources: Callable[[], Sources]) -> None:
        super().__init__(db, sources)
        self._on = asyncio.Event()
        self._on.set()
        self._idle = asyncio.Event()
        self._idle.set()
        # The seconds of each step.
        self.steps: list[float] = []

    async def resume(self) -> None:
        """Switch indexing on."""
        self._on.set()

    async def pause(self) -> None:
        """Switch indexing off, after the step that runs."""
        self._on.clear()
        await self._idle.wait()

    async def _in_thread(self, function: Callable[[], T]) -> T:
        await self._on.wait()
        self._idle.clear()
        loop = asyncio.get_running_loop()

        def step() -> T:
            began = time.perf_counter()
            try:
                return function()
            finally:
                self.steps.append(time.perf_counter() - began)
                loop.call_soon_threadsafe(self._idle.set)

        return await super()._in_thread(step)


class _Slice(NamedTuple):
    """The costs of one push, in microseconds."""

    wall: float
    processor: float


async def overhead(db: Database, search: PausedSearch) -> None:
    """Print how much longer a push takes while the index is behind and catches up."""
    chats = [Chat(db, f"pusher {time.time_ns()} {number}") for number in range(PRODUCERS)]
    for chat in chats:
        await db.transaction(chat.begin)
    await _push(db, chats)  # Warms up.
    slices: dict[bool, list[_Slice]] = {True: [], False: []}
    search.steps.clear()
    for number in range(PAIRS):
        # The order alternates, so that a machine that slows down affects both sides.
        for indexing in (True, False) if number % 2 else (False, True):
            await (search.resume if indexing else search.pause)()
            slices[indexing].append(await _push(db, chats))
    steps = list(search.steps)
    await search.resume()
    seconds = PAIRS * SLICE_SECONDS
    print(f"\ndurable pushes of {PRODUCERS} chats, {PAIRS} pairs of slices of {SLICE_SECONDS} s")
    for name in _Slice._fields:
        without = [getattr(each, name) for each in slices[False]]
        paired = [
            100 * (getattr(on, name) / getattr(off, name) - 1)
            for on, off in zip(slices[True], slices[False], strict=True)
        ]
        low, high = _interval(paired)
        spread = 100 * statistics.stdev(without) / statistics.mean(without)
        print(
            f"  {name:<9} {statistics.median(without):>7.1f} µs per push without the index"
            f" (spread {spread:.1f} %); indexing adds {statistics.median(paired):.1f} %,"
            f" 95 % interval {low:.1f} to {high:.1f} %"
        )
    print(
        "  target: wall at most 5 %\n"
        f"  {len(steps)} steps of {1000 * statistics.median(steps):.1f} ms"
        f" (longest {1000 * max(steps):.1f}) were {100 * sum(steps) / seconds:.1f} % of the time"
    )


async def _push(db: Database, chats: list[Chat]) -> _Slice:
    """Push with all chats for one slice."""
    pushes = 0
    began, processor = time.perf_counter(), time.process_time()

    async def produce(chat: Chat) -> None:
        nonlocal pushes
        while time.perf_counter() - began < SLICE_SECONDS:
            await db.transaction(partial(chat.push, now=int(time.time())))
            pushes += 1

    async with asyncio.TaskGroup() as group:
        for chat in chats:
            group.create_task(produce(chat))
    wall = time.perf_counter() - began
    return _Slice(1e6 * wall / pushes, 1e6 * (time.process_time() - processor) / pushes)


def _interval(values: list[float]) -> tuple[float, float]:
    """Return the bootstrap interval of the median."""
    medians = sorted(
        statistics.median(random.choices(values, k=len(values))) for _ in range(RESAMPLES)
    )
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40]
