"""The daemon's event loop, which reports the method that blocks it.

A method that blocks (`time.sleep`, a long computation) delays every client. The loop stores the
start of each round of callbacks, which is cheap. A thread samples the stack of a long round; it
sleeps while the daemon is idle.
"""

import asyncio
import logging
import selectors
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import field
from itertools import pairwise
from types import FrameType
from typing import Any, Final, Protocol

from hubd.errors import StartupFailed
from hubd.wire.lazy_dataclass import dataclass

log = logging.getLogger(__name__)

# A round of callbacks that takes longer is reported.
BLOCKED_SECONDS: Final = 0.25
# A round that still runs after this time is reported at once.
STILL_BLOCKED_SECONDS: Final = 5.0
# Seconds between two samples while the loop is busy.
SAMPLE_SECONDS: Final = 0.05
# Seconds between two beats of the timer that measures uvloop, and while the hub is idle.
PULSE_SECONDS: Final = 0.05
REST_SECONDS: Final = 1.0
# The hub is idle if no call runs, and the loop's thread takes less processor time in a second.
IDLE_WORK_SECONDS: Final = 0.002
# The thread sleeps after this many samples of an idle loop.
IDLE_SAMPLES: Final = 20


@dataclass(frozen=True)
class Sample:
    """The code that ran at one moment. Two samples of one callback are equal."""

    # The id of the task, or of the callback's frame.
    key: int
    # The method, the task or the callback.
    name: str
    # File, line and function.
    place: str = field(compare=False)


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return a function that creates the event loop of a name in the settings.

    Raises:
        StartupFailed: uvloop is asked for, and not installed.
    """
    if name != "asyncio":
        try:
            import uvloop
        except ImportError:
            if name == "uvloop":
                raise StartupFailed(
                    "uvloop is not installed", suggestion="Install it: pip install 'hubd[fast]'"
                ) from None
        else:
            return uvloop.new_event_loop
    return EventLoop


def report_blocking(
    loop: asyncio.AbstractEventLoop,
    is_busy: Callable[[], bool],
    threshold: float = BLOCKED_SECONDS,
) -> Callable[[], None] | None:
    """Report callbacks that take longer than a threshold in seconds, from now on.

    Args:
        loop: The running loop.
        is_busy: Whether a call runs.
        threshold: The longest time that is not reported.

    Returns:
        A function to call at the start of each call; None if the loop needs no such call.
    """
    if isinstance(loop, EventLoop):
        loop.report_blocking(threshold)
        return None
    return Pulse(loop, is_busy, threshold).wake


class EventLoop(asyncio.SelectorEventLoop):
    """An event loop that reports blocking callbacks."""

    def __init__(self) -> None:
        self._rounds = _Rounds()
        super().__init__(self._rounds)

    def report_blocking(self, threshold: float = BLOCKED_SECONDS) -> None:
        """Report callbacks that take longer than a threshold in seconds, from now on."""
        self._rounds.monitor = Monitor(self, self._rounds, threshold)
        # The current round belongs to the start of the daemon, so a new one starts now.
        self._rounds.began = 0.0
        self.call_soon(lambda: None)


class Progress(Protocol):
    """The progress of an event loop, which its monitor reads in another thread."""

    # The time since which no other callback could run; 0 while the loop waits.
    began: float
    # Changes with each round of callbacks.
    number: int


class _Rounds(selectors.DefaultSelector):
    """Measures rounds. The loop calls `select` once per round, between its callbacks."""

    def __init__(self) -> None:
        super().__init__()
        # The start of the round; 0 while the loop waits.
        self.began = 0.0
        self.number = 0
        self.monitor: Monitor | None = None

    def select(self, timeout: float | None = None) -> Any:
        """Wait for events like the base class, and report a long round."""
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
        """Close the selector and end the thread."""
        super().close()
        if self.monitor is not None:
            self.monitor.end()


class Pulse:
    """Measures a loop of another kind, whose rounds are not visible: by a timer that is late.

    While no call runs and the hub is idle, the timer beats once a second, to notice other work.
    Until then, a callback of a background task that blocks is not measured.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, is_busy: Callable[[], bool], threshold: float
    ) -> None:
        self._loop = loop
        self._is_busy = is_busy
        self.number = 0
        # The time at which the timer is due; 0 while the hub is idle.
        self.began = 0.0
        # The beats since the processor time of the loop's thread was read, and that time.
        self._beats = 0
        self._worked = time.thread_time()
        self._monitor = Monitor(loop, self, threshold)
        self._timer = loop.call_later(REST_SECONDS, self._beat)

    def wake(self) -> None:
        """Measure from now on, because a call has started."""
        self._beats = 0
        if not self.began:
            self._timer.cancel()
            self._monitor.wake()
            self._expect_beat()

    def _expect_beat(self) -> None:
        self.number += 1
        self.began = time.perf_counter() + PULSE_SECONDS
        self._timer = self._loop.call_later(PULSE_SECONDS, self._beat)

    def _beat(self) -> None:
        is_resting = not self.began
        if not is_resting:
            late = time.perf_counter() - self.began
            # The loop may have been blocked since the last beat.
            if late > self._monitor.threshold - PULSE_SECONDS:
                self._monitor.report(late)
        self._beats += 1
        if is_resting or self._beats * PULSE_SECONDS >= REST_SECONDS:
            if self._has_rested():
                self.began = 0.0
                self._timer = self._loop.call_later(REST_SECONDS, self._beat)
                return
            if is_resting:
                self._monitor.wake()
        self._expect_beat()

    def _has_rested(self) -> bool:
        """Return whether the hub has done nearly nothing since this was asked last."""
        worked, self._worked = self._worked, time.thread_time()
        self._beats = 0
        return self._worked - worked < IDLE_WORK_SECONDS and not self._is_busy()


