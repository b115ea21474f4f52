"""Parents that answer the approvals of the sessions they started, over MCP."""

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.mcp.support import ERAS, MODERN, TRANSPORTS, Era, Transport, connected
from tests.plugins.claudecode.chat_support import ENGINES, EngineName, asking, run, say
from tests.plugins.loopback.support import OPEN, Desk, desk, events_in
from tests.support import PATIENCE_SECONDS, few

Event = dict[str, Any]


async def events(client: Client, tool: str, /, **arguments: Any) -> list[Event]:
    """The events of a tool call that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    event: list[Event] = result.structured_content["events"]
    return event


async def one(client: Client, tool: str, /, **arguments: Any) -> Event:
    """The only event of a tool call."""
    [event] = await events(client, tool, **arguments)
    return event


def parent_of(person: Desk, transport: Transport) -> AbstractAsyncContextManager[Client]:
    """An MCP client. Over stdio, the environment of `hubd mcp` is that of its chats."""
    if transport == "http":
        return connected(person.daemon, transport, MODERN)
    return connected(person.daemon, transport, MODERN, env=person.environment)


async def refusal(client: Client, tool: str, /, **arguments: Any) -> str:
    """The text of a tool call that must fail."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return json.dumps([block.model_dump(mode="json") for block in result.content])


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("engine", few(ENGINES[::-1], 1))
async def test_a_parent_starts_polls_answers_and_polls_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName, transport: Transport
) -> None:
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        desk(tmp_path, engine, monkeypatch) as person,
        parent_of(person, transport) as parent,
    ):
        prompt = asking(engine, say("I will run it."), run("echo x >> ran"), say("Ready."))
        model = {"model": "offline"} if engine == "offline" else {}
        started = await one(
            parent,
            "claudecode.chat_async",
            name="child",
            prompt=prompt,
            working_dir=str(person.cwd),
            **model,
        )
        assert started["type"] == "started"
        seen: list[Event] = []
        page: Event = {"status": "running", "pending_approvals": [], "has_more": False}
        # A page may show an approval whose event is on the next page.
        while not page["pending_approvals"] or page["has_more"]:
            page = await one(
                parent,
                "claudecode.poll",
                stream_id=started["stream_id"],
                consumer="parent",
                wait_ms=2000,
            )
            seen += page["events"]
        assert page["status"] == "awaiting_permission"
        types = [record["event"]["type"] for record in seen]
        assert types[:2] == ["start", "user_message"]
        assert "awaiting_approval" in types
        [approval] = (await one(parent, "loopback.pending"))["approvals"]
        assert approval["id"] == page["pending_approvals"][0]["id"]
        assert approval["approver"] == "parent_then_human"
        # A person is not asked before the escalation.
        assert (await person.one("loopback.pending"))["approvals"] == []
        answered = await one(parent, "loopback.respond", approval_id=approval["id"], approve=True)
        assert answered["type"] == "ok"
        while page["status"] in ("running", "awaiting_permission") or page["has_more"]:
            page = await one(
                parent,
                "claudecode.poll",
                stream_id=started["stream_id"],
                consumer="parent",
                wait_ms=2000,
            )
            seen += page["events"]
        assert page["status"] == "complete"
        assert [record["seq"] for record in seen] == list(range(len(seen)))
        types = [record["event"]["type"] for record in seen]
        rest = types[types.index("approval_resolved") :]
        assert [kind for kind in rest if kind in ("tool_result", "content", "complete")] == [
            "tool_result",
            "content",
            "complete",
        ]
        handles = [record["event"]["handle"] for record in seen]
        resolved = await events(parent, "plexus.resolve_handle", handle=handles)
        assert [entry["type"] for entry in resolved] == ["resolved"] * len(handles)
        assert person.lines_in() == 1


