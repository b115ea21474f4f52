"""Processes that agents start, and the hub that they try to call. Everything is real."""

import asyncio
import json
import os
import select
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Activation, Actor, Event, method
from tests.mcp.support import MODERN, connected
from tests.process.support import linux_only
from tests.support import PATIENCE_SECONDS, Daemon, LineClient, environment, events_of

pytestmark = linux_only

CALLER = Path(__file__).with_name("hub_caller.py")
ALL_WAYS = ["unix", "websocket", "http", "page", "stdio", "synapse"]
# Those that start no further program.
QUICK_WAYS = ALL_WAYS[:4]


class Line(Event):
    text: str


class Seen(Event):
    kind: str
    id: str


class Agents(Activation, namespace="agents", version="1.0.0"):
    """Starts agents."""

    @method
    async def run(self, command: list[str], grants: list[str]) -> AsyncIterator[Line]:
        """Run a program as an agent with these grants, and stream its lines."""
        actor = Actor("session", "the-agent", tuple(grants))
        async with self.host.process(command, acts_as=actor) as child:
            async for line in child.lines():
                yield Line(text=line.decode())
            if await child.wait():
                yield Line(text=child.stderr_tail)

    @method
    async def run_as_caller(self, command: list[str]) -> AsyncIterator[Line]:
        """Run a program as the caller of this method, and stream its lines."""
        async with self.host.process(command) as child:
            async for line in child.lines():
                yield Line(text=line.decode())

    @method
    async def look(self) -> Seen:
        """Show the actor of the caller."""
        actor = self.host.client.actor
        return Seen(kind=actor.kind, id=actor.id)

    @method
    async def relay(self, to: str) -> Line:
        """Call a method without parameters, as the caller."""
        return Line(text=str(await self.host.call_one(to)))

    @method
    async def register(self, token: str) -> Line:
        """Register a session token."""
        actor = Actor("session", "of-a-token", ("agents.look",))
        self.host.register_token(token, actor)
        return Line(text="registered")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("agents"), "--plugin", f"{__name__}:Agents") as running:
        yield running


def command(daemon: Daemon, target: str, *ways: str, **params: Any) -> list[str]:
    program = [sys.executable, str(CALLER)]
    options = [way for way in ways if way.startswith("-") or "/" in way]
    rest = [way for way in ways if way not in options]
    return [*program, *options, str(daemon.home), target, json.dumps(params), *rest]


def run_as_agent(daemon: Daemon, line: list[str], *grants: str) -> dict[str, str]:
    events = events_of(daemon.home, "agents.run", command=line, grants=list(grants))
    assert len(events) == 1, events
    outcomes: dict[str, str] = json.loads(events[0]["text"])
    return outcomes


def refused(ways: list[str]) -> dict[str, str]:
    return dict.fromkeys(ways, "permission_denied")


def allowed(ways: list[str]) -> dict[str, str]:
    return dict.fromkeys(ways, "ok")


def test_an_agent_without_grants_is_refused_on_every_way(daemon: Daemon) -> None:
    line = command(daemon, "echo.once", *ALL_WAYS, message="hi")
    assert run_as_agent(daemon, line) == refused(ALL_WAYS)


def test_an_agent_may_call_exactly_the_granted_methods(daemon: Daemon) -> None:
    line = command(daemon, "echo.once", *ALL_WAYS, message="hi")
    assert run_as_agent(daemon, line, "echo.once") == allowed(ALL_WAYS)
    for target in ("echo.ping", "agents.look", "plexus.activations", "plexus.no_such", "no.such"):
        line = command(daemon, target, "unix")
        assert run_as_agent(daemon, line, "echo.once") == refused(["unix"]), target


def test_a_granted_method_cannot_reach_others(daemon: Daemon) -> None:
    grants = ("agents.relay", "echo.ping")
    for target, expected in (("echo.ping", "ok"), ("health.check", "permission_denied")):
        line = command(daemon, "agents.relay", *QUICK_WAYS, to=target)
        assert run_as_agent(daemon, line, *grants) == dict.fromkeys(QUICK_WAYS, expected)


def test_a_detached_process_stays_in_the_tree(daemon: Daemon) -> None:
    line = command(daemon, "echo.once", "--detach", *QUICK_WAYS, message="hi")
    assert run_as_agent(daemon, line) == refused(QUICK_WAYS)
    assert run_as_agent(daemon, line, "echo") == allowed(QUICK_WAYS)
    assert run_as_agent(daemon, ["nohup", *line]) == refused(QUICK_WAYS)
    # The shell adopts the process; setsid would take it for its own child.
    shell = ["env", "-i", "sh", "-c", 'setsid -w "$@"; true', "sh"]
    assert run_as_agent(daemon, [*shell, *line]) == refused(QUICK_WAYS)


