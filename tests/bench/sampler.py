"""A plugin for benchmarks that samples the stack of its daemon, by processor time.

A signal comes after each piece of processor time of the process. Its handler runs in the main
thread and counts the functions of the stack. If the main thread waits at that moment, another
thread has taken the time.
"""

import signal
from collections import Counter
from collections.abc import AsyncIterator
from types import FrameType
from typing import Any

from hubd.activation import Activation, Event, method

# The kernel counts in ticks, mostly of 4 ms; a shorter interval changes nothing.
SECONDS = 0.001
# The frames of a stack that are told, from the innermost one.
DEPTH = 12


class Started(Event):
    """Samples are taken."""


class Stacks(Event):
    """The stacks that were seen, each with its count."""

    stacks: list[Any]


class Sampler(Activation, namespace="sampler", version="1.0.0"):
    """Samples of this process."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[tuple[str, str], ...]] = Counter()

    @method(streaming=False)
    async def start(self) -> AsyncIterator[Started]:
        """Begin to take samples."""
        self._counts.clear()
        signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
        yield Started()

    @method(streaming=False)
    async def stop(self) -> AsyncIterator[Stacks]:
        """End the samples and return them."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        yield Stacks(stacks=[[count, *stack] for stack, count in self._counts.items()])

    def _take(self, number: int, frame: FrameType | None) -> None:
        stack: list[tuple[str, str]] = []
        while frame is not None and len(stack) < DEPTH:
            stack.append((frame.f_code.co_filename, frame.f_code.co_qualname))
            frame = frame.f_back
        self._counts[tuple(stack)] += 1