@pytest.mark.parametrize("engine", few(ENGINES[::-1], 1))
async def test_a_blocking_chat_over_mcp_returns_with_the_pending_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName
) -> None:
    async with (
        # Twenty starts of `claude` at once take their time.
        asyncio.timeout((2 if engine == "offline" else 12) * PATIENCE_SECONDS),
        desk(tmp_path, engine, monkeypatch) as person,
        parent_of(person, "stdio") as parent,
    ):
        model = {"model": "offline"} if engine == "offline" else {}

        async def child(number: int) -> None:
            prompt = asking(engine, run(f"echo x >> ran{number}"), say("Ready."))
            event = await events(
                parent,
                "claudecode.chat",
                name=f"child{number}",
                prompt=prompt,
                working_dir=str(person.cwd),
                **model,
            )
            last = event[-1]
            assert last["type"] == "pending"
            [approval] = last["pending_approvals"]
            assert approval["input"]["command"] == f"echo x >> ran{number}"
            await one(parent, "loopback.respond", approval_id=approval["id"], approve=True)
            page: Event = {"status": "running", "has_more": True, "read_position": 0}
            seen: list[Event] = []
            while page["status"] in OPEN or page["has_more"]:
                page = await one(
                    parent,
                    "claudecode.poll",
                    stream_id=last["stream_id"],
                    from_seq=page["read_position"],
                    wait_ms=2000,
                )
                seen += page["events"]
            assert page["status"] == "complete", page
            assert [record["seq"] for record in seen] == list(range(page["total_events"]))
            types = [record["event"]["type"] for record in seen]
            assert types[-1] == "complete"
            assert types.count("awaiting_approval") == types.count("tool_result") == 1
            assert person.lines_in(f"ran{number}") == 1

        await asyncio.gather(*map(child, range(20)))


@pytest.mark.parametrize("era", ERAS)
async def test_another_client_may_not_answer_and_people_are_asked_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: Era
) -> None:
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        desk(tmp_path, "offline", monkeypatch) as person,
        connected(person.daemon, "stdio", era) as parent,
    ):
        prompt = asking("offline", run("echo x >> ran"), say("Ready."))
        started = await one(
            parent,
            "claudecode.chat_async",
            name="child",
            prompt=prompt,
            model="offline",
            approver="parent_then_human",
            escalate_secs=1,
            working_dir=str(person.cwd),
        )
        approval = await person.pending(started["stream_id"])
        # This one's `hubd mcp` has the same parent process, so it is the same client; one that a
        # session started is another.
        waited = await person.one("loopback.wait_for_approval", timeout_secs=20)
        assert [row["id"] for row in waited["approvals"]] == [approval["id"]]
        await person.answer(approval)
        end = await person.ended(started["stream_id"])
        assert end["status"] == "complete"


async def test_an_agent_cannot_change_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        desk(tmp_path, "offline", monkeypatch) as person,
        connected(person.daemon, "stdio", MODERN) as parent,
    ):
        rule = {"effect": "allow", "tool": "Bash", "pattern": "echo *"}
        assert "permission_denied" in await refusal(parent, "loopback.rules_add", **rule)
        added = await person.one("loopback.rules_add", **rule)
        removal = {"rule_id": added["id"]}
        assert "permission_denied" in await refusal(parent, "loopback.rules_remove", **removal)
        started = await one(
            parent,
            "claudecode.chat_async",
            name="child",
            prompt=asking("offline", run("touch ran"), run("touch ran"), say("Ready.")),
            model="offline",
            working_dir=str(person.cwd),
        )
        approval = await person.pending(started["stream_id"])
        answer = {"approval_id": approval["id"], "approve": True}
        text = await refusal(parent, "loopback.respond", **answer, remember="always")
        assert "permission_denied" in text
        # For the child's session it may: the second call is not asked about any more.
        await one(parent, "loopback.respond", **answer, remember="session")
        end = await person.ended(started["stream_id"])
        deciders = [event["by"].partition(":")[0] for event in events_in(end, "approval_resolved")]
        assert deciders == ["client", "rule"]


async def test_an_agent_cannot_start_a_session_without_approvals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        desk(tmp_path, "offline", monkeypatch) as person,
        connected(person.daemon, "stdio", MODERN) as parent,
    ):
        text = await refusal(
            parent,
            "claudecode.chat_async",
            name="child",
            prompt="hi",
            model="offline",
            loopback_enabled=False,
            working_dir=str(person.cwd),
        )
        assert "permission_denied" in text
