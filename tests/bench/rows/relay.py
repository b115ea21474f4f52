"""The way from the agent's pipe to a follower, against a bare relay from a pipe to a WebSocket.

Lines go one after the other, each when the one before has arrived. A delta is only sent. A durable
event is on disk before it is sent, so it is compared with a relay that commits each line.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.bench.clients import lean
from tests.bench.clients.lean import LeanSocket
from tests.bench.measure import Slice, scaled, seconds_per_unit
from tests.bench.row import BEFORE, Bench, Row, Samples, Target
from tests.bench.rows.storage import raw_pusher
from tests.bench.servers.daemon import BenchDaemon, daemon, settle
from tests.bench.servers.relay import relayed
from tests.support import LineClient

LINES: Final = 60
ROUNDS: Final = 15
# Bounds the way of one line.
LINE_SECONDS: Final = 20.0
# An agent that prints the lines of a pipe.
AGENT: Final = '#!/bin/sh\nexec cat "$BENCH_PIPE"\n'


def _stream_event(**event: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None, "uuid": "u"}


BEGINNING: Final = (
    {"type": "system", "subtype": "init", "session_id": "n", "model": "m", "cwd": "/", "tools": []},
    _stream_event(type="message_start", message={"id": "m", "model": "m", "content": []}),
    _stream_event(type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
)


def _delta(number: int) -> dict[str, Any]:
    """Return a line that only followers see."""
    text = {"type": "text_delta", "text": f"<{number}>"}
    return _stream_event(type="content_block_delta", index=0, delta=text)


def _durable(number: int) -> dict[str, Any]:
    """Return a line that becomes one event. It is on disk before any client gets it."""
    return {"type": "system", "subtype": "bench", "text": f"<{number}>"}


class Pipes:
    """Named pipes, each of which stays open until the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: list[int] = []

    def make(self, name: str) -> tuple[Path, int]:
        """Return the path of a new pipe, and the end to write to."""
        path = self._directory / name
        os.mkfifo(path)
        self._open.append(os.open(path, os.O_RDWR))
        return path, self._open[-1]

    def close(self) -> None:
        """Close all."""
        for descriptor in self._open:
            os.close(descriptor)


def _lines_side(pipe: int, make: Callable[[int], Any], client: LeanSocket, lines: int) -> Slice:
    sent = 0

    async def work() -> int:
        nonlocal sent
        loop = asyncio.get_running_loop()
        for _ in range(lines):
            sent += 1
            mark = f"<{sent}>".encode()
            arrived = loop.create_future()

            def take(
                message: bytes, mark: bytes = mark, arrived: asyncio.Future[None] = arrived
            ) -> None:
                if mark in message and not arrived.done():
                    arrived.set_result(None)

            client.take = take
            os.write(pipe, json.dumps(make(sent)).encode() + b"\n")
            async with asyncio.timeout(LINE_SECONDS):
                await arrived
        return lines

    return work


@asynccontextmanager
async def _followed(hub: BenchDaemon, pipe: Path, name: str) -> AsyncIterator[LeanSocket]:
    """Start a chat whose agent prints the lines of the pipe, and yield a client that follows."""
    context = {"cwd": str(hub.home), "env": {"BENCH_PIPE": str(pipe), **os.environ}}
    async with LineClient(hub.address["unix"]) as caller:
        params = {"name": name, "prompt": "go"}
        sent = {"method": "claudecode.chat_async", "params": params, "context": context}
        await caller.send("plexus.call", sent)
        while (await caller.receive()).get("params", {}).get("result", {}).get("type") != "done":
            pass
    client = await LeanSocket.connect(hub.address["url"], hub.address["token"])
    client.send(lean.call(1, "claudecode.follow", name=name))
    yield client
    client.close()


async def relay(bench: Bench) -> Samples:
    """Send lines, in microseconds for each."""
    agent = bench.directory / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    config = f'[claudecode]\nprogram = "{agent}"\n'
    lines = bench.count(LINES)
    raw = await raw_pusher(bench.directory / "raw.db")
    raw.connection.close()
    pipes = Pipes(bench.directory)
    async with AsyncExitStack() as stack:
        stack.callback(pipes.close)
        sides: dict[str, Slice] = {}
        for version, end in zip(bench.versions, ("", BEFORE), strict=False):
            home = bench.directory / f"home{end}"
            hub = stack.enter_context(daemon(version, home, config=config))
            for name, line in (("delta", _delta), ("durable", _durable)):
                path, pipe = pipes.make(name + end)
                client = await stack.enter_async_context(_followed(hub, path, name))
                if name == "delta":
                    text = (json.dumps(each).encode() + b"\n" for each in BEGINNING)
                    os.write(pipe, b"".join(text))
                sides[name + end] = _lines_side(pipe, line, client, lines)
        for name, database in (("bare", None), ("commit", bench.directory / "raw.db")):
            path, pipe = pipes.make(name)
            client = await stack.enter_async_context(relayed(path, database))
            line = _delta if database is None else _durable
            sides[name] = _lines_side(pipe, line, client, lines)
        await settle()
        samples = await seconds_per_unit(sides, bench.rounds_or(ROUNDS))
    return Samples(scaled(samples, 1e6))


LIMIT = Target("<=", 1.5)
ROWS = [
    Row("delta", "a delta, from the agent's pipe to a follower over WebSocket", "a bare relay",
        LIMIT, "µs", relay, "delta", "bare"),
    Row("durable-event", "a durable event, from the agent's pipe to a follower over WebSocket",
        "a relay with one commit", LIMIT, "µs", relay, "durable", "commit"),
]  # fmt: skip
MORE: list[Row] = []
