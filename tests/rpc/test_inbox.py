"""The inbox of a client passes messages on in order, and waits while it is held."""

import asyncio

import pytest

from hubd.rpc import inbox as module
from hubd.rpc.inbox import Inbox


class Transport(asyncio.Transport):
    """A transport that knows whether it reads."""

    is_reading_now = True

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def is_closing(self) -> bool:
        return False


@pytest.mark.parametrize("turn_seconds", [1000.0, 0.0], ids=["one turn", "a turn for each"])
async def test_messages_behind_one_that_holds_the_inbox_wait_for_its_release(
    monkeypatch: pytest.MonkeyPatch, turn_seconds: float
) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", turn_seconds)
    passed: list[bytes] = []

    def take(message: bytes) -> None:
        passed.append(message)
        if message == b"login":
            inbox.hold()

    transport = Transport()
    inbox = Inbox(transport, take)
    inbox.begin_turn()
    for message in (b"login", b"first", b"second"):
        inbox.put(message)
    for _ in range(5):
        await asyncio.sleep(0)
    assert passed == [b"login"]
    assert not transport.is_reading_now
    inbox.release()
    for _ in range(5):
        await asyncio.sleep(0)
    assert passed == [b"login", b"first", b"second"]
    assert transport.is_reading_now


async def test_dropped_messages_are_not_passed_on_after_the_release() -> None:
    passed: list[bytes] = []
    inbox = Inbox(Transport(), passed.append)
    inbox.hold()
    inbox.put(b"dropped")
    inbox.clear()
    inbox.release()
    inbox.put(b"later")
    await asyncio.sleep(0)
    assert passed == [b"later"]


async def test_a_single_message_waits_too_while_the_inbox_is_held() -> None:
    passed: list[bytes] = []
    inbox = Inbox(Transport(), passed.append)
    inbox.hold()
    inbox.put_only(b"call")
    assert passed == []
    inbox.release()
    assert passed == [b"call"]