class Monitor:
    """The thread that samples a busy loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rounds: Progress, threshold: float) -> None:
        self.threshold = threshold
        self._loop = loop
        self._rounds = rounds
        # The thread that runs the loop.
        self._loop_thread = threading.get_ident()
        self._wanted = threading.Event()
        self._is_ended = False
        # Whether the thread waits until the loop is busy again.
        self.is_asleep = True
        # The samples of one round, with the seconds of each callback.
        self._round = 0
        self._sampled_at = 0.0
        self._seconds: dict[Sample, float] = {}
        self._has_warned = False
        threading.Thread(target=self._run, name="event loop monitor", daemon=True).start()

    def wake(self) -> None:
        """Start sampling, because the loop is busy."""
        self.is_asleep = False
        self._wanted.set()

    def end(self) -> None:
        """End the thread."""
        self._is_ended = True
        self._wanted.set()

    def report(self, seconds: float) -> None:
        """Log the longest callback of the ending round. Runs in the loop's thread."""
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
        """Sample the loop until it has been idle for a while."""
        idle, last = 0, -1
        pause = min(SAMPLE_SECONDS, self.threshold / 5)
        while idle < IDLE_SAMPLES and not self._is_ended:
            time.sleep(pause)
            began, number = self._rounds.began, self._rounds.number
            idle = idle + 1 if number == last and not began else 0
            last = number
            if began and time.perf_counter() - began > pause:
                self._sample(number, began)
        self.is_asleep = True

    def _sample(self, number: int, began: float) -> None:
        now = time.perf_counter()
        if self._round != number:
            self._round, self._sampled_at, self._has_warned = number, began, False
            self._seconds = {}
        frame = sys._current_frames().get(self._loop_thread)
        sample = _describe(asyncio.current_task(self._loop), frame)
        # A callback that holds the interpreter delays this thread too, so seconds are added up.
        self._seconds[sample] = self._seconds.get(sample, 0.0) + now - self._sampled_at
        self._sampled_at = now
        if now - began > STILL_BLOCKED_SECONDS and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s has blocked the event loop for %.0f s and continues (%s)",
                sample.name,
                now - began,
                sample.place,
            )


def _describe(task: "asyncio.Task[Any] | None", frame: FrameType | None) -> Sample:
    """Return the running task or callback as a sample."""
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
        if name.startswith("Task-"):  # A default name of asyncio.
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
    """Return the frame that the loop has called."""
    for inner, outer in pairwise(frames):
        if outer.f_code is asyncio.Handle._run.__code__:
            return inner
    return None
