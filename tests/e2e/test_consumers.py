"""A consumer's position moves only for pages that were sent, also after a crash."""

import asyncio
import json
import os
import random
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from hubd.wire import jsonrpc
from tests.fakes.agent_process import agent_environment
from tests.support import Daemon, LineClient

Json = dict[str, Any]
# As many events as the chat below has at least.
EVENTS = 40


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, str]]:
    """A daemon, and the stream of a chat that has ended."""
    directory = tmp_path_factory.mktemp("consumers")
    with Daemon(directory / "home") as daemon:
        yield daemon, asyncio.run(chat_to_the_end(daemon, directory))


async def chat_to_the_end(daemon: Daemon, directory: Path, prompt: str = "") -> str:
    """Run a chat of the offline agent; its stream."""
    context = {"cwd": str(directory), "env": agent_environment(directory)}
    prompt = prompt or "\n".join(f"say: {number}" for number in range(EVENTS))
    params = {"name": f"s{random.getrandbits(64)}", "prompt": prompt, "model": "offline"}
    async with daemon.client() as client:
        sent = {"method": "claudecode.chat_async", "params": params, "context": context}
        await client.send("plexus.call", sent)
        await client.receive()
        stream_id = (await client.receive())["params"]["result"]["content"]["stream_id"]
    async with daemon.client() as client:
        *_, last, _ = await client.call("claudecode.follow", {"stream_id": stream_id})
    assert last["content"]["event"]["type"] == "complete"
    return str(stream_id)


async def poll(daemon: Daemon, stream_id: str, **params: Any) -> Json:
    async with daemon.client() as client:
        items = await client.call("claudecode.poll", {"stream_id": stream_id, **params})
    assert [item["type"] for item in items] == ["data", "done"], items
    return dict(items[0]["content"])


async def positions(daemon: Daemon, stream_id: str) -> dict[str, int]:
    async with daemon.client() as client:
        items = await client.call("claudecode.consumers_list", {"stream_id": stream_id})
    return {entry["consumer"]: entry["position"] for entry in items[0]["content"]["consumers"]}


def seqs(page: Json) -> list[int]:
    return [record["seq"] for record in page["events"]]


def request(stream_id: str, **params: Any) -> bytes:
    """Return a poll as a line for the Unix socket."""
    return jsonrpc.request(1, "claudecode.poll", {"stream_id": stream_id, **params}) + b"\n"


@contextmanager
def suspended(daemon: Daemon) -> Iterator[None]:
    """Suspend the daemon inside the block. After it, all input has arrived at once."""
    assert daemon.process is not None
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)


def send_and_die(daemon: Daemon, line: bytes, clients: int) -> None:
    """Let clients send a request each and disconnect before the daemon can answer."""
    with suspended(daemon):
        for _ in range(clients):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(daemon.paths.socket)
                client.sendall(line)


async def test_clients_that_die_before_the_answer_do_not_move_their_consumer(
    shared: tuple[Daemon, str],
) -> None:
    daemon, stream_id = shared
    send_and_die(daemon, request(stream_id, consumer="dying", limit=1), clients=100)
    page = await poll(daemon, stream_id, consumer="dying", limit=5)
    assert seqs(page) == [0, 1, 2, 3, 4]
    assert (await positions(daemon, stream_id))["dying"] == 5


async def test_with_ack_no_event_is_lost_to_clients_that_die(shared: tuple[Daemon, str]) -> None:
    daemon, stream_id = shared
    page = await poll(daemon, stream_id, consumer="acks", auto_ack=False, limit=3)
    received = seqs(page)
    while page["has_more"]:
        send_and_die(
            daemon, request(stream_id, consumer="acks", ack=received[-1], limit=3), clients=10
        )
        page = await poll(daemon, stream_id, consumer="acks", ack=received[-1], limit=3)
        received += seqs(page)
    assert received == list(range(page["total_events"]))
    assert len(received) > EVENTS


