"""Queued frames of many connections are sent by few callbacks."""

import asyncio

from hubd.rpc.flushes import Flushes


class Frames:
    """An outbox that counts its flushes."""

    def __init__(self, flushes: Flushes) -> None:
        self.flushes = flushes
        self.count = 0
        self.flushed = asyncio.Event()

    def flush(self) -> None:
        self.flushes.forget(self)
        self.count += 1
        self.flushed.set()


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
    flushes.later(first)
    await asyncio.wait_for(first.flushed.wait(), 5)
    # The timer starts again after it had nothing to do.
    flushes.later(second)
    await asyncio.wait_for(second.flushed.wait(), 5)
    assert (first.count, second.count) == (1, 1)


async def test_frames_that_are_held_while_the_timer_runs_are_sent_too() -> None:
    flushes = Flushes()
    first, second = Frames(flushes), Frames(flushes)
    flushes.later(first)
    await asyncio.sleep(0)
    flushes.later(second)
    await asyncio.wait_for(asyncio.gather(first.flushed.wait(), second.flushed.wait()), 5)
    assert (first.count, second.count) == (1, 1)


async def test_a_frame_that_was_sent_already_does_not_send_a_later_one_too_early() -> None:
    flushes = Flushes()
    frames, other = Frames(flushes), Frames(flushes)
    flushes.soon(frames)
    flushes.later(other)
    frames.flush()
    other.flush()
    # The next held frame of each waits for the timer, not for the callback of the first ones.
    flushes.later(frames)
    await asyncio.sleep(0)
    assert (frames.count, other.count) == (1, 1)
