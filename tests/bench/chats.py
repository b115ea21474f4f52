"""Chats: durable events, the way from the agent's pipe to a follower, polls and forks of long ones.

Against SQLite used directly in one thread, a bare relay from a pipe to a WebSocket, and chats that
are short. Redis is in `redis_producers` and `redis_followers`. `python -m tests.bench.chats`
"""

import asyncio
import itertools
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

from hubd.plexus.hub import Hub
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.protocol.updates import OtherLine
from hubd.storage.arbor import tree
from hubd.storage.database import Database
from hubd.wire import jsonrpc
from tests.bench.measure import Slice, rates, report
from tests.bench.storage import HANDLE, PAYLOAD, PRODUCERS, prepare, raw_side
from tests.plugins.claudecode.scripted_chat import ScriptedChat, begin_chat, claude_hub
from tests.support import Daemon, call_events

EVENTS = 1280
LINES = 100
POLLS = 50
FORKS = 50
TINY, SHORT, LONG = 10, 100, 100_000
RAW_EACH = "sqlite3 same thread, 1 a commit"

# An agent that prints the lines of a pipe.
AGENT = '#!/bin/sh\nexec cat "$BENCH_PIPE"\n'


# Durable events


def chats_side(chats: list[ScriptedChat]) -> Slice:
    """Concurrent chats, each of which goes on when its event is on disk."""
    update = OtherLine("bench", json.loads(PAYLOAD))

    async def talk(chat: ScriptedChat) -> None:
        for _ in range(EVENTS // len(chats)):
            await chat.take([update])

    async def work() -> int:
        async with asyncio.TaskGroup() as tasks:
            for chat in chats:
                tasks.create_task(talk(chat))
        return EVENTS

    return work


async def durable_events(directory: Path) -> None:
    """Events per second of 1, 8 and 64 chats."""
    raw = directory / "raw.db"
    async with Database(raw) as other:
        await prepare(other)
        origin = await other.transaction(lambda tx: tree.origin(tx, HANDLE))
    directly = raw_side(raw, origin)
    async with claude_hub(directory) as (_, plugin):
        chats = [await begin_chat(plugin, f"chat {number}") for number in range(PRODUCERS)]
        for count in (1, 8, PRODUCERS):
            together = f"sqlite3 same thread, {count} a commit"
            sides = {f"{count} chats": chats_side(chats[:count]), together: directly(count)}
            if count > 1:
                sides[RAW_EACH] = directly(1)
            title = f"durable events, {count} concurrent chats"
            measured = await rates(sides, 9)
            report(title, measured, "events/s", together, ">= 0.5")


# From the pipe to a follower


def lines_side(
    pipe: int, make: Callable[[int], Any], receive: Callable[[], Awaitable[bytes]]
) -> Slice:
    """Lines one after the other, each when the one before has arrived."""
    sent = 0

    async def work() -> int:
        nonlocal sent
        for _ in range(LINES):
            sent += 1
            os.write(pipe, json.dumps(make(sent)).encode() + b"\n")
            mark = f"<{sent}>".encode()
            while mark not in await receive():
                pass
        return LINES

    return work


def stream_event(**event: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None, "uuid": "u"}


BEGINNING = (
    {"type": "system", "subtype": "init", "session_id": "n", "model": "m", "cwd": "/", "tools": []},
    stream_event(type="message_start", message={"id": "m", "model": "m", "content": []}),
    stream_event(type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
)


def delta(number: int) -> dict[str, Any]:
    """A line that only followers see."""
    text = {"type": "text_delta", "text": f"<{number}>"}
    return stream_event(type="content_block_delta", index=0, delta=text)


def kept(number: int) -> dict[str, Any]:
    """Return a line that becomes one event. It is on disk before any client gets it."""
    return {"type": "system", "subtype": "bench", "text": f"<{number}>"}


async def relay(pipe: str) -> None:
    """The least that brings a child's lines to a WebSocket; serves until it is killed."""

    async def forward(connection: ServerConnection) -> None:
        child = await asyncio.create_subprocess_exec("cat", pipe, stdout=asyncio.subprocess.PIPE)
        assert child.stdout is not None
        while line := await child.stdout.readline():
            await connection.send(line, text=True)
        await child.wait()

    async with serve(forward, "127.0.0.1", 0, compression=None) as server:
        print(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}", flush=True)
        await asyncio.Event().wait()


@asynccontextmanager
async def relayed(pipe: Path) -> AsyncIterator[ClientConnection]:
    """A client of the relay process."""
    arguments = (sys.executable, "-m", "tests.bench.chats", "relay", str(pipe))
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        async with connect(url, compression=None) as client:
            yield client
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def followed(daemon: Daemon, pipe: Path, name: str) -> AsyncIterator[ClientConnection]:
    """A client that follows a chat; its agent prints the lines of the pipe."""
    context = {"cwd": str(daemon.home), "env": {"BENCH_PIPE": str(pipe), **os.environ}}
    async with daemon.client() as caller:
        params = {"name": name, "prompt": "go"}
        sent = {"method": "claudecode.chat_async", "params": params, "context": context}
        await caller.send("plexus.call", sent)
        while (await caller.receive()).get("params", {}).get("result", {}).get("type") != "done":
            pass
    header = {"Authorization": f"Bearer {daemon.token}"}
    url = daemon.record["ws_url"]
    async with connect(url, additional_headers=header, compression=None) as client:
        following = {"method": "claudecode.follow", "params": {"name": name}}
        await client.send(jsonrpc.request(1, "plexus.call", following), text=True)
        yield client


async def delays(directory: Path) -> None:
    """How fast lines follow each other, each sent when the one before has arrived."""
    agent, home = directory / "agent", directory / "home"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(f'[claudecode]\nprogram = "{agent}"\n')
    pipes: list[int] = []

    def made(name: str) -> Path:
        os.mkfifo(directory / name)
        pipes.append(os.open(directory / name, os.O_RDWR))
        return directory / name

    with Daemon(home) as daemon:
        async with AsyncExitStack() as stack:
            live = await stack.enter_async_context(followed(daemon, made("live"), "live"))
            disk = await stack.enter_async_context(followed(daemon, made("disk"), "disk"))
            bare = await stack.enter_async_context(relayed(made("bare")))
            os.write(pipes[0], b"".join(json.dumps(line).encode() + b"\n" for line in BEGINNING))

            def receiving(client: ClientConnection) -> Callable[[], Awaitable[bytes]]:
                return lambda: client.recv(decode=False)

            sides = {
                "hub, a delta": lines_side(pipes[0], delta, receiving(live)),
                "hub, a durable event": lines_side(pipes[1], kept, receiving(disk)),
                "bare relay": lines_side(pipes[2], delta, receiving(bare)),
            }
            measured = await rates(sides, 9)
        title = "pipe of the agent -> follower over WebSocket, one line at a time"
        report(title, measured, "lines/s", "bare relay", ">= 0.3 for a delta")
        for name, rate in measured.items():
            print(f"  {name:<44} {1e6 / rate:>12,.0f} µs a line")
        for pipe in pipes:
            os.close(pipe)


# Polls


def poll_side(hub: Hub, chat: ScriptedChat, total: int) -> Slice:
    """The last hundred events of a chat, again and again."""

    async def work() -> int:
        for _ in range(POLLS):
            [page] = await call_events(
                hub, "claudecode.poll", stream_id=chat.stream_id, from_seq=total - 100
            )
            assert len(page["events"]) == 100
        return POLLS

    return work


async def long_chat(plugin: ClaudeCode, total: int) -> ScriptedChat:
    """A chat with so many events."""
    chat = await begin_chat(plugin, f"{total} events")
    for start in range(2, total, 5000):
        await chat.push(*range(start, min(start + 5000, total)))
    return chat


async def polls(directory: Path) -> None:
    """The cost of a poll grows with its result."""
    async with claude_hub(directory) as (hub, plugin):
        sides = {
            f"a stream of {total:,}": poll_side(hub, await long_chat(plugin, total), total)
            for total in (SHORT, LONG)
        }
        report(
            "poll of the last 100 events",
            await rates(sides),
            "polls/s",
            f"a stream of {SHORT:,}",
            ">= 0.9",
        )


# Forks


def fork_side(hub: Hub, name: str, forks: Iterator[int]) -> Slice:
    """Forks of one session."""

    async def work() -> int:
        for _ in range(FORKS):
            await call_events(hub, "claudecode.fork", name=name, new_name=f"fork {next(forks)}")
        return FORKS

    return work


async def forks(directory: Path) -> None:
    """A fork copies nothing."""
    async with claude_hub(directory) as (hub, plugin):
        numbers = itertools.count()
        sides: dict[str, Slice] = {}
        for total in (TINY, LONG):
            chat = await long_chat(plugin, total)
            await chat.end()
            sides[f"with {total:,} events"] = fork_side(hub, chat.session.name, numbers)
        title, against = "fork of a session", f"with {TINY:,} events"
        report(title, await rates(sides), "forks/s", against, ">= 0.83")


async def main() -> None:
    """Measure everything and print the ratios."""
    for part in (durable_events, delays, polls, forks):
        with tempfile.TemporaryDirectory() as name:
            await part(Path(name))


if __name__ == "__main__":
    if sys.argv[1:2] == ["relay"]:
        asyncio.run(relay(sys.argv[2]))
    else:
        asyncio.run(main())