async def test_a_page_that_the_kernel_has_not_taken_does_not_move_the_consumer(
    shared: tuple[Daemon, str], tmp_path: Path
) -> None:
    daemon, _ = shared
    # Several times the buffer of a socket.
    stream_id = await chat_to_the_end(daemon, tmp_path, f"say: {'long ' * 400_000}")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(daemon.paths.socket)
        client.sendall(request(stream_id, consumer="slow"))
        # The first bytes of the page have been sent, the rest can't be.
        received = b""
        while b'"type":"data"' not in received:
            received += client.recv(100)
        assert await positions(daemon, stream_id) == {}
    page = await poll(daemon, stream_id, consumer="slow")
    assert seqs(page) == list(range(page["total_events"]))
    assert await positions(daemon, stream_id) == {"slow": page["total_events"]}


async def test_a_slow_client_moves_its_consumer_when_the_page_has_arrived(
    shared: tuple[Daemon, str], tmp_path: Path
) -> None:
    daemon, _ = shared
    stream_id = await chat_to_the_end(daemon, tmp_path, f"say: {'long ' * 400_000}")
    async with LineClient(daemon.paths.socket) as client:
        page = (await client.call("claudecode.poll", {"stream_id": stream_id}))[0]["content"]
        assert await positions(daemon, stream_id) == {"default": page["total_events"]}


async def test_a_page_over_a_websocket_moves_its_consumer(shared: tuple[Daemon, str]) -> None:
    daemon, stream_id = shared
    params = {"stream_id": stream_id, "consumer": "web"}
    headers = {"Authorization": f"Bearer {daemon.token}"}
    async with connect(daemon.record["ws_url"], additional_headers=headers) as client:
        for start in (0, 2):
            line = jsonrpc.request(1, "claudecode.poll", {**params, "limit": 2})
            await client.send(line.decode())
            messages = [json.loads(await client.recv()) for _ in range(3)]
            page = messages[1]["params"]["result"]["content"]
            assert seqs(page) == [start, start + 1]
            assert (await positions(daemon, stream_id))["web"] == start + 2


async def read_until_killed(
    daemon: Daemon, stream_id: str, received: list[int], polls: int, params: Json, *, late: bool
) -> None:
    """Poll so many times, and kill the daemon before it answers the last one, or while it does."""
    with suppress(ConnectionError):
        async with daemon.client() as client:
            for number in range(polls):
                if "auto_ack" in params and received:
                    params = {**params, "ack": received[-1]}
                line = {"method": "claudecode.poll", "params": {"stream_id": stream_id, **params}}
                await client.send("plexus.call", line)
                if number == polls - 1 and not late:
                    daemon.kill()
                await client.receive()
                if number == polls - 1 and late:
                    daemon.kill()
                items: list[Json] = []
                while not items or items[-1]["type"] != "done":
                    items.append((await client.receive())["params"]["result"])
                    if items[-1]["type"] == "data":
                        page = seqs(items[-1]["content"])
                        # A page may come again; none is left out.
                        assert not page or page[0] <= len(set(received)), (received, page)
                        received += page
    if daemon.process is not None:
        daemon.kill()


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.soak)])
async def test_kills_of_the_daemon_leave_no_gap_in_what_a_consumer_reads(
    tmp_path: Path, kills: int
) -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    ways: dict[str, Json] = {
        "auto": {"consumer": "auto", "limit": 1},
        "acks": {"consumer": "acks", "limit": 1, "auto_ack": False},
    }
    received: dict[str, list[int]] = {way: [] for way in ways}
    daemon = Daemon(tmp_path / "home")
    daemon.start()
    try:
        stream_id = await chat_to_the_end(daemon, tmp_path)
        for kill in range(kills):
            way = dice.choice(list(ways)) if kill > 1 else list(ways)[kill]
            polls = dice.randint(1, 3)
            late = dice.random() < 0.5
            await read_until_killed(daemon, stream_id, received[way], polls, ways[way], late=late)
            daemon.start()
        for way, params in ways.items():
            page = await poll(daemon, stream_id, **{**params, "limit": 1000})
            received[way] += seqs(page)
            assert set(received[way]) == set(range(page["total_events"])), (way, seed, received)
    finally:
        daemon.stop()
