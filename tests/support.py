"""Helpers of several tests: a hub in this process, and a real daemon in another."""

import asyncio
import json
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from hubd import testing
from hubd.activation import Activation, Client, Context
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.wire import client as wire_client
from hubd.wire import jsonrpc
from hubd.wire.item import Item
from hubd.wire.paths import Paths
from tests import schema_file
from tests.clean_environment import basic_variables
from tests.fork_server import ForkedProcess, ForkServer
from tests.storage import migrated_database

# Seconds after which a test that waits has found a hang.
PATIENCE_SECONDS = 20.0
# The number of examples of a property test. With `--hypothesis-profile=soak` it is ten times that.
EXAMPLES = 30


def examples(count: int) -> settings:
    """Return the settings of a property test.

    Below `EXAMPLES`, one example is so slow that shrinking a failure would take minutes. Then it
    is only done in the longer runs.

    Args:
        count: The number of examples by default.
    """
    times = settings().max_examples // EXAMPLES
    is_shrunk = count >= EXAMPLES or times > 1
    phases = [each for each in settings().phases if is_shrunk or each is not Phase.shrink]
    return settings(max_examples=count * times, phases=phases)


def few(cases: Sequence[Any], keep: int) -> list[Any]:
    """Return the cases of a slow test, all but the first ones marked for the longer runs."""
    rest = [pytest.param(case, marks=pytest.mark.soak) for case in cases[keep:]]
    return [*cases[:keep], *rest]


class Collector:
    """A caller that keeps every item, as a client would see it."""

    unanswerable: str | None = None
    has_room = False

    def __init__(self, context: Context | None = None, client: Client | None = None) -> None:
        self.context = context or Context()
        self.client = client or Client("test")
        self.items: list[dict[str, Any]] = []
        self.arrived = asyncio.Event()

    def offers(self, namespace: str) -> bool:
        return True

    async def send(self, item: Item) -> None:
        self.post(item)

    def post(self, *items: Item) -> None:
        self.items += [json.loads(item.encode()) for item in items]
        self.arrived.set()

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        handed_over.set_result(True)


async def call_items(hub: Hub, method: str, /, **params: Any) -> list[dict[str, Any]]:
    """Return all items of one call in this process, `done` included."""
    caller = Collector()
    await Call(hub, method, params, caller).run()
    return caller.items


async def call_events(hub: Hub, method: str, /, **params: Any) -> list[dict[str, Any]]:
    """Return the events of a call that must succeed."""
    items = await call_items(hub, method, **params)
    assert [item for item in items if item["type"] == "error"] == [], items
    return [item["content"] for item in items if item["type"] == "data"]


async def call_error(hub: Hub, method: str, /, **params: Any) -> dict[str, Any]:
    """Return the error item of a call that must fail, with its guidance under `guidance`."""
    items = await call_items(hub, method, **params)
    assert [item["type"] for item in items][-3:] == ["guidance", "error", "done"], items
    return {**items[-2], "guidance": items[-3]}


@asynccontextmanager
async def hub_with(
    directory: Path, *activations: Activation, name: str = "plexus"
) -> AsyncIterator[Hub]:
    """Run a hub with these plugins and a real database in this process."""
    path = directory / "hub.db"
    migrated_database.provide(path)
    async with testing.hub(*activations, path=path, name=name) as running:
        yield running.hub


# By the modules that each has imported beside those of every daemon.
_fork_servers: dict[tuple[str, ...], ForkServer] = {}


def _fork_server(*modules: str) -> ForkServer:
    if modules not in _fork_servers:
        _fork_servers[modules] = ForkServer(basic_variables(), modules)
    return _fork_servers[modules]


def close_fork_servers() -> None:
    """End the servers of forked daemons that tests have used."""
    for server in _fork_servers.values():
        server.close()
    _fork_servers.clear()


