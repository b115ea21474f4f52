"""How chats wait and end: with all that the agent says of it, by its silence, by a kill."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Context
from hubd.plexus.dispatch import Call
from hubd.plugins.claudecode.methods import retention
from tests.plugins.claudecode.chat_support import HANG, World, run, say, world
from tests.plugins.claudecode.daemon_support import daemon_and_caller
from tests.plugins.claudecode.protocol.test_messages import TRANSCRIPTS
from tests.support import PATIENCE_SECONDS, Collector


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "offline") as running:
        yield running


async def reciting_claude(here: World, monkeypatch: pytest.MonkeyPatch, transcript: str) -> None:
    """Start the hub anew with a `claude` that recites a transcript of the real one."""
    program = here.directory / "claude"
    lines = TRANSCRIPTS / transcript / "output.jsonl"
    program.write_text(f"#!/bin/sh\nread line\ncat {lines}\n")
    program.chmod(0o755)
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "claude")
    monkeypatch.setenv("HUBD_CLAUDECODE_PROGRAM", str(program))
    await here.stop()
    await here.start()


def result_line(transcript: str) -> dict[str, Any]:
    lines = map(json.loads, (TRANSCRIPTS / transcript / "output.jsonl").read_text().splitlines())
    [result] = [line for line in lines if line["type"] == "result"]
    return dict(result)


async def test_the_error_of_a_failed_chat_is_the_explanation_of_claude(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reciting_claude(here, monkeypatch, "max_turns")
    ended = await here.chat(prompt="go on")
    assert (ended.status, ended.error) == ("failed", "Reached maximum number of turns (1)")
    last = ended.events[-1]
    assert (last["type"], last["message"]) == ("error", ended.error)
    line = result_line("max_turns")
    for name in ("errors", "num_turns", "permission_denials", "modelUsage", "terminal_reason"):
        assert last["result"][name] == line[name]
    # The turn has the whole line.
    [tree] = await here.call("arbor.tree_get", tree_id=last_tree(ended.events))
    handles = [str(node["data"].get("handle")) for node in tree["tree"]["nodes"]]
    [turn] = [handle for handle in handles if "::turn:" in handle]
    resolved = await here.one("plexus.resolve_handle", handle=turn)
    assert resolved["data"]["data"]["results"] == [line]


def last_tree(events: list[dict[str, Any]]) -> str:
    return str(events[0]["turn_position"]["tree_id"])


async def test_a_complete_chat_reports_denied_tool_calls(here: World) -> None:
    ended = await here.chat(run("touch x"), say("so be it"))
    [denial] = ended.of("complete")[0]["result"]["permission_denials"]
    assert (denial["tool_name"], denial["tool_input"]["command"]) == ("Bash", "touch x")
    fine = await here.chat(say("hi"))
    assert fine.of("complete")[0]["result"]["permission_denials"] == []
    assert "result" not in fine.of("complete")[0]["result"], "the text is in the content events"


async def test_an_ephemeral_chat_reports_the_unchanged_head(here: World) -> None:
    for _ in range(2):
        ended = await here.chat(say("aside"), ephemeral=True)
        assert ended.of("complete")[0]["new_head"]["node_id"] == await here.head()
        moved = await here.chat(say("on"))
        head = await here.head()
        assert moved.of("complete")[0]["new_head"]["node_id"] == head
        assert ended.of("assistant_message")[0]["position"]["node_id"] != head


async def test_a_silent_agent_is_ended_and_its_chat_fails(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUBD_CLAUDECODE_SILENCE_SECONDS", "0.5")
    await here.stop()
    await here.start()
    ended = await here.chat(HANG)
    assert (ended.status, ended.error) == (
        "failed",
        "the agent printed nothing for 0.5 s",
    )
    assert await here.survivors() == set()
    monkeypatch.setenv("HUBD_CLAUDECODE_SILENCE_SECONDS", "3600")
    await here.stop()
    await here.start()
    assert (await here.chat(say("on"))).status == "complete"


async def test_a_queued_chat_reports_its_place(here: World) -> None:
    first = await here.begin(HANG)
    second = await here.begin(HANG)
    caller = Collector(Context(cwd=str(here.cwd), env=here.environment))
    params = {"name": "s", "prompt": "say: third"}
    waiting = asyncio.ensure_future(Call(here.hub, "claudecode.chat", params, caller).run())

    async def until_reported(message: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while message not in [item.get("message") for item in caller.items]:
                caller.arrived.clear()
                await caller.arrived.wait()

    await until_reported("queued behind 2 chats of this session")
    following = await here.items("claudecode.cancel", stream_id=first)
    assert following[0]["type"] == "data"
    await until_reported("queued behind 1 chat of this session")
    await here.one("cancel", stream_id=second)
    await waiting
    kinds = [item["type"] for item in caller.items]
    # Not once it runs.
    assert kinds == ["progress", "progress", *["data"] * (len(kinds) - 3), "done"]


async def test_removing_many_events_reports_progress(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "REPORT_SECONDS", 0)
    await here.chat(say("hi"))
    items = await here.items("claudecode.retention", days=0)
    assert [item["type"] for item in items] == ["progress", "data", "data", "done"]
    assert items[0]["message"] == f"removed {items[2]['content']['events']} events so far"


async def test_after_a_kill_the_text_so_far_is_an_event_and_secret_files_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon_and_caller(tmp_path, "offline", monkeypatch) as (daemon, caller, _):
        server = {"type": "http", "url": "http://127.0.0.1:9", "headers": {"X": "secret"}}
        params = {"name": "s", "model": "offline", "mcp_config": {"web": server}}
        prompt = "think: hm\nsay: said before\nhang:"
        [started] = await caller.call("chat_async", prompt=prompt, **params)
        output = ""
        async with caller.stream("follow", stream_id=started["stream_id"]) as items:
            async for item in items:
                event = item.get("content", {}).get("event", {})
                # The block before it is complete.
                if event.get("type") == "content_delta" and event["block_index"] == 2:
                    output = event["text"]
                    break
        await until_on_disk(daemon.home / "hub.db", output)
        private = daemon.home / "claudecode" / "private"
        [file] = private.rglob("mcp.json")
        assert "secret" in file.read_text()
        modes = [path.stat().st_mode & 0o777 for path in (private.parent, private, file.parent)]
        assert (modes, file.stat().st_mode & 0o777) == ([0o700] * 3, 0o600)
        daemon.kill()
        daemon.start()
        assert not private.exists()
        events = [record["event"] for record in await caller.records(started["stream_id"])]
        assert [event["type"] for event in events[-2:]] == ["content", "error"]
        cut = events[-2]
        assert (cut["text"], cut["complete"]) == (output, False)
        assert cut["block_index"] == 2
        daemon.stop()
        [block] = blocks_on_disk(daemon.home / "hub.db", output)
        assert (block["finished"], "growing" in block) == (False, False)


def blocks_on_disk(database: Path, text: str) -> list[dict[str, Any]]:
    """The blocks with this text."""
    sql = "SELECT data FROM claudecode_blobs WHERE data ->> '$.block.text' = ?"
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as reader:
        return [json.loads(data) for (data,) in reader.execute(sql, (text,))]


async def until_on_disk(database: Path, text: str) -> None:
    """Wait until a block that grows is flushed."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not blocks_on_disk(database, text):  # noqa: ASYNC110 -- another process writes it
            await asyncio.sleep(0)
