"""Frames are gathered into few writes, and none waits for long."""

import asyncio

from hubd.rpc.flushes import Flushes
from hubd.rpc.outbox import FLUSH_BYTES, Outbox
from tests.support import PATIENCE_SECONDS


class Recorded(asyncio.Transport):
    """A transport that keeps the bytes that are written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.written = asyncio.Event()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Accept any limit."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))
        self.written.set()


def outbox() -> tuple[Outbox, Recorded]:
    """Return an outbox whose frames are messages in brackets, and its transport."""

    def add_frame(frames: list[bytes], message: bytes) -> int:
        frames += (b"[", message, b"]")
        return len(message) + 2

    transport = Recorded()
    return Outbox(transport, add_frame, Flushes()), transport


async def test_the_messages_of_one_turn_are_one_write() -> None:
    box, transport = outbox()
    box.hold(b"reply")
    box.write(b"event", b"done")
    box.write(b"other")
    await asyncio.sleep(0)
    assert transport.writes == [b"[reply][event][done][other]"]


async def test_a_held_message_is_sent_alone_after_a_moment() -> None:
    box, transport = outbox()
    box.hold(b"one")
    await asyncio.wait_for(transport.written.wait(), PATIENCE_SECONDS)
    box.hold(b"two")
    transport.written.clear()
    await asyncio.wait_for(transport.written.wait(), PATIENCE_SECONDS)
    assert transport.writes == [b"[one]", b"[two]"]


async def test_a_message_that_was_sent_already_does_not_send_a_held_one_too_early() -> None:
    box, transport = outbox()
    box.hold(b"one")
    box.write(b"two")
    box.flush()
    box.hold(b"three")
    # The callback that was scheduled for the first two runs now.
    await asyncio.sleep(0)
    box.write(b"four")
    box.flush()
    assert transport.writes == [b"[one][two]", b"[three][four]"]


async def test_held_messages_are_sent_in_the_next_turn_if_asked_for() -> None:
    box, transport = outbox()
    box.hold(b"event", b"done")
    box.flush_soon()
    await asyncio.sleep(0)
    assert transport.writes == [b"[event][done]"]


async def test_a_flush_without_messages_delays_none_that_follow() -> None:
    box, transport = outbox()
    box.flush_soon()
    await asyncio.sleep(0)
    box.write(b"one")
    await asyncio.sleep(0)
    assert transport.writes == [b"[one]"]


async def test_many_bytes_are_sent_at_once() -> None:
    box, transport = outbox()
    box.write(b"x" * FLUSH_BYTES)
    assert len(transport.writes) == 1


async def test_a_write_that_fails_is_not_repeated_and_delays_no_later_message() -> None:
    box, transport = outbox()

    failed = asyncio.Event()

    def fail(data: object) -> None:
        failed.set()
        del transport.__dict__["write"]
        raise RuntimeError("the transport is closed")

    transport.__dict__["write"] = fail
    box.hold(b"lost")
    await asyncio.wait_for(failed.wait(), PATIENCE_SECONDS)
    box.hold(b"kept")
    await asyncio.wait_for(transport.written.wait(), PATIENCE_SECONDS)
    assert transport.writes == [b"[kept]"]


async def test_nothing_is_sent_to_a_peer_that_is_gone() -> None:
    box, transport = outbox()
    box.hold(b"reply")
    box.write(b"event")
    box.close()
    box.write(b"late")
    await asyncio.sleep(0)
    assert transport.writes == []
