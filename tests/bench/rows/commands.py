"""Wall time of synapse, from a wheel install, against the bare interpreter."""

import json
import os
import pty
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.row import BEFORE, Bench, Row, Samples, Target
from tests.bench.versions import Version
from tests.clean_environment import basic_variables

ROUNDS: Final = 31
TERMINAL_ROUNDS: Final = 15
RICH: Final = "import rich.console, rich.table"
CONSOLE: Final = "import rich.console"
# The same call with ordinary imports.
USUAL: Final = """
import json, sys
import typer, rich.console
from websockets.sync.client import connect
app = typer.Typer()
@app.command()
def once(url: str, token: str, message: str) -> None:
    with connect(url, additional_headers={"Authorization": f"Bearer {token}"}) as socket:
        params = {"method": "echo.once", "params": {"message": message}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "plexus.call", "params": params}
        socket.send(json.dumps(call))
        while True:
            item = json.loads(socket.recv()).get("params", {}).get("result", {})
            if item.get("type") == "data":
                rich.console.Console().print_json(data=item["content"])
            if item.get("type") == "done":
                return
app()
"""
MANY: Final = """
from collections.abc import AsyncIterator
from hubd.activation import Activation, Event, method
class Said(Event):
    text: str
def named(n):
    async def run(self, text: str, count: int = 1) -> AsyncIterator[Said]:
        '''Say something.'''
        yield Said(text=text)
    run.__name__ = f"method_{n}"
    return method(run)
Many = type(Activation)("Many", (Activation,), {"__doc__": "Many methods.", "__module__": __name__,
    **{f"method_{n}": named(n) for n in range(COUNT)}}, namespace="many", version="1.0.0")
"""


@dataclass
class Installed:
    """One version from its wheel, with a daemon."""

    version: Version
    home: Path
    variables: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.programs = self.version.programs()
        self.python = str(self.programs / "python")
        self.synapse = str(self.programs / "synapse")
        shared = {"HUBD_HOME": str(self.home), "HUBD_MCP_PORT": "0", "PAGER": "cat"}
        self.variables = {**basic_variables(), **shared, "TERM": "xterm-256color"}

    def hubd(self, *arguments: str, cwd: Path | None = None) -> str:
        """Run `hubd` and return its output."""
        return subprocess.run(
            [self.programs / "hubd", *arguments],
            env=self.variables,
            check=True,
            capture_output=True,
            text=True,
            cwd=cwd,
        ).stdout


async def calls(bench: Bench) -> Samples:
    """Call, complete, and list at a terminal."""
    installed = [
        Installed(version, bench.directory / f"home-{version.name}") for version in bench.versions
    ]
    for each in installed:
        each.hubd("start", "--port", "0")
    try:
        works = _works(installed)
        rounds = bench.rounds_or(ROUNDS)
        samples = _samples(works, rounds)
        terminal_rounds = bench.rounds_or(TERMINAL_ROUNDS)
        return Samples(samples | _samples(_terminal_works(installed), terminal_rounds))
    finally:
        for each in installed:
            each.hubd("stop")


def _works(installed: list[Installed]) -> dict[str, Callable[[], float]]:
    works: dict[str, Callable[[], float]] = {}
    for each, end in zip(installed, ("", BEFORE), strict=False):
        completing = {**each.variables, "_SYNAPSE_COMPLETE": "bash"}
        call = [each.synapse, "echo", "once", "--message", "hi"]
        works[f"pass{end}"] = _whole([each.python, "-c", "pass"], each.variables)
        works[f"call{end}"] = _whole(call, each.variables)
        works[f"completion{end}"] = _whole([each.synapse, "echo", "on"], completing)
    now = installed[0]
    record = json.loads((now.home / "hubd.json").read_text())
    token = Path(record["token_file"]).read_text().strip()
    (now.home / "usual.py").write_text(USUAL)
    usual = [now.python, str(now.home / "usual.py"), record["ws_url"], token, "hi"]
    works["usual"] = _whole(usual, now.variables)
    if shutil.which("curl"):
        address = record["ws_url"].replace("ws:", "http:")
        works["curl"] = _whole(["curl", "-s", address], now.variables)
    return works


