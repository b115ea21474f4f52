"""Wall time of a command, from a wheel install, against the bare interpreter.

`python -m tests.bench.cli` builds the wheel and installs it into a new environment.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import environment

ROOT = Path(__file__).parent.parent.parent
RUNS = 30
# The same call with ordinary imports.
USUAL = """
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
# Waits for the first output of a command at a pseudo-terminal, then for its end.
AT_TERMINAL = """
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
try:
    while os.read(terminal, 65536):
        pass
except OSError:
    pass
os.waitpid(pid, 0)
"""
MANY = """
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


def install(directory: Path) -> Path:
    """An environment with nothing but the wheel; returns its bin directory."""
    venv = directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [str(venv / "bin" / "pip"), "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", str(ROOT)], check=True)
    return venv / "bin"


def at_terminal(*command: str) -> list[str]:
    """Return a command that runs another one with a pseudo-terminal as its output."""
    return [sys.executable, "-S", "-c", AT_TERMINAL, *command]


def medians(
    commands: dict[str, list[str]], env: dict[str, str], runs: int = RUNS
) -> dict[str, float]:
    """The median wall time of each command, all of them taking turns."""
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(runs + 2):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False)
            if number >= 2:
                samples[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in samples.items()}


def show(title: str, measured: dict[str, float], against: str) -> None:
    """A block of ratios."""
    print(f"\n{title}")
    for name, seconds in measured.items():
        print(f"  {name:<44} {seconds * 1000:8.1f} ms   x{seconds / measured[against]:.2f}")


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        binaries = install(directory)
        env = environment(HUBD_HOME=str(directory / "home"))
        del env["PYTHONPATH"]
        synapse, hubd = str(binaries / "synapse"), str(binaries / "hubd")
        # The interpreter itself: through the environment's link it finds the same site-packages.
        python = str(binaries / "python")
        (directory / "usual.py").write_text(USUAL)
        subprocess.run([hubd, "start", "--port", "0"], env=env, check=True)
        try:
            state = subprocess.run(
                [hubd, "status", "--json"], env=env, capture_output=True, check=True
            )
            import json

            facts = json.loads(state.stdout)
            token = Path(facts["token_file"]).read_text().strip()
            calls = {
                "python -c pass": [python, "-c", "pass"],
                "synapse echo once --message hi": [synapse, "echo", "once", "--message", "hi"],
                "typer + rich + websockets": [
                    python,
                    str(directory / "usual.py"),
                    facts["ws_url"],
                    token,
                    "hi",
                ],
            }
            if shutil.which("curl"):
                address = facts["ws_url"].replace("ws:", "http:")
                calls["curl to the same daemon"] = ["curl", "-s", address]
            show("a call  (target: <= 1.3)", medians(calls, env), "python -c pass")
            completing = {**env, "_SYNAPSE_COMPLETE": "bash"}
            completion = {
                "python -c pass": [python, "-c", "pass"],
                "completion of a method": [synapse, "echo", "on"],
            }
            measured = medians(completion, completing)
            show("completion  (target: <= 1.3)", measured, "python -c pass")
            views = {
                "import rich.console, rich.table": [
                    python,
                    "-c",
                    "import rich.console, rich.table",
                ],
                "claudecode list at a terminal": at_terminal(synapse, "claudecode", "list"),
                "synapse alone at a terminal": at_terminal(synapse),
                "help of a method at a terminal": at_terminal(synapse, "echo", "once", "--help"),
            }
            title = "views at a terminal  (target: <= 2, at most 150 ms)"
            drawing = {**env, "TERM": "xterm-256color", "PAGER": "cat"}
            show(title, medians(views, drawing, 15), "import rich.console, rich.table")
        finally:
            subprocess.run([hubd, "stop"], env=env, check=True)
        helps: dict[str, list[str]] = {}
        for count in (10, 1000):
            home = str(directory / f"home{count}")
            (directory / f"many{count}.py").write_text(MANY.replace("COUNT", str(count)))
            options = ["--home", home, "--port", "0", "--plugin", f"many{count}:Many"]
            subprocess.run([hubd, "start", *options], env=env, check=True, cwd=directory)
            command = [synapse, "--home", home, "many", "method_1", "--help"]
            helps[f"help of a method, {count} methods"] = command
            subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
            subprocess.run([hubd, "--home", home, "stop"], env=env, check=True)
        show("help (daemon down)", medians(helps, env, 15), "help of a method, 10 methods")


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
