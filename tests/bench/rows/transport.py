"""Round trips and streamed events: the hub against a bare server on the same library.

The clients are the same on both sides. The hub answers a call with three messages, the bare server
with one.
"""

from contextlib import AsyncExitStack
from typing import Any, Final

from tests.bench.clients import lean
from tests.bench.clients.lean import LeanSocket
from tests.bench.clients.process import clients
from tests.bench.measure import units_per_second
from tests.bench.row import BEFORE, Bench, Row, Samples, Scenario, Target
from tests.bench.servers.bare import bare_server
from tests.bench.servers.daemon import BenchDaemon, daemon, settle

TRIPS: Final = 640
EVENTS: Final = 4000
IN_FLIGHT: Final = (1, 16)
ROUNDS: Final = 15


def _scenario(transport: str) -> Scenario:
    async def measure(bench: Bench) -> Samples:
        async with AsyncExitStack() as stack:
            bare = stack.enter_context(bare_server(transport, bench.directory))
            places: dict[str, dict[str, Any]] = {}
            for version, end in zip(bench.versions, ("", BEFORE), strict=False):
                home = bench.directory / f"home{end}"
                running = stack.enter_context(daemon(version, home))
                places[end] = {**running.address, "transport": transport}
                if not end:
                    bare |= {"transport": transport, "item": await _item(running)}
            kinds = [(f"hub{end}", place, "echo", "stream") for end, place in places.items()]
            kinds.append(("bare", bare, "bare_echo", "bare_stream"))
            sides = {}
            for name, place, echo, stream in kinds:
                for count in IN_FLIGHT:
                    client = clients(
                        f"tests.bench.clients.hub:{echo}", {**place, "in_flight": count}
                    )
                    side = await stack.enter_async_context(client)
                    sides[_named(f"{count}", name)] = side.slice(bench.count(TRIPS, count))
                client = clients(f"tests.bench.clients.hub:{stream}", place)
                side = await stack.enter_async_context(client)
                sides[_named("stream", name)] = side.slice(bench.count(EVENTS))
            await settle()
            return Samples(await units_per_second(sides, bench.rounds_or(ROUNDS)))

    return measure


def _named(work: str, side: str) -> str:
    return f"{work} {side}"


async def _item(running: BenchDaemon) -> str:
    """Return the message of one event as the hub sends it."""
    socket = await LeanSocket.connect(running.address["url"], running.address["token"])
    messages: list[bytes] = []
    socket.take = messages.append
    socket.send(lean.call(1, "echo.once", message="hi"))
    while not any(lean.DONE in message for message in messages):
        await settle()
    socket.close()
    return messages[1].decode()


def _rows(prefix: str, transport: str, scenario: Scenario, targets: tuple[Any, ...]) -> list[Row]:
    one, many, stream = targets
    bare = "a bare `websockets` server" if transport == "WebSocket" else "a bare asyncio server"
    return [
        Row(f"{prefix}round-trip-1", f"round trips over {transport}, 1 in flight",
            f"{bare} that echoes", one, "calls/s", scenario, "1 hub", "1 bare"),
        Row(f"{prefix}round-trip-16", f"round trips over {transport}, 16 in flight",
            f"{bare} that echoes", many, "calls/s", scenario, "16 hub", "16 bare"),
        Row(f"{prefix}streamed", f"streamed events over {transport}",
            f"{bare} that sends the same bytes", stream, "events/s", scenario, "stream hub",
            "stream bare"),
    ]  # fmt: skip


ROWS = _rows(
    "", "WebSocket", _scenario("websocket"), (Target(">=", 0.7), Target(">=", 0.6), Target(">=", 1))
)
MORE = _rows("unix-", "Unix socket", _scenario("unix"), (None, None, None))