def _terminal_works(installed: list[Installed]) -> dict[str, Callable[[], float]]:
    works: dict[str, Callable[[], float]] = {}
    for each, end in zip(installed, ("", BEFORE), strict=False):
        works[f"rich{end}"] = _whole([each.python, "-c", RICH], each.variables)
        works[f"console{end}"] = _whole([each.python, "-c", CONSOLE], each.variables)
        views = {
            "list": ("claudecode", "list"),
            "overview": (),
            "help": ("echo", "once", "--help"),
            "chat-help": ("claudecode", "chat", "--help"),
        }
        for name, words in views.items():
            works[name + end] = _first_output([each.synapse, *words], each.variables)
    return works


async def many_methods(bench: Bench) -> Samples:
    """Show the help of a method of a small and of a large plugin; the daemon is down."""
    works: dict[str, Callable[[], float]] = {}
    for count in (10, 1000):
        one = Installed(bench.versions[0], bench.directory / f"home{count}")
        name = f"many{count}"
        (bench.directory / f"{name}.py").write_text(MANY.replace("COUNT", str(count)))
        one.hubd("start", "--port", "0", "--plugin", f"{name}:Many", cwd=bench.directory)
        work = _whole([one.synapse, "many", "method_1", "--help"], one.variables)
        # The first run keeps the schema for the others.
        work()
        one.hubd("stop")
        works[f"{count} methods"] = work
    return Samples(_samples(works, bench.rounds_or(TERMINAL_ROUNDS)))


def _samples(works: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return milliseconds, of all commands taking turns. Two rounds before the first warm up."""
    samples: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 2):
        for name in list(works) if number % 2 else reversed(list(works)):
            seconds = works[name]()
            if number >= 2:
                samples[name].append(seconds * 1000)
    return samples


def _whole(command: list[str], variables: dict[str, str]) -> Callable[[], float]:
    """Run a command to its end."""

    def work() -> float:
        began = time.perf_counter()
        subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, check=False)
        return time.perf_counter() - began

    return work


def _first_output(command: list[str], variables: dict[str, str]) -> Callable[[], float]:
    """Run a command with a pseudo-terminal as its output; return the time until it prints."""

    def work() -> float:
        controller, terminal = pty.openpty()
        began = time.perf_counter()
        with subprocess.Popen(
            command, env=variables, stdin=terminal, stdout=terminal, stderr=terminal
        ):
            os.close(terminal)
            assert os.read(controller, 1), f"{command} printed nothing"
            seconds = time.perf_counter() - began
            try:
                while os.read(controller, 65536):
                    pass
            except OSError:  # the other end is closed
                os.close(controller)
        return seconds

    return work


PASS = "`python -c pass`"
IMPORT = f"`python -c '{RICH}'`"
IMPORT_CONSOLE = f"`python -c '{CONSOLE}'`"
ROWS = [
    Row("call", "`synapse echo once --message hi`, wheel install", PASS, Target("<=", 1.3), "ms",
        calls, "call", "pass"),
    Row("completion", "completion of a word", PASS, Target("<=", 1.3), "ms", calls, "completion",
        "pass"),
    Row("list", "`synapse claudecode list` on a terminal, first output", IMPORT,
        Target("<=", 2), "ms", calls, "list", "rich"),
]  # fmt: skip
MORE = [
    Row("usual-client", "the same call by Typer, Rich and websockets", PASS, None, "ms", calls,
        "usual", "pass"),
    Row("curl", "`curl` to the same daemon", PASS, None, "ms", calls, "curl", "pass"),
    Row("overview", "`synapse` on a terminal, first output", IMPORT, None, "ms", calls,
        "overview", "rich"),
    Row("help", "help of `echo once` on a terminal, first output", IMPORT_CONSOLE, None, "ms",
        calls, "help", "console"),
    Row("chat-help", "help of `claudecode chat` on a terminal, first output", IMPORT_CONSOLE, None,
        "ms", calls, "chat-help", "console"),
    Row("help-growth", "help of a method of 1,000, daemon down", "help of a method of 10", None,
        "ms", many_methods, "1000 methods", "10 methods"),
]  # fmt: skip
