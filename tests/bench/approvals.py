"""The times of approvals: an answer's way to the agent, and a question that a rule decides.

`python -m tests.bench.approvals`
"""

import asyncio
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from hubd.activation import Actor
from hubd.plexus import lifecycle
from hubd.plexus.discovery import Source
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.plexus.root import build_hub
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.storage import ids
from hubd.storage.database import Database
from tests.plugins.claudecode.scripted_chat import begin_chat
from tests.support import call_events

ANSWERS = 100
QUESTIONS = 300
PLUGINS = (
    "hubd.plugins.arbor.plugin:Arbor",
    "hubd.plugins.claudecode.plugin:ClaudeCode",
    "hubd.plugins.loopback.plugin:Loopback",
)


def agent(count: int, file: Path) -> list[str]:
    """The command of the agent."""
    return [sys.executable, "-m", "tests.bench.asking_agent", str(count), str(file)]


def show(title: str, seconds: list[float]) -> None:
    """Print the median and the 95th percentile in milliseconds."""
    values = sorted(each * 1000 for each in seconds)
    late = values[int(len(values) * 0.95)]
    print(f"  {title:<44} p50 {statistics.median(values):7.2f} ms   p95 {late:7.2f} ms")


async def heard(file: Path, number: int) -> float:
    """Wait until the agent has noted its answer with a number; the time in seconds."""
    while True:
        times = file.read_text().splitlines() if file.exists() else []
        if len(times) > number:
            return int(times[number]) / 1e9
        await asyncio.sleep(0.001)


async def bare_pipe(directory: Path) -> list[float]:
    """The times from a write to a pipe to the reader's next statement."""
    file = directory / "bare"
    child = await asyncio.create_subprocess_exec(
        *agent(0, file), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    assert child.stdin is not None
    seconds = []
    for number in range(ANSWERS):
        began = time.monotonic()
        child.stdin.write(b'{"type":"control_response"}\n')
        await child.stdin.drain()
        seconds.append(await heard(file, number) - began)
    child.stdin.close()
    await child.wait()
    return seconds


async def answers(hub: Hub, directory: Path) -> list[float]:
    """The times from the call of `respond` to the moment at which the agent has the answer."""
    file = directory / "heard"
    [started] = await call_events(
        hub, "claudecode.chat_async", name="s", prompt="go", working_dir=str(directory)
    )
    seconds = []
    for number in range(ANSWERS):
        [page] = await call_events(hub, "loopback.wait_for_approval", timeout_secs=20)
        [approval] = page["approvals"]
        began = time.monotonic()
        await call_events(hub, "loopback.respond", approval_id=approval["id"], approve=True)
        seconds.append(await heard(file, number) - began)
    await call_events(hub, "claudecode.follow", stream_id=started["stream_id"])
    return seconds


async def measured(work: Callable[[int], Awaitable[object]]) -> list[float]:
    """The time of each repetition."""
    seconds = []
    for number in range(QUESTIONS):
        began = time.perf_counter()
        await work(number)
        seconds.append(time.perf_counter() - began)
    return seconds


async def rules(hub: Hub, host: PlexusHost, plugin: ClaudeCode) -> tuple[list[float], list[float]]:
    """The times of one commit, and of questions of a chat that a rule allows."""
    await call_events(hub, "loopback.rules_add", effect="allow", tool="Bash", pattern="git *")
    chat = await begin_chat(plugin, "rules")
    session = Actor("session", ids.text(chat.session.id))

    async def commit(number: int) -> None:
        await plugin.db.transaction(
            lambda tx: tx.raw.execute(
                "UPDATE claudecode_sessions SET updated_at = ? WHERE key = ?",
                (number, chat.session.key),
            )
        )

    async def ask(number: int) -> None:
        with host.acting(session):
            decision = await host.call_one(
                "loopback.permit",
                tool_name="Bash",
                input={"command": f"git log -{number}"},
                tool_use_id=f"toolu_{number}",
            )
        assert decision["behavior"] == "allow", decision

    return await measured(commit), await measured(ask)


async def main() -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        program = directory / "claude"
        command = shlex.join(agent(ANSWERS, directory / "heard"))
        program.write_text(f'#!/bin/sh\ncd {shlex.quote(str(Path.cwd()))}\nexec {command} "$@"\n')
        program.chmod(0o755)
        section = {"program": str(program), "engine": "claude"}
        async with Database(directory / "hub.db") as database:
            hub = build_hub(database=database, settings={"claudecode": section})
            host = PlexusHost(hub)
            async with lifecycle.plugins(hub, host, [Source(each, "bench") for each in PLUGINS]):
                print(f"an answer, from `respond` to the agent ({ANSWERS} answers)")
                show("bare pipe", await bare_pipe(directory))
                show("respond", await answers(hub, directory))
                plugin = hub.find(["claudecode"]).activation
                assert isinstance(plugin, ClaudeCode)
                commits, questions = await rules(hub, host, plugin)
                print(f"a question that a rule decides ({QUESTIONS} questions)")
                show("one commit", commits)
                show("permit", questions)
                beyond = statistics.median(questions) - statistics.median(commits)
                print(f"  permit beyond the commit: {beyond * 1000:.2f} ms  (target: under 5 ms)")


if __name__ == "__main__":
    asyncio.run(main())
