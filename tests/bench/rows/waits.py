"""How long other clients wait while one client sends the largest messages that the hub takes.

One client sends a message of up to 8 MiB, or reads the longest list, again and again. Another one
calls `echo.once` all the time. A sample is the 99th percentile of that call.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from hubd.wire import jsonrpc
from hubd.wire.limits import MAX_MESSAGE_MIB, MIB, RPC_COUNTS, excess
from tests.bench.clients import lean
from tests.bench.clients.hub import exchange, is_done
from tests.bench.clients.lean import LeanConnection, LeanLines
from tests.bench.clients.process import Side, clients
from tests.bench.clients.worker import Address, Run
from tests.bench.row import BEFORE, Bench, Row, Samples, Target
from tests.bench.servers.daemon import BenchDaemon, daemon
from tests.support import LineClient

SECONDS: Final = 0.8
ROUNDS: Final = 3
LIST_ROUNDS: Final = 7
LIMIT: Final = MAX_MESSAGE_MIB * MIB
TREES: Final = 11_000
SESSIONS: Final = 1_000
# Requests that are sent together to fill the lists.
TOGETHER: Final = 100
SHORT: Final = "only short messages"
# Commands by their title.
COMMANDS: Final = {
    "short commands": "true",
    "many lines": "seq 1 20000",
    "long lines": "head -c 20000000 /dev/zero | tr '\\0' x",
}


def messages() -> Iterator[tuple[str, bytes]]:
    """Return the largest allowed messages by the kind of their content."""
    containers, values, keys = (count - 10 for count in RPC_COUNTS)
    room = LIMIT - 300
    yield "one long string", request(json.dumps("hello, [world] " * (room // 15)))
    yield (
        "escaped JSON in a string",
        request(json.dumps(json.dumps([{"a": [1, 2], "b": "c"}] * (room // 40)))),
    )
    yield "escapes", request('"' + "\\u00e9" * (room // 6) + '"')
    yield "empty arrays", request(array(["[]"] * containers))
    yield "nested arrays", request(array(["[[[[]]]]"] * (containers // 4)))
    yield "numbers", request(array(["0"] * values))
    yield "floats", request(array(["1.2e-30"] * values))
    yield "long floats", request(array(["0.12345678901234567"] * min(values, room // 20)))
    yield "large integers", request(array(["9" * (room // values - 1)] * values))
    yield "long integers", request(array(["9" * 499] * (room // 500)))
    yield "short strings", request(array(f'"{number:05x}"' for number in range(values)))
    yield "one object", request(pairs(range(keys)))
    objects = (pairs(range(start, start + 3)) for start in range(0, keys, 3))
    yield "small objects", request(array(list(objects)[: containers - 1]))
    ordinary = '{"id":%d,"name":"a name","text":"some words, and more of them, of a message"}'
    yield "ordinary objects", request(array(ordinary % n for n in range(min(keys // 3, 95_000))))
    # Two thirds of each limit is as much as one message may have of all three.
    most_keys, most_containers, most_values = (2 * n // 3 for n in (keys, containers, values))
    mixed = [pairs(range(start, start + 3)) for start in range(0, most_keys - 3, 3)]
    mixed += ["[]"] * (most_containers - len(mixed) - 10)
    mixed += ["9" * 40] * (most_values - 2 * most_keys // 3 - len(mixed))
    yield "all limits together", request(array(mixed))
    busy = array(f'"{number:04x},,,,,,"' for number in range(150_000))
    strings = array(f'"{number:04x}"' for number in range(values - 150_000))
    yield "strings full of commas", request(array([busy, strings]))


def array(parts: Iterable[str]) -> str:
    return f"[{','.join(parts)}]"


def pairs(numbers: range) -> str:
    return "{" + ",".join(f'"{number:05x}":{number}' for number in numbers) + "}"


def request(value: str) -> bytes:
    """Return a call with this JSON as one of its params."""
    call = f'{{"method":"sink.take","params":{{"value":{value}}}}}'
    message = f'{{"jsonrpc":"2.0","id":1,"method":"plexus.call","params":{call}}}'.encode()
    assert len(message) <= LIMIT, len(message)
    assert excess(message) is None, excess(message)
    return message


# The client that sends


async def sender(address: Address, producers: range) -> Run:
    """Send the message of a file, each time after the answer to the last."""
    message = Path(address["file"]).read_bytes() + b"\n"
    reader, writer = await asyncio.open_unix_connection(address["unix"], limit=MIB)

    async def run(times: int) -> None:
        for _ in range(times):
            writer.write(message)
            await writer.drain()
            tail = b""
            while lean.DONE not in tail:
                data = await reader.read(MIB)
                assert data, "the hub closed the connection"
                tail = tail[-100:] + data

    return run


# The measurement


async def _beside(other: LeanConnection, side: Side, seconds: float) -> float:
    """Return how long `echo.once` takes while a client sends, in milliseconds."""
    request = lean.message(1, "echo.once", message="hi") + b"\n"
    end = time.monotonic() + seconds

    async def send() -> None:
        while time.monotonic() < end:
            await side.work(2)

    times: list[float] = []
    sending = asyncio.ensure_future(send())
    while not sending.done():
        began = time.perf_counter()
        await exchange(other, request, is_done, 1)
        times.append((time.perf_counter() - began) * 1000)
    await sending
    return statistics.quantiles(times, n=100, method="inclusive")[98]


async def _waits(
    bench: Bench, hub: BenchDaemon, requests: Mapping[str, bytes], rounds: int
) -> dict[str, list[float]]:
    """Measure one request after the other, because each needs a large client."""
    samples: dict[str, list[float]] = {}
    file = bench.directory / "message"
    address = {"unix": hub.address["unix"], "file": str(file)}
    other = await LeanLines.connect(hub.address["unix"])
    for title, content in requests.items():
        file.write_bytes(content)
        async with clients("tests.bench.rows.waits:sender", address) as side:
            await side.work(1)
            seconds = SECONDS * bench.scale
            samples[title] = [await _beside(other, side, seconds) for _ in range(rounds)]
    other.close()
    return samples


async def _compare(
    bench: Bench, requests: Mapping[str, bytes], rounds: int, *, with_lists: bool = False
) -> Samples:
    """Measure all requests on each version; the side of a version is its worst request."""
    values: dict[str, list[float]] = {}
    notes: list[str] = []
    for version, end in zip(bench.versions, ("", BEFORE), strict=False):
        with daemon(version, bench.directory / f"home{end}", "sink:Sink") as hub:
            if with_lists:
                await _fill_lists(bench, hub)
            # An old version may have other limits.
            accepted = {title: each for title, each in requests.items() if await _takes(hub, each)}
            every = {SHORT: request("1"), **accepted}
            measured = await _waits(bench, hub, every, bench.rounds_or(rounds))
        values[SHORT + end] = measured.pop(SHORT)
        worst = max(measured, key=lambda title: statistics.median(measured[title]))
        values[f"worst{end}"] = measured[worst]
        notes.append(f"worst of {len(measured)} for {version.name}: {worst}")
        quiet = statistics.median(values[SHORT + end])
        notes.append(f"beside short messages, {version.name}: {quiet:.1f} ms")
    return Samples(values, notes=notes)


async def _takes(hub: BenchDaemon, message: bytes) -> bool:
    """Return whether the hub carries out the call."""
    reader, writer = await asyncio.open_unix_connection(hub.address["unix"], limit=MIB)
    writer.write(message + b"\n")
    tail = b""
    while lean.DONE not in tail:
        data = await reader.read(MIB)
        tail = tail[-100:] + data
        if not data or lean.FAILED in tail or b'"error":{' in tail:
            break
    writer.close()
    return lean.DONE in tail and lean.FAILED not in tail


async def _fill_lists(bench: Bench, hub: BenchDaemon) -> None:
    calls: list[tuple[str, dict[str, object]]] = [
        ("arbor.tree_create", {"metadata": {"number": number}})
        for number in range(bench.count(TREES))
    ]
    calls += [
        ("claudecode.create", {"name": f"session {number}", "working_dir": "/"})
        for number in range(bench.count(SESSIONS))
    ]
    async with LineClient(hub.address["unix"]) as client:
        for start in range(0, len(calls), TOGETHER):
            some = calls[start : start + TOGETHER]
            for method, params in some:
                await client.send("plexus.call", {"method": method, "params": params})
            left = len(some)
            while left:
                item = (await client.receive()).get("params", {}).get("result", {})
                assert item.get("type") != "error", item
                left -= item.get("type") == "done"


async def largest_messages(bench: Bench) -> Samples:
    """Send the largest allowed messages, by the kind of their content."""
    return await _compare(bench, dict(messages()), ROUNDS)


async def commands(bench: Bench) -> Samples:
    """Run commands with long outputs."""
    requests = {
        title: jsonrpc.request(1, "bash.execute", {"command": command})
        for title, command in COMMANDS.items()
    }
    return await _compare(bench, requests, ROUNDS)


async def longest_lists(bench: Bench) -> Samples:
    """List 11,000 trees, and 1,000 sessions."""
    methods = ("arbor.tree_list", "claudecode.list")
    requests = {method: jsonrpc.request(1, method, {}) for method in methods}
    return await _compare(bench, requests, LIST_ROUNDS, with_lists=True)


ROWS = [
    Row("message-wait", "wait of other clients beside the worst legal message, 99th percentile",
        "", Target("<=", 60), "ms", largest_messages, "worst", None),
    Row("list-wait", "wait of other clients beside the longest list, 99th percentile", "",
        Target("<=", 10), "ms", longest_lists, "worst", None),
]  # fmt: skip
MORE = [
    Row("command-wait", "wait of other clients beside commands, 99th percentile", "", None, "ms",
        commands, "worst", None),
]  # fmt: skip