def test_a_process_that_outlives_its_agent_is_refused(daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "outcomes"
    os.mkfifo(file)
    descriptor = os.open(file, os.O_RDWR)
    line = command(daemon, "echo.once", "--leave", str(file), *QUICK_WAYS, message="hi")
    # It ends without output. The process that it left writes to the file.
    assert events_of(daemon.home, "agents.run", command=line, grants=["*"]) == []
    assert select.select([descriptor], [], [], PATIENCE_SECONDS)[0]
    outcomes = json.loads(os.read(descriptor, 4096))
    os.close(descriptor)
    # A connection from before the end is closed.
    assert "the agent that started this process has ended" in outcomes.pop("kept")
    assert outcomes == refused(QUICK_WAYS)


def test_a_program_acts_as_the_caller_of_its_method(daemon: Daemon) -> None:
    line = command(daemon, "echo.once", *QUICK_WAYS, message="hi")
    [event] = events_of(daemon.home, "agents.run_as_caller", command=line)
    assert json.loads(event["text"]) == allowed(QUICK_WAYS)
    # An agent's program acts as the agent.
    inner = command(daemon, "health.check", "unix")
    nested = command(daemon, "agents.run_as_caller", "unix", command=inner)
    assert run_as_agent(daemon, nested, "agents") == allowed(["unix"])


async def look(client: LineClient) -> dict[str, str]:
    [item, _] = await client.call("agents.look")
    content: dict[str, str] = item["content"]
    return content


async def test_people_are_not_affected_by_an_agent_beside_them(daemon: Daemon) -> None:
    waits = ["sh", "-c", "echo ready; exec tail -f /dev/null"]
    async with daemon.client() as agent, daemon.client() as person:
        params = {"command": waits, "grants": []}
        await agent.send("plexus.call", {"method": "agents.run", "params": params})
        while "ready" not in str(await agent.receive()):
            pass
        assert await look(person) == {"type": "seen", "kind": "person", "id": ""}
        async with daemon.client() as another:
            assert (await look(another))["kind"] == "person"
        line = command(daemon, "echo.once", *ALL_WAYS, message="hi")
        own = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
        output, _ = await asyncio.wait_for(own.communicate(), PATIENCE_SECONDS)
        assert json.loads(output) == allowed(ALL_WAYS)


async def test_mcp_clients_are_known_by_their_process(daemon: Daemon) -> None:
    actors = []
    for transport in ("http", "stdio"):
        async with connected(daemon, transport, MODERN) as client:
            result = await client.call_tool("agents.look", {})
            assert result.structured_content is not None
            actors += result.structured_content["events"]
    assert actors[0]["kind"] == "client"
    assert actors[0]["id"].startswith(f"process:{os.getpid()}@")
    # The same program, whichever way it connects.
    assert actors[0] == actors[1]


async def test_mcp_shows_an_agent_exactly_its_tools(daemon: Daemon) -> None:
    line = command(daemon, "echo", "list")
    grants = ["echo.once", "agents.lo*", "plexus.search", "solar.earth"]
    events = events_of(daemon.home, "agents.run", command=line, grants=grants)
    listed = json.loads(events[0]["text"])
    earth = ["solar.earth.info", "solar.earth.luna.info"]
    assert listed["tools"] == ["agents.look", "echo.once", "plexus.search", *earth]
    # The schema of a namespace shows the granted methods, and is readable for those only.
    assert listed["schemas"] == [
        "agents",
        "echo",
        "plexus",
        "solar",
        "solar.earth",
        "solar.earth.luna",
    ]
    assert listed["methods of echo"] == ["once"]
    assert listed["prompts"] == []


def test_a_token_makes_its_process_an_agent(daemon: Daemon) -> None:
    token = "a-token-for-one-program"
    events_of(daemon.home, "agents.register", token=token)
    line = command(daemon, "agents.look", "http", "unix", "websocket")
    environ = {**environment(), "CALLER_TOKEN": token}
    output = subprocess.run(line, env=environ, capture_output=True, check=True).stdout
    # After the first connection, the process has the same actor on all others.
    assert json.loads(output) == allowed(["http", "unix", "websocket"])
    line = command(daemon, "echo.ping", "http", "unix", "websocket")
    output = subprocess.run(line, env=environ, capture_output=True, check=True).stdout
    assert json.loads(output) == refused(["http", "unix", "websocket"])


def test_an_agent_does_not_become_another_one_by_a_token(daemon: Daemon) -> None:
    token = "a-token-for-one-program"
    events_of(daemon.home, "agents.register", token=token)
    line = ["env", f"CALLER_TOKEN={token}", *command(daemon, "agents.look", *ALL_WAYS[:5])]
    assert run_as_agent(daemon, line) == refused(ALL_WAYS[:5])


def test_an_unknown_token_is_refused(daemon: Daemon) -> None:
    environ = {**environment(), "CALLER_TOKEN": "unknown"}
    line = command(daemon, "echo.ping", "http", "websocket", "stdio")
    output = subprocess.run(line, env=environ, capture_output=True, check=True).stdout
    outcomes = json.loads(output)
    assert outcomes["http"] == outcomes["websocket"] == "401"
    assert "not registered" in outcomes["stdio"]
