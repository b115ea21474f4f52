"""What several tests need: a hub in this process, and a real daemon in another."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Activation, Client, Context
from hubd.daemon import client as local
from hubd.plexus.dispatch import Call
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.plexus.root import build_hub
from hubd.storage.database import Database
from hubd.wire import jsonrpc
from hubd.wire.item import Item
from hubd.wire.paths import Paths
from tests.clean_environment import basic_variables

# Nothing here takes this long; a test that waits longer has found a hang.
PATIENCE_SECONDS = 20.0
# What takes long to make, or to fetch, and is kept between runs.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "hubd-tests")
# As the daemon calls it.
SCHEMAS = CACHE / "schemas.json"


def few(cases: Sequence[Any], keep: int) -> list[Any]:
    """Return the cases of a slow test, all but the first ones marked for the longer runs."""
    rest = [pytest.param(case, marks=pytest.mark.soak) for case in cases[keep:]]
    return [*cases[:keep], *rest]


class Collector:
    """A caller that keeps every item, as a client would see it."""

    unanswerable: str | None = None

    def __init__(self, context: Context | None = None, client: Client | None = None) -> None:
        self.context = context or Context()
        self.client = client or Client("test")
        self.items: list[dict[str, Any]] = []
        self.arrived = asyncio.Event()

    def allows(self, namespace: str, method: str) -> bool:
        return True

    async def send(self, item: Item) -> None:
        self.post(item)

    def post(self, item: Item) -> None:
        self.items.append(json.loads(item.encode()))
        self.arrived.set()

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        handed_over.set_result(True)


async def call_items(hub: Hub, method: str, /, **params: Any) -> list[dict[str, Any]]:
    """All items of one call in this process, `done` included."""
    caller = Collector()
    await Call(hub, method, params, caller).run()
    return caller.items


async def call_events(hub: Hub, method: str, /, **params: Any) -> list[dict[str, Any]]:
    """The events of a call that must succeed."""
    items = await call_items(hub, method, **params)
    assert [item for item in items if item["type"] == "error"] == [], items
    return [item["content"] for item in items if item["type"] == "data"]


async def call_error(hub: Hub, method: str, /, **params: Any) -> dict[str, Any]:
    """The error item of a call that must fail, with its guidance under `guidance`."""
    items = await call_items(hub, method, **params)
    assert [item["type"] for item in items][-3:] == ["guidance", "error", "done"], items
    return {**items[-2], "guidance": items[-3]}


@asynccontextmanager
async def hub_with(
    directory: Path, *activations: Activation, name: str = "plexus"
) -> AsyncIterator[Hub]:
    """A hub with a real database and these plugins, attached as the daemon would."""
    async with Database(directory / "hub.db") as database:
        hub = build_hub(name, database=database)
        host = PlexusHost(hub)
        for activation in activations:
            node = hub.attach(activation, host)
            for below in node.walk():
                await database.migrate(below.path, below.activation.migrations)
        yield hub


class Daemon:
    """A real daemon process on a home of its own."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.paths = Paths(str(home))
        self.options = options
        # Variables that the daemon gets beside the basic ones.
        self.variables: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Daemon":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Run it in the foreground of a process we own, and wait until it answers."""
        _bring_schemas(self.home)
        self.process = subprocess.Popen(
            [*HUBD, "run", "--home", str(self.home), "--port", "0", *self.options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(**self.variables),
        )
        assert self.process.stderr is not None
        said = b""
        for line in self.process.stderr:
            said += line
            if b" ready on " in line:
                # Nobody reads on; the log has it all, and a full pipe would stop the daemon.
                self.process.stderr.close()
                return
        self.stop()
        raise AssertionError(f"the daemon did not start: {said.decode()}")

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    @property
    def record(self) -> dict[str, Any]:
        """What it wrote about itself."""
        record: dict[str, Any] = json.loads(Path(self.paths.record).read_text())
        return record

    @property
    def token(self) -> str:
        """Its secret."""
        return Path(self.paths.token).read_text().strip()

    def client(self) -> "LineClient":
        """A client on the Unix socket."""
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
            _keep_schemas(self.home)


def _bring_schemas(home: Path) -> None:
    """Describing all plugins is a third of a first start; one daemon does it for all of a run."""
    with suppress(FileNotFoundError, FileExistsError):
        described = SCHEMAS.read_bytes()
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(home / SCHEMAS.name, new, 0o600), "wb") as brought:
            brought.write(described)


def _keep_schemas(home: Path) -> None:
    """What was brought and is not used as it was, is of other code than ours."""
    with suppress(FileNotFoundError):
        described = (home / SCHEMAS.name).read_bytes()
        if not SCHEMAS.exists() or SCHEMAS.read_bytes() != described:
            SCHEMAS.parent.mkdir(parents=True, exist_ok=True)
            made = SCHEMAS.with_suffix(f".{os.getpid()}")
            made.write_bytes(described)
            made.replace(SCHEMAS)


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
        """Send one request; returns its id."""
        self._next += 1
        self.writer.write(jsonrpc.request(self._next, method, params) + b"\n")
        await self.writer.drain()
        return self._next

    async def receive(self) -> dict[str, Any]:
        """The next message."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await self.reader.readline()
        if not line:
            raise ConnectionResetError("the daemon closed the connection")
        message: dict[str, Any] = json.loads(line)
        return message

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """All items of one call; nothing else may run on this connection meanwhile."""
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
    return subprocess.run(
        [*HUBD, "--home", str(home), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env=environment(**more),
        check=False,
    )


def events_of(home: Path, method: str, **params: Any) -> list[dict[str, Any]]:
    """The events of a call to the daemon of a home, whether it succeeds or not."""
    items = local.call(Paths(str(home)).socket, method, params, timeout_seconds=PATIENCE_SECONDS)
    return [item["content"] for item in items if item["type"] == "data"]


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes: writes fail as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
