"""Agents that start agents: each question reaches the right one, and none answers its own."""

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.claudecode.chat_support import (
    ENGINES,
    EngineName,
    Event,
    asking,
    run,
    say,
)
from tests.plugins.loopback.support import Desk, desk, events_in
from tests.process.support import linux_only
from tests.process.test_agents import ALL_WAYS, CALLER, QUICK_WAYS, refused
from tests.support import PATIENCE_SECONDS, few

pytestmark = linux_only

PARENT_GRANTS = ["claudecode.chat_async", "claudecode.poll", "loopback.*"]


def calls(*tools: tuple[str, dict[str, Any]]) -> str:
    """The prompt that makes the real claude call these tools, one after another."""
    return " ".join(
        f"TOOLS[{json.dumps({'name': f'mcp__plexus__{name}', 'input': given})}]"
        for name, given in tools
    )


@pytest.mark.claude
async def test_a_real_claude_with_grants_approves_the_call_of_its_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "claude", monkeypatch) as person:
        child = {
            "name": "child",
            "prompt": asking("offline", run("echo x >> ran"), say("Ready.")),
            "model": "offline",
            "working_dir": str(person.cwd),
        }
        prompt = calls(
            ("claudecode_chat_async", child),
            ("loopback_wait_for_approval", {"timeout_secs": 10}),
            ("loopback_respond", {"approval_id": "$APPROVAL", "approve": True}),
        )
        stream = await person.begin(
            name="parent",
            prompt=prompt,
            grants=PARENT_GRANTS,
            allowed_tools=["mcp__plexus"],
        )
        end = await person.ended(stream)
        assert end["status"] == "complete", end
        results = events_in(end, "tool_result")
        assert [result["is_error"] for result in results] == [False] * 3, results
        [row] = (await person.one("claudecode.streams", name="child"))["streams"]
        finished = await person.ended(row["stream_id"])
        assert finished["status"] == "complete"
        [resolved] = events_in(finished, "approval_resolved")
        parent = (await person.one("claudecode.get", name="parent"))["session"]
        assert resolved["by"] == f"session:{parent['id']}"
        assert person.lines_in() == 1


async def test_a_grandparent_answers_for_a_session_that_its_child_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three generations of offline agents, each started by a command of the one before."""
    async with desk(tmp_path, "offline", monkeypatch) as person:
        granted = ["claudecode.chat_async", "loopback.pending", "loopback.respond"]

        def start(name: str, prompt: str) -> str:
            params: dict[str, Any] = {
                "name": name,
                "prompt": prompt,
                "model": "offline",
                "working_dir": str(person.cwd),
            }
            if name == "middle":
                params |= {"allowed_tools": ["Bash"], "grants": granted}
            return tries(person, "claudecode.chat_async", "unix", **params)

        async def chat(name: str, command: str) -> Event:
            stream = await person.begin(
                run(command), name=name, allowed_tools=["Bash"], grants=granted
            )
            [result] = events_in(await person.ended(stream), "tool_result")
            event: Event = json.loads(result["output"])
            return event

        asks = asking("offline", run("echo x >> ran"), say("Ready."))
        begins = asking("offline", run(start("youngest", asks)))
        assert await chat("eldest", start("middle", begins)) == {"unix": "ok"}
        async with asyncio.timeout(PATIENCE_SECONDS):
            rows: list[Event] = []
            while not rows:
                # The person is not asked yet, so nothing would wake a wait.
                rows = (await person.one("loopback.pending", all=True))["approvals"]
        [approval] = rows
        assert approval["session_name"] == "youngest"
        # Its ancestors are asked, and people only after a while.
        assert (await person.one("loopback.pending"))["approvals"] == []
        answer = {"approval_id": approval["id"], "approve": True}
        stranger = tries(person, "loopback.respond", "unix", **answer)
        assert await outcomes(person, stranger, grants=granted) == refused(["unix"])
        assert await chat("eldest", stranger) == {"unix": "ok"}
        [row] = (await person.one("claudecode.streams", name="youngest"))["streams"]
        end = await person.ended(row["stream_id"])
        assert end["status"] == "complete"
        eldest = (await person.one("claudecode.get", name="eldest"))["session"]["id"]
        [resolved] = events_in(end, "approval_resolved")
        assert resolved["by"] == f"session:{eldest}"
        assert person.lines_in() == 1


def tries(person: Desk, method: str, /, *ways: str, **params: Any) -> str:
    """The command of an agent that calls the hub in several ways."""
    options = [way for way in ways if way.startswith("-")]
    rest = [way for way in ways if way not in options]
    call = [str(person.daemon.home), method, json.dumps(params)]
    return shlex.join([sys.executable, str(CALLER), *options, *call, *rest])


async def outcomes(person: Desk, command: str, **options: Any) -> Event:
    """What an agent's command prints."""
    stream = await person.begin(run(command), allowed_tools=["Bash"], name="insider", **options)
    end = await person.ended(stream)
    [result] = events_in(end, "tool_result")
    event: Event = json.loads(result["output"])
    return event


async def printed(person: Desk, commands: list[str], **options: Any) -> list[Event]:
    """What an agent's commands print, which it runs in one shell."""
    (person.cwd / "commands.sh").write_text("\n".join(commands))
    stream = await person.begin(
        run("sh commands.sh 2>/dev/null"), allowed_tools=["Bash"], name="insider", **options
    )
    end = await person.ended(stream)
    [result] = events_in(end, "tool_result")
    return [json.loads(line) for line in result["output"].splitlines()]


