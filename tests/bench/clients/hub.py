"""Lean clients of the hub, and of the bare servers that it is compared with."""

import asyncio
import json
from collections.abc import Callable
from typing import Final

from tests.bench.clients import lean
from tests.bench.clients.lean import LeanConnection, LeanLines, LeanSocket
from tests.bench.clients.worker import Address, Run

# An event of about 200 bytes.
PAYLOAD: Final = '{"type":"content","text":"' + "x" * 180 + '"}'
# The events of one call of `push_many`, and of one transaction of its peers.
MANY: Final = 64
ECHO: Final = lean.message(1, "echo.once", message="hi")


async def push(address: Address, producers: range) -> Run:
    """Push events; every producer has a WebSocket."""
    connections = [await _socket(address) for _ in producers]
    requests = [_push_frame(address, number, 1) for number in producers]
    return lambda each: lean.produce(connections, requests, is_done, each)


async def push_many(address: Address, producers: range) -> Run:
    """Push `MANY` events with each call; a unit is a call."""
    connections = [await _socket(address) for _ in producers]
    requests = [
        lean.call(1, "pusher.push_many", stream=address["streams"][number], data=[PAYLOAD] * MANY)
        for number in producers
    ]
    return lambda each: lean.produce(connections, requests, is_done, each)


async def push_shared(address: Address, producers: range) -> Run:
    """Push events; all producers share one WebSocket. Waiting messages are sent together."""
    connection = await _socket(address)
    requests = {number: _push_frame(address, number, number) for number in producers}
    waiting: list[bytes] = []
    loop = asyncio.get_running_loop()

    def flush() -> None:
        connection.send(b"".join(waiting))
        waiting.clear()

    async def run(each: int) -> None:
        left = dict.fromkeys(producers, each)
        owners: dict[int, int] = {}
        finished = loop.create_future()

        def take(message: bytes) -> None:
            # The reply `{"jsonrpc":"2.0","id":7,"result":12}` maps a request to its subscription.
            if message.startswith(b'{"jsonrpc":"2.0","id":'):
                number, subscription = message[22:-1].split(b',"result":')
                owners[int(subscription)] = int(number)
            elif lean.DONE in message:
                _, _, rest = message.partition(b'"subscription":')
                producer = owners.pop(int(rest[: rest.index(b",")]))
                left[producer] -= 1
                if left[producer]:
                    if not waiting:
                        loop.call_soon(flush)
                    waiting.append(requests[producer])
                elif not any(left.values()):
                    finished.set_result(None)

        connection.take = take
        connection.send(b"".join(requests.values()))
        await finished

    return run


async def echo(address: Address, producers: range) -> Run:
    """Call `echo.once`, with `in_flight` calls at a time on one connection."""
    return _trips(await _connect(address), address, is_done)


async def bare_echo(address: Address, producers: range) -> Run:
    """Send the same requests to a server that sends them back."""
    return _trips(await _connect(address), address, lambda message: True)


async def stream(address: Address, producers: range) -> Run:
    """Make one call that yields as many events as asked for."""
    connection = await _connect(address)

    async def run(events: int) -> None:
        request = lean.message(1, "echo.echo", message="hi", count=events)
        await exchange(connection, _packed(address, request), is_done, 1)

    return run


async def bare_stream(address: Address, producers: range) -> Run:
    """Let a bare server send the same bytes as often."""
    connection = await _connect(address)

    async def run(events: int) -> None:
        order = json.dumps({"send": address["item"], "times": events}).encode()
        await exchange(connection, _packed(address, order), lambda message: True, events)

    return run


def _trips(connection: LeanConnection, address: Address, is_answer: Callable[[bytes], bool]) -> Run:
    """Let so many callers share a connection, each of which waits for its answer."""
    in_flight: int = address["in_flight"]
    request = _packed(address, ECHO)

    async def run(trips: int) -> None:
        finished = asyncio.get_running_loop().create_future()
        to_send = max(0, trips - in_flight)
        to_receive = to_send + in_flight

        def take(message: bytes) -> None:
            nonlocal to_send, to_receive
            if is_answer(message):
                to_receive -= 1
                if to_send:
                    to_send -= 1
                    connection.send(request)
                elif not to_receive:
                    finished.set_result(None)

        connection.take = take
        connection.send(request * in_flight)
        await finished

    return run


async def exchange(
    connection: LeanConnection, request: bytes, is_answer: Callable[[bytes], bool], answers: int
) -> None:
    """Send a request and wait for so many answers."""
    finished = asyncio.get_running_loop().create_future()

    def take(message: bytes) -> None:
        nonlocal answers
        if is_answer(message):
            answers -= 1
            if not answers:
                finished.set_result(None)

    connection.take = take
    connection.send(request)
    await finished


def is_done(message: bytes) -> bool:
    """Return whether a message ends a call, which must not fail."""
    if lean.DONE in message:
        return True
    assert lean.FAILED not in message, message
    return False


async def _connect(address: Address) -> LeanConnection:
    if address["transport"] == "unix":
        return await LeanLines.connect(address["unix"])
    return await _socket(address)


async def _socket(address: Address) -> LeanSocket:
    return await LeanSocket.connect(address["url"], address["token"])


def _packed(address: Address, message: bytes) -> bytes:
    return message + b"\n" if address["transport"] == "unix" else lean.frame(message)


def _push_frame(address: Address, producer: int, number: int) -> bytes:
    stream_key = address["streams"][producer]
    return lean.call(number, "pusher.push", stream=stream_key, data=PAYLOAD)
