"""`hubd mcp` as a child of a test, and the messages of a client that is written by hand."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests import schema_file
from tests.support import HUBD, PATIENCE_SECONDS, environment

Message = dict[str, Any]

INITIALIZE: Final[Message] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}
INITIALIZED: Final[Message] = {"jsonrpc": "2.0", "method": "notifications/initialized"}

# The plugins of the daemon behind the bridge.
PLUGINS: Final = (
    "--plugin",
    "tests.fakes.mcp_plugins:Porter",
    "--plugin",
    "tests.sample_plugins.trouble:Trouble",
)


def request(request_id: int, method: str, **params: Any) -> Message:
    """One request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def tool_call(request_id: int, name: str, **arguments: Any) -> Message:
    """One call of a tool."""
    return request(request_id, "tools/call", name=name, arguments=arguments)


def lines(*messages: Message) -> bytes:
    """Messages as they are sent."""
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def read(output: bytes) -> dict[Any, Message]:
    """Return the messages on stdout by id; each line must be JSON."""
    assert output.endswith(b"\n") or not output
    messages = [json.loads(line) for line in output.splitlines()]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    return {message.get("id"): message for message in messages}


def event_of(answer: Message) -> dict[str, Any]:
    """The only event of a call."""
    assert not answer["result"]["isError"], answer
    [event] = answer["result"]["structuredContent"]["events"]
    return dict(event)


class Bridge:
    """A running `hubd mcp`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def send(self, *messages: Message | bytes) -> None:
        """Send messages, or bytes as they are."""
        assert self.process.stdin is not None
        for message in messages:
            data = message if isinstance(message, bytes) else lines(message)
            self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def receive(self) -> Message:
        """Return the next message that is not a notification."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while line := await self.process.stdout.readline():
                message: Message = json.loads(line)
                if "method" not in message:
                    return message
        raise AssertionError(f"the output ended: {await self.said()}")

    async def greet(self) -> None:
        """Do the handshake."""
        await self.send(INITIALIZE, INITIALIZED)
        assert (await self.receive())["id"] == 0

    async def ask(self, message: Message) -> Message:
        """Send a request and wait for its answer, which must be the next."""
        await self.send(message)
        answer = await self.receive()
        assert answer["id"] == message["id"], answer
        return answer

    def hang_up(self) -> None:
        """Close its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def rest(self) -> bytes:
        """Return the rest of its output."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.stdout.read()

    async def status(self) -> int:
        """Wait for its end."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.wait()

    async def said(self) -> str:
        """All that it said on stderr, when it has ended."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await self.process.stderr.read()).decode()


@asynccontextmanager
async def bridge(
    home: Path, *arguments: str, command: Iterable[str] = (), **options: Any
) -> AsyncIterator[Bridge]:
    """Run `hubd mcp` for a home; it does not survive the block."""
    settings: dict[str, Any] = {
        "stdin": asyncio.subprocess.PIPE,
        "stdout": asyncio.subprocess.PIPE,
        "stderr": asyncio.subprocess.PIPE,
        "env": environment(),
        **options,
    }
    schema_file.bring(home)
    program = tuple(command) or (*HUBD, "--home", str(home), "mcp", *arguments)
    process = await asyncio.create_subprocess_exec(*program, limit=64 * 1024 * 1024, **settings)
    try:
        yield Bridge(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def bare(home: Path) -> tuple[str, ...]:
    """The bridge without the command around it, for a hub in this process."""
    code = (
        "import sys; from hubd.mcp.transports import bridge; from hubd.wire.paths import Paths; "
        "sys.exit(bridge.run(Paths(sys.argv[1]), None, None))"
    )
    return (sys.executable, "-c", code, str(home))


def daemons_of(home: Path) -> list[int]:
    """The processes that run the daemon of a home."""
    wanted = os.fsencode(home)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"run" in words and wanted in words:
                found.append(int(entry.name))
    return found


def kill_daemons_of(home: Path) -> None:
    """End them, should a test have failed to."""
    for pid in daemons_of(home):
        os.kill(pid, signal.SIGKILL)