@pytest.mark.parametrize("engine", few(ENGINES[::-1], 1))
async def test_an_agent_answers_neither_its_own_approval_nor_that_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName
) -> None:
    async with desk(tmp_path, engine, monkeypatch) as person:
        waiting = await person.one(
            "claudecode.chat_async",
            name="waiting",
            prompt=asking("offline", run("echo x >> ran")),
            model="offline",
        )
        stream = waiting["stream_id"]
        approval = await person.pending(stream)
        answer = {"approval_id": approval["id"], "approve": True}
        respond = tries(person, "loopback.respond", *ALL_WAYS, **answer)
        detached = tries(person, "loopback.respond", "--detach", *QUICK_WAYS, **answer)
        # The shell adopts the process; setsid would take it for its own child.
        in_a_session = f"env -i sh -c 'setsid -w \"$@\"; true' sh {detached}"
        rule = {"effect": "allow", "tool": "Bash"}
        chat = {"name": "child", "prompt": "hi", "model": "offline"}
        others: list[tuple[str, dict[str, Any]]] = [
            ("loopback.rules_add", rule),
            ("loopback.pending", {}),
            ("claudecode.list", {}),
            ("claudecode.chat_async", chat),
            ("echo.once", {"message": "hi"}),
        ]
        assert await printed(
            person,
            [
                *(respond, detached, f"nohup {detached}", f"nohup {respond}", in_a_session),
                *(tries(person, method, *QUICK_WAYS, **params) for method, params in others),
            ],
            grants=[],
        ) == [
            *map(refused, (ALL_WAYS, QUICK_WAYS, QUICK_WAYS, ALL_WAYS, QUICK_WAYS)),
            *[refused(QUICK_WAYS)] * len(others),
        ]
        # With a grant it may call the method, but it is still not its approval.
        assert await printed(person, [respond], grants=["loopback.respond"]) == [refused(ALL_WAYS)]
        page = await person.one("claudecode.poll", stream_id=stream, from_seq=0)
        assert page["status"] == "awaiting_permission"
        assert (await person.one("loopback.rules_list"))["rules"] == []
        await person.answer(approval, False)


@pytest.mark.parametrize("engine", few(ENGINES[::-1], 1))
async def test_a_detached_process_of_an_agent_cannot_answer_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName
) -> None:
    """The agent leaves a process behind that answers the agent's next question."""
    async with desk(tmp_path, engine, monkeypatch) as person:
        # It waits for the id, then calls the hub and leaves what it got.
        (person.cwd / "later.py").write_text(
            "import os, pathlib, subprocess, sys, time\n"
            # Detached when the command of the agent ends.
            "readable, writable = os.pipe()\n"
            "if os.fork():\n"
            "    os.read(readable, 1)\n"
            "    os._exit(0)\n"
            "os.setsid()\n"
            "if os.fork():\n"
            "    os._exit(0)\n"
            "for stream in (0, 1, 2):\n"
            "    os.dup2(os.open(os.devnull, os.O_RDWR), stream)\n"
            "os.write(writable, b'x')\n"
            "while not pathlib.Path('call.json').exists():\n"
            "    time.sleep(0.02)\n"
            f"command = [sys.executable, {str(CALLER)!r}, {str(person.daemon.home)!r}]\n"
            "params = pathlib.Path('call.json').read_text()\n"
            "command += ['loopback.respond', params, 'unix', 'websocket', 'http', 'page']\n"
            "tried = subprocess.run(command, capture_output=True, text=True)\n"
            "pathlib.Path('new').write_text(tried.stdout or tried.stderr)\n"
            "pathlib.Path('new').rename('tried')\n"
        )
        detached = f"{sys.executable} later.py"
        stream = await person.begin(
            run(detached),
            run("echo x >> ran"),
            say("Ready."),
            grants=["loopback.respond"],
        )
        approval = await person.pending(stream)
        assert approval["input"]["command"] == detached
        await person.answer(approval)
        approval = await person.next_pending(stream, approval)
        call = person.cwd / "call"
        call.write_text(json.dumps({"approval_id": approval["id"], "approve": True}))
        call.rename(person.cwd / "call.json")
        tried = person.cwd / "tried"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not tried.exists():  # noqa: ASYNC110  written by another process
                await asyncio.sleep(0.02)
        assert json.loads(tried.read_text()) == refused(QUICK_WAYS)
        assert person.lines_in() == 0
        await person.answer(approval)
        assert (await person.ended(stream))["status"] == "complete"
        assert person.lines_in() == 1


async def test_a_session_gets_no_more_than_its_starter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        grants = ["claudecode.chat_async", "echo"]
        more: tuple[dict[str, Any], ...] = (
            {"grants": ["loopback.respond"]},
            {"allowed_tools": ["Write"]},
            {"permission_mode": "bypassPermissions"},
            {"loopback_enabled": False},
        )
        for options in more:
            params = {"name": "child", "prompt": "hi", "model": "offline", **options}
            command = tries(person, "claudecode.chat_async", "unix", **params)
            outcomes_by_call = await outcomes(person, command, grants=grants)
            assert outcomes_by_call == {"unix": "permission_denied"}, options
        params = {"name": "child", "prompt": "hi", "model": "offline", "grants": ["echo.once"]}
        command = tries(person, "claudecode.chat_async", "unix", **params)
        assert await outcomes(person, command, grants=grants) == {"unix": "ok"}
        child = (await person.one("claudecode.get", name="child"))["session"]
        assert child["approver"] == "parent_then_human"
