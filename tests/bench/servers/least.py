"""The least that one Python process can do for a durable event: no hub, the same bytes and tables.

It reads the same requests, writes the same rows in groups, and answers with messages of the same
size. It has no methods, tasks, validation, plugins, followers or limits, so no hub in Python can be
faster.

`python -m tests.bench.servers.least DIRECTORY asyncio|uvloop`
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from hubd.daemon.event_loop import loop_factory
from hubd.rpc.frames import Splitter, add_text_frame
from hubd.wire import jsonrpc
from hubd.wire.item import Data, Done, Stamp
from tests.bench.rows.storage import PRODUCERS, RawPusher, raw_pusher
from tests.support import environment


@contextmanager
def least_server(directory: Path) -> Iterator[dict[str, Any]]:
    """Run the server, on the event loop of the daemons, and yield its address."""
    variables = environment()
    command = [sys.executable, "-m", "tests.bench.servers.least", str(directory)]
    command.append(variables["HUBD_EVENT_LOOP"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables) as process:
        try:
            assert process.stdout is not None
            address: dict[str, Any] = json.loads(process.stdout.readline())
            yield address
        finally:
            process.kill()


class Group:
    """The events that share a commit. They are committed when a turn of the loop adds none."""

    def __init__(self, pusher: RawPusher) -> None:
        self._pusher = pusher
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Client, int, int, str]] = []
        # The number of events at the end of the last turn.
        self._size = 0

    def add(self, client: "Client", request: int, stream: int, data: str) -> None:
        """Write an event with the next commit, and answer the request."""
        if not self._waiting:
            self._loop.call_soon(self._run)
        self._waiting.append((client, request, stream, data))

    def _run(self) -> None:
        if 1 < len(self._waiting) > self._size:
            self._size = len(self._waiting)
            self._loop.call_soon(self._run)
            return
        events, self._waiting, self._size = self._waiting, [], 0
        self._pusher.write((stream, data) for _, _, stream, data in events)
        for client, request, _, _ in events:
            client.answer(request)
        for client in dict.fromkeys(client for client, *_ in events):
            client.flush()


class Client(asyncio.Protocol):
    """A WebSocket."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._splitter: Splitter | None = None
        self._stamp = Stamp(("plexus", "pusher", "push"), "0" * 16)
        self._frames: list[bytes] = []
        self._subscription = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        if self._splitter is None:
            # The client sends its request at once, and nothing else before the reply.
            self._splitter = Splitter()
            self._transport.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            return
        for message, _ in self._splitter.split(data):
            request = from_json(message)
            params = request["params"]["params"]
            self._group.add(self, request["id"], params["stream"], params["data"])

    def answer(self, request: int) -> None:
        """Queue the reply, the event and the end of a call."""
        self._subscription += 1
        around = jsonrpc.item_envelope(self._subscription)
        metadata = self._stamp.metadata()
        event = Data(metadata, "pusher.push", b'{"type":"pushed","seq":1}')
        for message in (
            jsonrpc.success(request, self._subscription),
            event.encode(*around),
            Done(metadata).encode(*around),
        ):
            add_text_frame(self._frames, message)

    def flush(self) -> None:
        """Send the queued frames."""
        self._transport.write(b"".join(self._frames))
        self._frames.clear()


async def main(directory: Path) -> None:
    """Serve until killed."""
    pusher = await raw_pusher(directory / "hub.db")
    group = Group(pusher)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(group), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = {"url": f"ws://127.0.0.1:{port}", "token": "", "streams": list(range(PRODUCERS))}
    print(json.dumps(address), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory(sys.argv[2])) as runner:
        runner.run(main(Path(sys.argv[1])))
