"""`host.after_sent` reports once whether the events of a call were sent."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hubd.activation import HubError
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from tests.sample_plugins.parcels import Parcels
from tests.support import Collector, call_events, call_items, hub_with


class SlowCaller(Collector):
    """A caller that reports delivery when the test tells it to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.handed_over: asyncio.Future[bool] | None = None

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        self.handed_over = handed_over
        self.asked.set()

    def confirm(self, *, delivered: bool) -> None:
        """Report that the items were sent, or that the peer is gone."""
        assert self.handed_over is not None
        self.handed_over.set_result(delivered)


@pytest.fixture
async def parcels() -> Parcels:
    return Parcels()


@pytest.fixture
async def hub(tmp_path: Path, parcels: Parcels) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, parcels) as built:
        yield built


@pytest.mark.parametrize("delivered", [True, False])
async def test_the_call_ends_after_the_callback(
    hub: Hub, parcels: Parcels, delivered: bool
) -> None:
    caller = SlowCaller()
    task = asyncio.create_task(Call(hub, "parcels.send", {}, caller).run())
    await caller.asked.wait()
    assert [item["type"] for item in caller.items] == ["data"]
    assert parcels.receipts.empty()
    caller.confirm(delivered=delivered)
    await task
    assert await parcels.receipt() is delivered
    assert [item["type"] for item in caller.items] == ["data", "done"]
    assert parcels.receipts.empty()


async def test_a_failed_call_counts_as_not_sent(hub: Hub, parcels: Parcels) -> None:
    items = await call_items(hub, "parcels.send_and_fail")
    assert [item["type"] for item in items] == ["data", "guidance", "error", "done"]
    assert not await parcels.receipt()
    assert parcels.receipts.empty()


async def test_a_cancelled_call_counts_as_not_sent(hub: Hub, parcels: Parcels) -> None:
    parcels.may_send.clear()
    while_running = asyncio.create_task(call_items(hub, "parcels.send"))
    await parcels.started.wait()
    while_running.cancel()
    await asyncio.wait([while_running])
    assert not await parcels.receipt()
    parcels.may_send.set()
    caller = SlowCaller()
    while_sending = asyncio.create_task(Call(hub, "parcels.send", {}, caller).run())
    await caller.asked.wait()
    while_sending.cancel()
    await asyncio.wait([while_sending])
    assert not await parcels.receipt()
    assert parcels.receipts.empty()


async def test_items_that_are_taken_before_a_disconnect_count_as_sent(
    hub: Hub, parcels: Parcels
) -> None:
    caller = SlowCaller()
    task = asyncio.create_task(Call(hub, "parcels.send", {}, caller).run())
    await caller.asked.wait()
    caller.confirm(delivered=True)
    task.cancel()
    await asyncio.wait([task])
    assert await parcels.receipt()


async def test_an_error_of_the_callback_is_the_error_of_the_call(
    hub: Hub, parcels: Parcels
) -> None:
    items = await call_items(hub, "parcels.lose_the_receipt")
    assert [item["type"] for item in items] == ["data", "guidance", "error", "done"]
    assert (items[2]["code"], items[2]["message"]) == ("unavailable", "the disk is full: True")


async def test_events_of_a_nested_call_are_sent_when_the_plugin_has_taken_them(
    hub: Hub, parcels: Parcels
) -> None:
    for method, limit, received in (
        ("parcels.send", 10, ["x"]),
        # It leaves the block after the last event.
        ("parcels.send", 1, ["x"]),
        ("parcels.send_two", 10, ["first", "second"]),
    ):
        events = await call_events(hub, "parcels.forward", of=method, limit=limit)
        assert [event["text"] for event in events] == received
        assert await parcels.receipt(), (method, limit)
    # It leaves the block before the last event.
    events = await call_events(hub, "parcels.forward", of="parcels.send_two", limit=1)
    assert [event["text"] for event in events] == ["first"]
    assert not await parcels.receipt()


async def test_a_callback_that_is_not_async_fails_the_call_with_the_remedy(hub: Hub) -> None:
    items = await call_items(hub, "parcels.send_with_plain_callback")
    assert items[2]["message"] == (
        "TypeError: after_sent got Parcels.send_with_plain_callback.<locals>.plain; "
        "write it with `async def`"
    )


async def test_after_sent_needs_a_running_call(hub: Hub, parcels: Parcels) -> None:
    with pytest.raises(HubError, match="needs a running call"):
        parcels.host.after_sent(parcels.receipts.put)
