"""From nothing to the first answer of a daemon, and its memory when idle."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hubd.wire import client as wire_client
from tests.bench.machine import resident_mib
from tests.bench.row import BEFORE, Bench, Row, Samples, Target
from tests.bench.versions import Version

ROUNDS: Final = 9
# Seconds in which the daemon must have answered.
START_SECONDS: Final = 30.0
# The interpreter itself, not a shim in front of it.
PYTHON: Final = sys.executable
BARE: Final = (
    "import sys, asyncio, pydantic, websockets.asyncio.server; print(flush=True); sys.stdin.read()"
)
# The daemon with everything of MCP taken out.
WITHOUT_MCP: Final = """
import sys, types
from contextlib import asynccontextmanager
@asynccontextmanager
async def nothing(*_): yield
for name, entry in (("on_demand", "LazyMcp"), ("transports.stdio", "serve_mcp_stdio"),
                    ("transports.http", "serve_mcp_http")):
    module = types.ModuleType(f"hubd.mcp.{name}")
    setattr(module, entry, nothing)
    sys.modules[module.__name__] = module
from hubd.cli import main
sys.exit(main())
"""
HUBD: Final = (PYTHON, "-m", "hubd")


async def start(bench: Bench) -> Samples:
    """Start daemons, each with a home that an earlier start has made."""
    now = bench.versions[0]
    programs: dict[str, tuple[Version, Sequence[str]]] = {"hub": (now, HUBD)}
    for old in bench.versions[1:]:
        programs[f"hub{BEFORE}"] = (old, HUBD)
    programs["without MCP"] = (now, (PYTHON, "-c", WITHOUT_MCP))
    ready: dict[str, list[float]] = {name: [] for name in (*programs, "pass")}
    memory: dict[str, list[float]] = {name: [] for name in (*programs, "bare")}
    for number in range(bench.rounds_or(ROUNDS) + 1):
        seconds = {"pass": _pass_seconds()}
        used = {"bare": _bare_mib()}
        for name, (version, program) in programs.items():
            home = bench.directory / name.replace(" ", "-")
            seconds[name], used[name] = _start(version, home, program)
        if number:  # the first round makes the homes
            for name, value in seconds.items():
                ready[name].append(value * 1000)
            for name, value in used.items():
                memory[name].append(value)
    named = {f"ready {name}": values for name, values in ready.items()}
    return Samples(named | {f"memory {name}": values for name, values in memory.items()})


def _pass_seconds() -> float:
    began = time.perf_counter()
    subprocess.run([PYTHON, "-c", "pass"], check=True)
    return time.perf_counter() - began


def _start(version: Version, home: Path, program: Sequence[str]) -> tuple[float, float]:
    """Return the seconds until a daemon has answered a call, and its memory after that in MiB."""
    home.mkdir(mode=0o700, exist_ok=True)
    command = [*program, "run", "--detached", "--home", str(home), "--port", "0"]
    socket = str(home / "hub.sock")
    began = time.perf_counter()
    process = subprocess.Popen(command, env=version.environment(), cwd=version.root)
    try:
        while True:
            try:
                list(wire_client.call(socket, "echo.ping", {}))
                break
            except wire_client.ClientError:
                assert time.perf_counter() - began < START_SECONDS, "the daemon did not start"
                time.sleep(0.001)
        seconds = time.perf_counter() - began
        # Until the rest of the start is done as well.
        time.sleep(0.5)
        return seconds, resident_mib(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _bare_mib() -> float:
    """Return the memory of a process that has only loaded the libraries."""
    with subprocess.Popen(
        [PYTHON, "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return resident_mib(process.pid)


ROWS = [
    Row("ready", "daemon ready on the Unix socket", "`python -c pass`", Target("<=", 20), "ms",
        start, "ready hub", "ready pass"),
    Row("memory", "memory of an idle daemon",
        "a process with asyncio, pydantic and `websockets` loaded", Target("<=", 1.6), "MiB",
        start, "memory hub", "memory bare"),
]  # fmt: skip
MORE = [
    Row("ready-mcp", "daemon ready on the Unix socket", "the same without MCP", None, "ms",
        start, "ready hub", "ready without MCP"),
    Row("memory-mcp", "memory of an idle daemon", "the same without MCP", None, "MiB",
        start, "memory hub", "memory without MCP"),
]  # fmt: skip
