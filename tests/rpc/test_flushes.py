"""Queued frames of many connections are sent by few callbacks."""

import asyncio

from hubd.rpc.flushes import Flushes


class Frames:
    """An outbox that counts the times at which it sends its frames."""

    def __init__(self, flushes: Flushes) -> None:
        self.flushes = flushes
        self.held_since: int | None = None
        self.count = 0
        self.flushed = asyncio.Event()

    def hold(self) -> None:
        self.held_since = self.flushes.tick
        self.flushes.later(self)

    def flush_scheduled(self) -> None:
        self.held_since = None
        self.count += 1
        self.flushed.set()

    def flush_held(self, before: int) -> bool:
        if self.held_since is not None and self.held_since < before:
            self.flush_scheduled()
        return self.held_since is not None


async def test_outboxes_of_one_turn_are_flushed_in_the_next_turn() -> None:
    flushes = Flushes()
    first, second = Frames(flushes), Frames(flushes)
    flushes.soon(first)
    flushes.soon(second)
    assert (first.count, second.count) == (0, 0)
    await asyncio.sleep(0)
    assert (first.count, second.count) == (1, 1)
    await asyncio.sleep(0)
    assert (first.count, second.count) == (1, 1)


async def test_held_frames_are_sent_although_no_other_frame_follows() -> None:
    flushes = Flushes()
    first, second = Frames(flushes), Frames(flushes)
    first.hold()
    await asyncio.wait_for(first.flushed.wait(), 5)
    # The timer starts again after it had nothing to do.
    second.hold()
    await asyncio.wait_for(second.flushed.wait(), 5)
    assert (first.count, second.count) == (1, 1)


async def test_frames_that_are_held_while_the_timer_runs_are_sent_too() -> None:
    flushes = Flushes()
    first, second = Frames(flushes), Frames(flushes)
    first.hold()
    await asyncio.sleep(0)
    second.hold()
    await asyncio.wait_for(asyncio.gather(first.flushed.wait(), second.flushed.wait()), 5)
    assert (first.count, second.count) == (1, 1)


async def test_an_outbox_is_asked_again_until_its_frames_have_waited_their_full_time() -> None:
    flushes = Flushes()
    frames = Frames(flushes)
    frames.hold()
    since = frames.held_since
    await asyncio.wait_for(frames.flushed.wait(), 5)
    assert since is not None
    assert flushes.tick == since + 2


async def test_an_outbox_that_fails_does_not_hold_up_the_others() -> None:
    class Broken(Frames):
        def flush_scheduled(self) -> None:
            super().flush_scheduled()
            raise RuntimeError("the transport is closed")

    flushes = Flushes()
    broken, other = Broken(flushes), Frames(flushes)
    flushes.soon(broken)
    flushes.soon(other)
    await asyncio.sleep(0)
    assert (broken.count, other.count) == (1, 1)
    for outbox in (broken, other):
        outbox.flushed.clear()
        outbox.hold()
    await asyncio.wait_for(other.flushed.wait(), 5)
    assert (broken.count, other.count) == (2, 2)
