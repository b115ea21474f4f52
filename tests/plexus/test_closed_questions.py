"""Questions that are withdrawn, and the actor that may answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Activation, Actor, Client, Event, Option, method
from hubd.plexus.dispatch import Call
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.wire.item import NO_TIMEOUT_MS
from tests.support import Collector, hub_with

YES = {"type": "selected", "values": ["yes"]}


class Chosen(Event):
    values: list[str]


class Asker(Activation, namespace="asker", version="1.0.0"):
    """Asks questions that it may withdraw."""

    def __init__(self) -> None:
        # Set to withdraw a question, for this reason.
        self.withdrawn: asyncio.Future[str | None]

    @method(bidirectional=True)
    async def ask(self, seconds: float | None = None) -> Chosen:
        """Ask until the question is answered or withdrawn."""
        self.withdrawn = asyncio.get_running_loop().create_future()
        asking = asyncio.ensure_future(
            self.host.select("Go?", [Option("yes", "Yes")], timeout_seconds=seconds)
        )
        futures: list[asyncio.Future[Any]] = [asking, self.withdrawn]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if self.withdrawn.done():
            reason = self.withdrawn.result()
            asking.cancel(reason) if reason else asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
            return Chosen(values=[])
        return Chosen(values=await asking)

    @method(bidirectional=True)
    async def relay(self) -> Chosen:
        """Ask by a nested call."""
        return Chosen(**await self.host.call_one("asker.ask"))


@pytest.fixture
def plugin() -> Asker:
    return Asker()


@pytest.fixture
async def hub(tmp_path: Path, plugin: Asker) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, plugin) as built:
        yield built


def start(hub: Hub, name: str = "ask", **params: Any) -> tuple[Collector, asyncio.Task[None]]:
    caller = Collector(client=Client("unix", actor=Actor("person")))
    call = Call(hub, f"asker.{name}", params, caller)
    return caller, asyncio.create_task(call.run())


def kinds(caller: Collector) -> list[str]:
    return [item["type"] for item in caller.items]


@pytest.mark.parametrize("name", ["ask", "relay"])
async def test_a_withdrawn_question_is_closed_with_its_reason(
    hub: Hub, plugin: Asker, name: str
) -> None:
    caller, running = start(hub, name)
    await caller.arrived.wait()
    assert caller.items[0]["timeoutMs"] == NO_TIMEOUT_MS
    plugin.withdrawn.set_result("answered by bob")
    await running
    assert kinds(caller) == ["request", "request_closed", "data", "done"]
    closed = caller.items[1]
    assert closed["requestId"] == caller.items[0]["requestId"]
    assert closed["reason"] == "answered by bob"
    assert closed["metadata"]["provenance"][-1] == "ask"


async def test_a_question_without_a_reason_is_closed_with_a_general_one(
    hub: Hub, plugin: Asker
) -> None:
    caller, running = start(hub)
    await caller.arrived.wait()
    plugin.withdrawn.set_result(None)
    await running
    assert caller.items[1]["reason"] == "the method needs no answer any more"


async def test_a_question_whose_time_is_over_is_closed(hub: Hub) -> None:
    caller, running = start(hub, seconds=0.001)
    await running
    assert kinds(caller) == ["request", "request_closed", "guidance", "error", "done"]
    assert caller.items[1]["reason"] == "there was no answer in time"


async def test_only_the_actor_that_was_asked_may_answer(hub: Hub, plugin: Asker) -> None:
    caller, running = start(hub)
    await caller.arrived.wait()
    request_id = caller.items[0]["requestId"]
    host = plugin.host
    assert isinstance(host, PlexusHost)
    unknown = host.questions.answer("unknown", YES, Actor("person"))
    for agent in (Actor("session", "one"), Actor("client", "http:1"), Actor("unknown")):
        assert host.questions.answer(request_id, YES, agent) == unknown
    assert host.questions.answer(request_id, YES, Actor("person")) is None
    await running
    assert kinds(caller) == ["request", "data", "done"]
