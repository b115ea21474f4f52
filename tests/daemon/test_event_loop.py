"""The timer that measures uvloop rests while the hub is idle."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from hubd.daemon import event_loop
from hubd.daemon.event_loop import IDLE_WORK_SECONDS, PULSE_SECONDS, REST_SECONDS, Pulse


class Timer:
    """A timer of `Loop`."""

    def __init__(self, loop: "Loop") -> None:
        self._loop = loop

    def cancel(self) -> None:
        self._loop.expire = None


class Loop:
    """An event loop with one timer, which expires when the test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.expire: Callable[[], None] | None = None

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        assert self.expire is None, "a second timer"
        self.seconds, self.expire = seconds, callback
        return Timer(self)

    def beat(self) -> None:
        """Let the timer expire; it must be set."""
        expire, self.expire = self.expire, None
        assert expire is not None
        expire()


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Provide the processor time of the loop's thread."""
    seconds = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: seconds[0])
    return seconds


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    class Monitor:
        threshold = 10.0

        def __init__(self, *_: Any) -> None:
            """Watch nothing."""

        def wake(self) -> None:
            """Watch nothing."""

    monkeypatch.setattr(event_loop, "Monitor", Monitor)
    return Loop()


def pulse_on(loop: Loop, calls: list[str] | None = None) -> Pulse:
    """Return the timer of a hub with these running calls."""
    return Pulse(cast(asyncio.AbstractEventLoop, loop), lambda: bool(calls), 10.0)


def beats_until_rest(loop: Loop) -> int:
    """Return the number of fast beats; it must be bounded."""
    for number in range(100):
        if loop.seconds == REST_SECONDS:
            return number
        assert loop.seconds == PULSE_SECONDS
        loop.beat()
    raise AssertionError("the timer does not rest")


def test_an_idle_hub_wakes_once_a_second(loop: Loop, worked: list[float]) -> None:
    pulse_on(loop)
    for _ in range(5):
        assert loop.seconds == REST_SECONDS
        loop.beat()


def test_a_call_is_measured_at_once_and_for_a_second(loop: Loop, worked: list[float]) -> None:
    pulse = pulse_on(loop)
    pulse.wake()
    assert loop.seconds == PULSE_SECONDS
    assert beats_until_rest(loop) * PULSE_SECONDS == pytest.approx(REST_SECONDS)


def test_each_call_prolongs_the_measurement(loop: Loop, worked: list[float]) -> None:
    pulse = pulse_on(loop)
    for _ in range(50):
        pulse.wake()
        loop.beat()
        assert loop.seconds == PULSE_SECONDS


def test_a_call_that_waits_is_measured_until_its_end(loop: Loop, worked: list[float]) -> None:
    calls = ["a call"]
    pulse_on(loop, calls).wake()
    for _ in range(50):
        loop.beat()
        assert loop.seconds == PULSE_SECONDS
    calls.clear()
    beats_until_rest(loop)


def test_work_that_no_call_began_is_measured_after_a_second(
    loop: Loop, worked: list[float]
) -> None:
    pulse_on(loop)
    worked[0] += 2 * IDLE_WORK_SECONDS
    loop.beat()
    assert loop.seconds == PULSE_SECONDS
    for _ in range(50):
        worked[0] += IDLE_WORK_SECONDS
        loop.beat()
        assert loop.seconds == PULSE_SECONDS
    beats_until_rest(loop)
