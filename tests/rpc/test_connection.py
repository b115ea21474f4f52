"""One client's calls, without any socket: order, cancelling, limits, back-pressure."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic_core import from_json

from hubd.activation import Activation, Event, Unavailable, method
from hubd.plexus.hub import Hub
from hubd.plexus.params import json_values, large
from hubd.plexus.questions import Questions
from hubd.plugins.echo import EchoPlugin
from hubd.rpc import calls as running
from hubd.rpc.clients import Clients
from hubd.rpc.connection import MAX_CALLS
from hubd.wire import caller as context
from hubd.wire import jsonrpc
from hubd.wire.limits import LARGE_BYTES
from tests.sample_plugins.trouble import Trouble
from tests.sample_plugins.wire import Accepting
from tests.support import PATIENCE_SECONDS, hub_with


class Drop(Event):
    n: int


class Spring(Activation, namespace="spring", version="1.0.0"):
    """Flows, and lets the test see how far it came."""

    def __init__(self) -> None:
        self.produced = 0
        self.cleaned = asyncio.Event()
        self.released = asyncio.Event()

    @method
    async def flow(self) -> AsyncIterator[Drop]:
        """Flow without end and without ever waiting."""
        try:
            while True:
                self.produced += 1
                yield Drop(n=self.produced)
        finally:
            self.cleaned.set()

    @method
    async def deaf(self) -> AsyncIterator[Drop]:
        """Ignore cancellations until it is released, then continue."""
        yield Drop(n=1)
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue
        self.cleaned.set()
        yield Drop(n=2)


class Client:
    """A client in this process: keeps every frame, and reads only while `reading` is set."""

    def __init__(self, clients: Clients, *, trusts_context: bool = False) -> None:
        self.messages: list[dict[str, Any]] = []
        self.hung_up = False
        self.reading = asyncio.Event()
        self.reading.set()
        self._changed = asyncio.Event()
        self.evicted_because = ""
        self.connection = clients.connect(
            self, self, context.Client("test"), trusts_context=trusts_context
        )

    def write(self, *messages: bytes) -> None:
        self.messages += map(json.loads, messages)
        self._changed.set()

    hold = write

    def flush(self) -> None:
        pass

    flush_soon = flush

    @property
    def is_full(self) -> bool:
        return not self.reading.is_set()

    async def drain(self) -> None:
        await self.reading.wait()

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        handed_over.set_result(True)

    def hang_up(self) -> None:
        self.hung_up = True

    def evict(self, reason: str) -> None:
        self.evicted_because = reason

    def request(self, method: str, params: object, request_id: int | str = 0) -> None:
        """Hand one request to the connection, as a framing would."""
        self.connection.receive(jsonrpc.request(request_id, method, params))

    def items(self, subscription: int) -> list[dict[str, Any]]:
        """Return the items of one subscription so far."""
        return [
            message["params"]["result"]
            for message in self.messages
            if message.get("params", {}).get("subscription") == subscription
        ]

    def answer(self, request_id: int | str) -> Any:
        """The result for one request; it must be there."""
        [result] = [found["result"] for found in self.messages if found.get("id") == request_id]
        return result

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a message makes it true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def ended(self, subscription: int) -> list[dict[str, Any]]:
        """All items, once `done` is among them."""
        await self.until(lambda: any(item["type"] == "done" for item in self.items(subscription)))
        return self.items(subscription)


@pytest.fixture
async def hub(tmp_path: Path, spring: Spring) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, EchoPlugin(), Trouble(), spring) as built:
        yield built


@pytest.fixture
async def spring() -> Spring:
    return Spring()


@pytest.fixture
async def clients(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Clients]:
    # Calls that a test left running are cancelled at once.
    monkeypatch.setattr(running, "GRACE_SECONDS", 0.0)
    async with Clients(hub, Questions()) as entered:
        yield entered


def kinds(items: list[dict[str, Any]]) -> list[str]:
    return [item["type"] for item in items]


async def test_items_come_in_order_and_after_the_reply(clients: Clients) -> None:
    client = Client(clients)
    client.request("echo.echo", {"message": "hi", "count": 500})
    items = await client.ended(1)
    assert client.messages[0] == {"jsonrpc": "2.0", "id": 0, "result": 1}
    assert [item["content"]["count"] for item in items[:-1]] == list(range(1, 501))
    assert len(client.messages) == 1 + 500 + 1


async def test_calls_of_one_client_take_turns(clients: Clients) -> None:
    client = Client(clients)
    client.request("trouble.count", {"to": 3000})
    client.request("echo.once", {"message": "short"})
    await client.ended(2)
    assert 0 < len(client.items(1)) < 3000
    items = await client.ended(1)
    assert [item["content"]["text"] for item in items[:-1]] == [str(n) for n in range(3000)]


async def test_a_call_lets_others_run_after_few_items_if_each_takes_long(clients: Clients) -> None:
    client = Client(clients)
    # Each item takes milliseconds to encode.
    client.request("trouble.count", {"to": 30, "pad": 4_000_000})
    client.request("echo.once", {"message": "short"})
    await client.ended(2)
    assert 0 < len(client.items(1)) < 10
    client.connection.cancel(1)


@pytest.mark.parametrize("method", ["hang", "stubborn", "silent"])
async def test_a_cancelled_call_ends_as_cancelled_and_nothing_follows(
    clients: Clients, tmp_path: Path, method: str
) -> None:
    client = Client(clients)
    client.request(f"trouble.{method}", {"marker": str(tmp_path / "m")} if method == "hang" else {})
    expected = [] if method == "silent" else ["data"]
    # A second call shows that the first has run as far as it can.
    client.request("echo.ping", {})
    await client.ended(2)
    await client.until(lambda: len(client.items(1)) == len(expected))
    client.request("plexus.cancel", {"subscription": 1}, "stop")
    items = await client.ended(1)
    assert client.answer("stop") == {"success": True}
    assert kinds(items) == [*expected, "error", "done"]
    assert items[-2]["code"] == "cancelled"
    assert (tmp_path / "m").exists() == (method == "hang")
    client.request("echo.ping", {})
    await client.ended(3)
    client.request("plexus.cancel", {"subscription": 1}, "again")
    assert client.answer("again")["success"] is False
    assert client.items(1) == items


async def test_a_call_cancelled_before_it_began_to_run_ends_as_cancelled_too(
    clients: Clients,
) -> None:
    client = Client(clients)
    client.request("trouble.silent", {})
    client.request("plexus.cancel", {"subscription": 1}, "stop")
    # A later message has a reply, so the first call has had its turn.
    client.request("echo.ping", {})
    await client.ended(2)
    assert client.answer("stop") == {"success": True}
    assert kinds(client.items(1)) == ["error", "done"]


async def test_a_plugin_that_ignores_its_cancellation_delays_no_caller(
    clients: Clients, spring: Spring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "CLEANUP_SECONDS", 0.0)
    client = Client(clients)
    client.request("spring.deaf", {})
    await client.until(lambda: len(client.items(1)) == 1)
    client.request("plexus.cancel", [1])
    items = await client.ended(1)
    assert kinds(items) == ["data", "error", "done"]
    assert items[-2]["code"] == "cancelled"
    assert not spring.cleaned.is_set()
    spring.released.set()
    await asyncio.wait_for(spring.cleaned.wait(), PATIENCE_SECONDS)
    client.request("echo.ping", {})
    await client.ended(2)
    assert client.items(1) == items


async def test_cancelling_an_unknown_call_fails_and_a_notification_gets_no_reply(
    clients: Clients,
) -> None:
    client = Client(clients)
    client.request("plexus.cancel", [99], "stop")
    client.connection.receive(b'{"jsonrpc":"2.0","method":"plexus.cancel","params":[99]}')
    assert client.answer("stop")["success"] is False
    assert "99" in client.answer("stop")["message"]
    assert len(client.messages) == 1


async def test_one_client_cannot_cancel_anothers_call(clients: Clients) -> None:
    mine, theirs = Client(clients), Client(clients)
    mine.request("trouble.silent", {})
    theirs.request("plexus.cancel", [1], "stop")
    assert theirs.answer("stop")["success"] is False
    mine.request("plexus.cancel", [1], "stop")
    assert mine.answer("stop")["success"] is True


async def test_more_calls_than_allowed_are_overloaded_until_one_ends(clients: Clients) -> None:
    client = Client(clients)
    for _ in range(MAX_CALLS):
        client.request("trouble.silent", {})
    client.request("echo.ping", {})
    refused = await client.ended(MAX_CALLS + 1)
    assert kinds(refused) == ["guidance", "error", "done"]
    assert (refused[1]["code"], refused[1]["recoverable"]) == ("overloaded", True)
    # Another client is not concerned.
    other = Client(clients)
    other.request("echo.ping", {})
    assert kinds(await other.ended(1)) == ["data", "done"]
    client.request("plexus.cancel", [1])
    await client.ended(1)
    other.request("echo.ping", {})
    await other.ended(2)
    client.request("echo.ping", {})
    assert kinds(await client.ended(MAX_CALLS + 2)) == ["data", "done"]


async def test_a_disconnect_cancels_the_calls_and_runs_their_finally(
    clients: Clients, spring: Spring
) -> None:
    client, other = Client(clients), Client(clients)
    client.request("spring.flow", {})
    await client.until(lambda: bool(client.items(1)))
    client.reading.clear()
    assert not spring.cleaned.is_set()
    clients.disconnect(client)
    await asyncio.wait_for(spring.cleaned.wait(), PATIENCE_SECONDS)
    other.request("echo.ping", {})
    assert kinds(await other.ended(1)) == ["data", "done"]


async def test_a_slow_reader_delays_only_its_own_call(clients: Clients, spring: Spring) -> None:
    slow, quick = Client(clients), Client(clients)
    slow.reading.clear()
    slow.request("spring.flow", {})
    quick.request("echo.echo", {"message": "hi", "count": 2000})
    assert len(await quick.ended(1)) == 2001
    assert 1 <= spring.produced <= 2
    slow.reading.set()
    await slow.until(lambda: len(slow.items(1)) > 300)
    slow.reading.clear()
    quick.request("echo.echo", {"message": "hi", "count": 2000})
    held = spring.produced
    await quick.ended(2)
    assert spring.produced <= held + 2
    slow.request("plexus.cancel", [1], "stop")
    assert kinds(await slow.ended(1))[-2:] == ["error", "done"]
    assert spring.cleaned.is_set()


@pytest.mark.parametrize(("trusted", "expected"), [(True, "/there hello"), (False, "None None")])
async def test_the_caller_context_is_used_only_on_trusted_transports(
    clients: Clients, trusted: bool, expected: str
) -> None:
    client = Client(clients, trusts_context=trusted)
    context = {"cwd": "/there", "env": {"GREETING": "hello"}}
    client.request("plexus.call", {"method": "trouble.where", "context": context})
    assert (await client.ended(1))[0]["content"]["text"] == expected


async def test_leaving_cancels_calls_with_a_reason_and_closes_connections(
    hub: Hub, clients: Clients
) -> None:
    async with Clients(hub, Questions()) as leaving:
        client = Client(leaving)
        client.request("trouble.silent", {})
        client.request("echo.ping", {})
        await client.ended(2)
    assert client.hung_up
    assert kinds(client.items(1)) == ["error", "done"]
    assert client.items(1)[0]["message"] == "the daemon is stopping"
    with pytest.raises(Unavailable, match="stopping"):
        leaving.connect(client, client, context.Client("test"), trusts_context=False)


@pytest.mark.parametrize("size", [1, 2 * LARGE_BYTES], ids=["short", "large"])
async def test_a_message_is_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    parsed = []

    def parse(message: bytes, **options: Any) -> Any:
        parsed.append(len(message))
        return from_json(message, **options)

    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("the params are encoded or parsed again")

    async with (
        hub_with(tmp_path, Accepting()) as hub,
        Clients(hub, Questions()) as clients,
    ):
        monkeypatch.setattr(large, "from_json", parse)
        monkeypatch.setattr(json_values, "from_json", refuse)
        monkeypatch.setattr(json_values, "to_json", refuse)
        client = Client(clients)
        params = {"number": 1, "id": str(UUID(int=7)), "text": "x" * size, "anything": [{}]}
        client.request("plexus.call", {"method": "accepting.accept", "params": params})
        items = await client.ended(1)
        assert [item["type"] for item in items] == ["data", "done"]
    assert len(parsed) == 1
    assert parsed[0] > size
