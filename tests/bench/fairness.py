"""How long other clients wait while one client sends the largest messages that the hub takes.

`python -m tests.bench.fairness [KIND]...`, where a kind is one of the titles that are printed.

One client sends a message of up to 8 MiB again and again; another calls `echo.once` all the time.
Printed are the percentiles of that call. The target is a 99th percentile below 60 ms.
"""

import asyncio
import json
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

from hubd.activation import Activation, Event, method
from hubd.wire import jsonrpc
from hubd.wire.limits import MAX_MESSAGE_MIB, MIB, RPC_COUNTS, excess
from tests.support import Daemon

SECONDS = 6.0
LIMIT = MAX_MESSAGE_MIB * MIB
TREES = 11_000
# Commands by their title.
COMMANDS = {
    "short commands": "true",
    "many lines": "seq 1 20000",
    "long lines": "head -c 20000000 /dev/zero | tr '\\0' x",
}


class Taken(Event):
    """A value was received."""


class Sink(Activation, namespace="sink", version="1.0.0"):
    """Takes any JSON, so that nothing but reading a message is measured."""

    @method(streaming=False)
    async def take(self, value: Any) -> AsyncIterator[Taken]:
        """Take a value."""
        yield Taken()


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
    """A call with this JSON as one of its params."""
    call = f'{{"method":"sink.take","params":{{"value":{value}}}}}'
    message = f'{{"jsonrpc":"2.0","id":1,"method":"plexus.call","params":{call}}}'.encode()
    assert len(message) <= LIMIT, len(message)
    assert excess(message) is None, excess(message)
    return message


class Sender(threading.Thread):
    """Sends one message again and again, each time after the answer to the last."""

    def __init__(self, path: str, message: bytes) -> None:
        super().__init__()
        self._message = message + b"\n"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self.stopping = False
        self.answered = 0
        self.failure = b""

    def run(self) -> None:
        """Send until told to stop."""
        with self._socket:
            while not self.stopping and not self.failure:
                self._socket.sendall(self._message)
                tail = b""
                while b'"type":"done"' not in tail:
                    data = self._socket.recv(MIB)
                    if not data or b'"type":"error"' in data:
                        self.failure = data or b"closed"
                        return
                    tail = tail[-30:] + data
                self.answered += 1


async def measure(daemon: Daemon, title: str, message: bytes) -> None:
    """Print how long `echo.once` takes while another client sends a message."""
    times: list[float] = []
    sender = Sender(daemon.paths.socket, message)
    async with daemon.client() as other:
        sender.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            began = time.perf_counter()
            await other.call("echo.once", {"message": "hi"})
            times.append((time.perf_counter() - began) * 1000)
        sender.stopping = True
    sender.join()
    assert not sender.failure, sender.failure[:500]
    cuts = statistics.quantiles(times, n=100)
    print(
        f"  {title:<34} {sender.answered:>5} messages, {len(times):>5} calls:   p50 {cuts[49]:6.1f}"
        f"   p99 {cuts[98]:6.1f}   max {max(times):6.1f} ms"
    )


async def main() -> None:
    """Measure every kind of message, then the longest list."""
    wanted = sys.argv[1:]
    options = ("--plugin", "tests.bench.fairness:Sink")
    with tempfile.TemporaryDirectory() as name, Daemon(Path(name) / "home", *options) as daemon:
        print("\necho.once beside a client that sends up to 8 MiB  (target: p99 < 60 ms)")
        await measure(daemon, "only short messages", request("1"))
        for title, message in messages():
            if not wanted or title in wanted:
                await measure(daemon, f"{title}, {len(message) / MIB:.1f} MiB", message)
        print("\necho.once beside a client that runs commands  (target: p99 < 60 ms)")
        for title, command in COMMANDS.items():
            if not wanted or title in wanted:
                params = {"command": command}
                await measure(daemon, title, jsonrpc.request(1, "bash.execute", params))
        if wanted:
            return
        async with daemon.client() as client:
            for number in range(TREES):
                await client.call("arbor.tree_create", {"metadata": {"number": number}})
        print(f"\necho.once beside a client that lists {TREES:,} trees  (target: p99 < 60 ms)")
        await measure(daemon, "arbor.tree_list", jsonrpc.request(1, "arbor.tree_list", {}))


if __name__ == "__main__":
    asyncio.run(main())
