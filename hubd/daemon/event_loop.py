"""The daemon's event loop, which reports the method that blocks it.

A method that blocks (`time.sleep`, a long computation) stops every client. The loop notes when
each round of callbacks begins and ends, which costs next to nothing. A thread samples what runs in
a round that takes long; it sleeps while the daemon is idle.
"""

import asyncio
import logging
import selectors
import sys
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from types import FrameType
from typing import Any, Final

log = logging.getLogger("hubd.loop")

# A round of callbacks that takes longer is reported.
BLOCKED_SECONDS: Final = 0.25
# The report of a round that has not ended by then.
STILL_BLOCKED_SECONDS: Final = 5.0
# Seconds between two samples while the loop is busy.
SAMPLE_SECONDS: Final = 0.05
# The thread goes to sleep after so many samples of an idle loop.
IDLE_SAMPLES: Final = 20


@dataclass(frozen=True)
class Sample:
    """What was running when the thread looked. Two samples of one callback are equal."""

    # The id of the task, or of the callback's frame.
    key: int
    # The method, the task or the callback.
    name: str
    # File, line and function.
    place: str = field(compare=False)


class EventLoop(asyncio.SelectorEventLoop):
    """An event loop that can report what blocks it."""

    def __init__(self) -> None:
        self._rounds = _Rounds()
        super().__init__(self._rounds)

    def report_blocking(self, threshold: float = BLOCKED_SECONDS) -> None:
        """Report callbacks that take longer than a threshold in seconds, from now on."""
        self._rounds.monitor = Monitor(self, self._rounds, threshold)
        # The round that does this is part of the start; the next one begins at once.
        self._rounds.began = 0.0
        self.call_soon(lambda: None)


class _Rounds(selectors.DefaultSelector):
    """The loop calls `select` once per round: what happens in between are its callbacks."""

    def __init__(self) -> None:
        super().__init__()
        # When the round began; 0 while the loop waits.
        self.began = 0.0
        self.number = 0
        self.monitor: Monitor | None = None

    def select(self, timeout: float | None = None) -> Any:
        """As the selector's own."""
        monitor = self.monitor
        if monitor is not None and self.began:
            seconds = time.perf_counter() - self.began
            if seconds > monitor.threshold:
                monitor.report(seconds)
        self.began = 0.0
        events = super().select(timeout)
        self.number += 1
        self.began = time.perf_counter()
        if monitor is not None and monitor.is_asleep:
            monitor.wake()
        return events

    def close(self) -> None:
        """As the selector's own; ends the thread."""
        super().close()
        if self.monitor is not None:
            self.monitor.end()


class Monitor:
    """The thread that looks at a busy loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rounds: _Rounds, threshold: float) -> None:
        self.threshold = threshold
        self._loop = loop
        self._rounds = rounds
        # The thread that runs the loop.
        self._loop_thread = threading.get_ident()
        self._wanted = threading.Event()
        self._is_ended = False
        # Set while the thread waits for the loop to be busy again.
        self.is_asleep = True
        # What was seen in one round, with the seconds that each callback accounts for.
        self._round = 0
        self._looked = 0.0
        self._seconds: dict[Sample, float] = {}
        self._has_warned = False
        threading.Thread(target=self._run, name="event loop monitor", daemon=True).start()

    def wake(self) -> None:
        """Begin to look, because the loop is busy."""
        self.is_asleep = False
        self._wanted.set()

    def end(self) -> None:
        """End the thread."""
        self._is_ended = True
        self._wanted.set()

    def report(self, seconds: float) -> None:
        """Log the callback that took most of the round that ends now. Runs in the loop's thread."""
        seen = dict(self._seconds) if self._round == self._rounds.number else {}
        sample = max(seen, key=lambda key: seen[key], default=None)
        if sample is None or seen[sample] < self.threshold / 2:
            log.warning("the event loop was blocked for %.2f s by many callbacks", seconds)
        else:
            log.warning(
                "%s blocked the event loop for %.2f s (%s)", sample.name, seconds, sample.place
            )

    def _run(self) -> None:
        while not self._is_ended:
            self._wanted.wait()
            self._wanted.clear()
            self._watch()

    def _watch(self) -> None:
        """Look at the loop until it is idle for a while."""
        idle, last = 0, -1
        pause = min(SAMPLE_SECONDS, self.threshold / 5)
        while idle < IDLE_SAMPLES and not self._is_ended:
            time.sleep(pause)
            began, number = self._rounds.began, self._rounds.number
            idle = idle + 1 if number == last and not began else 0
            last = number
            if began and time.perf_counter() - began > pause:
                self._look(number, began)
        self.is_asleep = True

    def _look(self, number: int, began: float) -> None:
        now = time.perf_counter()
        if self._round != number:
            self._round, self._looked, self._has_warned = number, began, False
            self._seconds = {}
        frame = sys._current_frames().get(self._loop_thread)
        sample = _describe(asyncio.current_task(self._loop), frame)
        # A callback that holds the interpreter delays this thread too, so time counts, not looks.
        self._seconds[sample] = self._seconds.get(sample, 0.0) + now - self._looked
        self._looked = now
        if now - began > STILL_BLOCKED_SECONDS and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s has blocked the event loop for %.0f s and continues (%s)",
                sample.name,
                now - began,
                sample.place,
            )


def _describe(task: "asyncio.Task[Any] | None", frame: FrameType | None) -> Sample:
    """Name what runs: the task, or else the callback."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    place = "unknown"
    own = [one for one in frames if not _is_library(one)] or frames
    if own:
        code = own[0].f_code
        place = f"{code.co_filename}:{own[0].f_lineno} in {code.co_qualname}"
    if task is not None:
        name = task.get_name()
        if name.startswith("Task-"):  # asyncio's own, which says nothing
            name = f"the task {getattr(task.get_coro(), '__qualname__', name)}"
        return Sample(id(task), name, place)
    callback = _callback(frames)
    if callback is None:
        return Sample(0, "a callback", place)
    return Sample(id(callback), f"the callback {callback.f_code.co_qualname}", place)


def _is_library(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in sys.stdlib_module_names


def _callback(frames: list[FrameType]) -> FrameType | None:
    """Return the frame that the loop itself has called."""
    for inner, outer in pairwise(frames):
        if outer.f_code is asyncio.Handle._run.__code__:
            return inner
    return None
