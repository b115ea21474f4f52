"""An agent program as a child of a test: `claude` or the offline agent, in a new environment.

Nothing of this machine's settings reaches it, it can talk to 127.0.0.1 only, and neither it nor
anything it started survives the test.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support import PATIENCE_SECONDS

ROOT: Final = Path(__file__).parent.parent.parent

OFFLINE: Final = (sys.executable, "-m", "hubd.offline_agent")

# Both read and write one JSON object a line with these.
STREAM_FLAGS: Final = (
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
)
DIALOGUE_FLAGS: Final = (*STREAM_FLAGS, "--input-format", "stream-json")

# Port 9 is `discard`. Without a listener, every connection is refused.
NOWHERE: Final = "http://127.0.0.1:9"

Line = dict[str, Any]

# The marks of the running test.
_marks: set[str] = set()


def note_marks(names: Iterable[str]) -> None:
    """Keep the marks of the test that starts; they decide whether it may run the real program."""
    _marks.clear()
    _marks.update(names)


def claude_program() -> str:
    """Return the path of the real program, which a development dependency contains."""
    message = "this test runs the real claude: mark it `claude`, or `soak` for the longer runs"
    assert _marks & {"claude", "soak"}, message
    prefix = Path(sys.prefix, "lib", f"python3.{sys.version_info.minor}", "site-packages")
    return str(prefix / "claude_agent_sdk" / "_bundled" / "claude")


def agent_environment(directory: Path, api_url: str = NOWHERE) -> dict[str, str]:
    """Return a new environment with all directories below `directory`."""
    for name in ("home", "config", "tmp"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(directory / "home"),
        "CLAUDE_CONFIG_DIR": str(directory / "config"),
        "TMPDIR": str(directory / "tmp"),
        "PYTHONPATH": str(ROOT),
        "ANTHROPIC_BASE_URL": api_url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        # Compiling code that runs once takes a quarter of the start of `claude`.
        "BUN_JSC_useJIT": "0",
    }


@dataclass
class AgentProcess:
    """A running agent; `lines` is its output so far."""

    process: asyncio.subprocess.Process
    # The file name of the program. Tests run several.
    program: str
    lines: list[Line] = field(default_factory=list)
    # The lines that were not JSON.
    noise: list[str] = field(default_factory=list)
    stderr: str = ""

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def of_type(self, kind: str, subtype: str | None = None) -> list[Line]:
        """Return the lines of a type, and of a subtype if one is given."""
        lines = [line for line in self.lines if line["type"] == kind]
        return [line for line in lines if subtype is None or line.get("subtype") == subtype]

    def blocks(self, kind: str) -> list[Line]:
        """Return the content blocks of all `assistant` or all `user` lines."""
        return [block for line in self.of_type(kind) for block in line["message"]["content"]]

    async def send(self, line: Line) -> None:
        """Write one line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        await self.process.stdin.drain()

    async def say(self, text: str, **more: Any) -> None:
        """Send one message of the user."""
        content = [{"type": "text", "text": text}]
        await self.send({"type": "user", "message": {"role": "user", "content": content}, **more})

    async def interrupt(self, request_id: str = "r-int") -> None:
        """Ask it to end the current turn."""
        request = {"subtype": "interrupt"}
        await self.send({"type": "control_request", "request_id": request_id, "request": request})

    async def answer(self, request_id: str, response: Line) -> None:
        """Answer a question that it asked."""
        inner = {"subtype": "success", "request_id": request_id, "response": response}
        await self.send({"type": "control_response", "response": inner})

    async def until(self, wanted: Callable[[Line], bool]) -> Line:
        """Read until a line fits. It is an error if the output ends first."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while raw := await self.process.stdout.readline():
                line = self._keep(raw)
                if line is not None and wanted(line):
                    return line
        raise AssertionError(f"the output ended: {self.lines[-3:]} {await self._errors()}")

    async def turn(self) -> list[Line]:
        """Read until a result and return the lines of this turn."""
        start = len(self.lines)
        await self.until(lambda line: line.get("type") == "result")
        return self.lines[start:]

    async def end(self) -> int:
        """Close its input, read the rest, and wait for its exit status."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while raw := await self.process.stdout.readline():
                self._keep(raw)
            await self._errors()
            return await self.process.wait()

    def _keep(self, raw: bytes) -> Line | None:
        try:
            line: Line = json.loads(raw)
        except ValueError:
            self.noise.append(raw.decode())
            return None
        self.lines.append(line)
        return line

    async def _errors(self) -> str:
        assert self.process.stderr is not None
        self.stderr += (await self.process.stderr.read()).decode()
        return self.stderr


@asynccontextmanager
async def agent(
    *command: str, cwd: Path, environment: Mapping[str, str], dialogue: bool = True
) -> AsyncIterator[AgentProcess]:
    """Run an agent; at the end it is killed if it still runs, and so is all that it started.

    Args:
        command: The program and its arguments.
        cwd: Where it works.
        environment: All of its environment; HOME must be the test's own, processes are found by it.
        dialogue: Whether its input is a pipe; otherwise it has none.
    """
    stdin = asyncio.subprocess.PIPE if dialogue else asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=dict(environment),
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
        start_new_session=True,
    )
    try:
        yield AgentProcess(process, Path(command[0]).name)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        # A killed agent leaves its tools behind, each in another process group.
        for pid in processes_of(environment):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Reads the pipes to their end, which closes them.
        await process.communicate()


class Program:
    """An agent program with its own home and working directory. It can be run many times."""

    def __init__(self, directory: Path, *command: str, api_url: str = NOWHERE, **more: str) -> None:
        self._command = command
        self.cwd = directory / "project"
        self.cwd.mkdir(parents=True)
        self.environment = agent_environment(directory, api_url) | more

    async def ask(self, prompt: str, *flags: str, status: int = 0) -> AgentProcess:
        """Run one prompt to its end, without input; it must exit with this status."""
        command = (*self._command, *STREAM_FLAGS, *flags, "--", prompt)
        starting = agent(*command, cwd=self.cwd, environment=self.environment, dialogue=False)
        async with starting as running:
            ended = await running.end()
        assert ended == status, (ended, running.stderr)
        return running

    def talk(self, *flags: str) -> AbstractAsyncContextManager[AgentProcess]:
        """Run it with lines in and lines out, for as many turns as there are messages."""
        command = (*self._command, *DIALOGUE_FLAGS, *flags)
        return agent(*command, cwd=self.cwd, environment=self.environment)

    @property
    def processes(self) -> set[int]:
        """The living processes that it has started."""
        return processes_of(self.environment)

    async def survivors(self) -> set[int]:
        """Return the processes that it has started and that do not end by themselves."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.gather(*(_ends(pid) for pid in self.processes))
        return self.processes


async def _ends(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def processes_of(environment: Mapping[str, str]) -> set[int]:
    """Return the living processes that were started with this HOME."""
    mark = f"HOME={environment['HOME']}".encode()
    pids = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                zombie = b") Z " in (entry / "stat").read_bytes()
                if not zombie and mark in (entry / "environ").read_bytes().split(b"\0"):
                    pids.add(int(entry.name))
    return pids