class Daemon:
    """A real daemon process with its own home.

    Args:
        home: The home directory.
        options: Options of `hubd run`.
        fresh: Start a new interpreter instead of a fork of one that has imported hubd. Needed
            for variables that are read when a program starts.
    """

    # Modules that a fork has imported beside those that every daemon imports at its start.
    imported: tuple[str, ...] = ()

    def __init__(self, home: Path, *options: str, fresh: bool = False) -> None:
        self.home = home
        self.paths = Paths(str(home))
        self.options = options
        # Variables that the daemon gets beside the basic ones.
        self.variables: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._fresh = fresh

    def __enter__(self) -> "Daemon":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Run it in the foreground, and wait until it is ready."""
        # For a later start without a fork. A fork has all schemas.
        schema_file.copy_to(self.home)
        migrated_database.provide(self.home / "hub.db")
        arguments = ["run", "--home", str(self.home), "--port", "0", *self.options]
        variables = environment(**self.variables)
        if self._fresh or "LD_PRELOAD" in variables:
            self.process = subprocess.Popen(
                [*HUBD, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=variables,
            )
        else:
            self.process = _fork_server(*self.imported).start(arguments, variables)
        assert self.process.stderr is not None
        output = b""
        for line in self.process.stderr:
            output += line
            if b" ready on " in line:
                # A full pipe would stop the daemon, and its log has the same lines.
                self.process.stderr.close()
                return
        self.stop()
        raise AssertionError(f"the daemon did not start: {output.decode()}")

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM and return the exit status."""
        return self._end(signal.SIGTERM)

    @property
    def record(self) -> dict[str, Any]:
        """Its record file."""
        record: dict[str, Any] = json.loads(Path(self.paths.record).read_text())
        return record

    @property
    def token(self) -> str:
        """Its authentication token."""
        return Path(self.paths.token).read_text().strip()

    def client(self) -> "LineClient":
        """Return a client for the Unix socket."""
        return LineClient(self.paths.socket)

    def _end(self, number: int) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()


class McpDaemon(Daemon):
    """A daemon for MCP clients: a fork of a process that has imported the MCP SDK already."""

    imported = ("hubd.mcp.server",)


class LineClient:
    """An asyncio client of the Unix socket that knows only the published protocol."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._next = 0

    async def __aenter__(self) -> "LineClient":
        self.reader, self.writer = await asyncio.open_unix_connection(
            self._path, limit=64 * 1024 * 1024
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with suppress(BrokenPipeError, ConnectionResetError):
            await self.writer.wait_closed()

    async def send(self, method: str, params: object) -> int:
        """Send one request and return its id."""
        self._next += 1
        self.writer.write(jsonrpc.request(self._next, method, params) + b"\n")
        await self.writer.drain()
        return self._next

    async def receive(self) -> dict[str, Any]:
        """Return the next message."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await self.reader.readline()
        if not line:
            raise ConnectionResetError("the daemon closed the connection")
        message: dict[str, Any] = json.loads(line)
        return message

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return all items of one call. Nothing else may run on this connection meanwhile."""
        await self.send("plexus.call", {"method": method, "params": params or {}})
        subscription = (await self.receive())["result"]
        items: list[dict[str, Any]] = []
        while not items or items[-1]["type"] != "done":
            message = await self.receive()
            assert message["params"]["subscription"] == subscription
            items.append(message["params"]["result"])
        return items


HUBD = (sys.executable, "-m", "hubd")


def environment(**more: str) -> dict[str, str]:
    """Return the environment for a child: basic variables, the path of our modules, and `more`.

    The port of MCP is any free one, because tests run side by side.
    """
    path = str(Path(__file__).parent.parent)
    return {**basic_variables(), "PYTHONPATH": path, "HUBD_MCP_PORT": "0", **more}


def hubd(*arguments: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the hubd command to its end."""
    if "start" in arguments:
        schema_file.bring(home)
    return _fork_server().run(["--home", str(home), *arguments], environment(**more), 60)


def events_of(home: Path, method: str, **params: Any) -> list[dict[str, Any]]:
    """Return the events of a call to the daemon of a home, also if the call fails."""
    items = wire_client.call(
        Paths(str(home)).socket, method, params, timeout_seconds=PATIENCE_SECONDS
    )
    return [item["content"] for item in items if item["type"] == "data"]


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Limit the files of this process to `size` bytes. Writes then fail as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
