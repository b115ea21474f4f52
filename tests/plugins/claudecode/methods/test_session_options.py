"""Options that a chat gives for a session that exists: they count from it on, or are refused."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Context
from hubd.plexus.dispatch import Call
from hubd.plugins.claudecode.options import HIDDEN, public
from hubd.process.environment import child_environment
from tests.fakes.agent_process import claude_program
from tests.plugins.claudecode.chat_support import (
    HANG,
    Event,
    Failure,
    World,
    run,
    say,
    stand_in_program,
    world,
)
from tests.support import Collector

SECRET = "sk-very-secret"


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "offline") as running:
        yield running


async def with_both_agents(here: World, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Start the hub anew, as where `claude` is this program and nothing else is configured."""
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "auto")
    monkeypatch.setenv("HUBD_CLAUDECODE_PROGRAM", program)
    await here.stop()
    await here.start()


def changes_named(items: list[Event]) -> str:
    """The names after the colon of the guidance about changed options."""
    [advice] = [item["suggestion"] for item in items if item.get("error_type") == "options_changed"]
    return str(advice).rpartition(": ")[2]


async def test_options_of_an_existing_session_change_with_the_chat_that_gives_them(
    here: World,
) -> None:
    denied = await here.chat(run("echo done"))
    assert denied.of("tool_result")[0]["is_error"] is True
    ask = {"name": "s", "prompt": "run: echo done"}
    given: dict[str, Any] = {"allowed_tools": ["Bash"], "system_prompt": "be brief"}
    items = await here.items("claudecode.chat", **ask, **given, loopback_enabled=True)
    assert changes_named(items) == "system_prompt, loopback_enabled, allowed_tools"
    results = [item["content"] for item in items if item["type"] == "data"]
    assert [each["output"] for each in results if each["type"] == "tool_result"] == ["done"]
    session = await here.one("get", name="s")
    assert session["options"] == {**given, "loopback_enabled": True}
    # They stay, and a chat that gives the same, or none, changes nothing.
    for options in ({}, given):
        items = await here.items("claudecode.chat", **ask, **options)
        assert [item["type"] for item in items if item["type"] == "guidance"] == []
    assert (await here.one("get", name="s"))["options"] == session["options"]
    # False and nothing at all are values too.
    items = await here.items("claudecode.chat", **ask, allowed_tools=[], loopback_enabled=False)
    assert changes_named(items) == "loopback_enabled, allowed_tools"
    assert (await here.session())["loopback_enabled"] is False


async def test_a_queued_chat_keeps_its_options(here: World) -> None:
    first = await here.begin(HANG)
    allowed = await here.begin(run("echo done"), allowed_tools=["Bash"])
    denied = await here.begin(run("echo done"), allowed_tools=[])
    await here.one("cancel", stream_id=first)
    [result] = (await here.end_of(allowed)).of("tool_result")
    assert (result["output"], result["is_error"]) == ("done", False)
    assert (await here.end_of(denied)).of("tool_result")[0]["is_error"] is True


async def test_another_working_directory_is_refused(here: World, tmp_path: Path) -> None:
    await here.chat(say("hi"))
    (tmp_path / "link").symlink_to(here.cwd)
    for same in (".", str(here.cwd), str(tmp_path / "link")):
        assert (await here.chat(say("hi"), working_dir=same)).status == "complete"
    with pytest.raises(Failure, match="conflict: session 's' works in "):
        await here.chat(say("hi"), working_dir=str(tmp_path))
    for unusable in ("x" * 300, "/a" * 3000, "a\0b", "~no-such-user-here", "missing"):
        for name in ("s", "new"):
            with pytest.raises(Failure) as caught:
                await here.chat(say("hi"), name=name, working_dir=unusable)
            assert caught.value.code == "invalid_params"
    assert len((await here.one("list"))["sessions"]) == 1


async def test_a_model_that_would_start_another_program_is_refused(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_both_agents(here, monkeypatch, stand_in_program(here.directory))
    await here.chat(prompt="say: hi", model="offline")
    with pytest.raises(Failure, match="conflict: session 's' runs on the offline agent, but model"):
        await here.chat(prompt="say: hi", model="opus")
    await here.one("create", name="asked for claude", model="opus")
    with pytest.raises(Failure, match="runs on claude, but model 'offline'"):
        await here.chat(prompt="say: hi", name="asked for claude", model="offline")
    # As soon as a chat was accepted, even if it has not begun.
    running = await here.begin(HANG, name="without a model")
    with pytest.raises(Failure, match="runs on claude, but model 'offline'"):
        await here.chat(prompt="say: hi", name="without a model", model="offline")
    await here.one("cancel", stream_id=running)
    started = [row["session_id"] for row in await here.streams()]
    assert len(started) == 2, "a refused chat leaves no stream"
    assert (await here.session("asked for claude"))["model"] == "opus"
    # Without the model the session goes on as before.
    assert (await here.chat(prompt="say: hi")).events[0]["engine"] == "offline"


@pytest.mark.soak
async def test_claude_gets_the_new_system_prompt_and_its_model_is_shown(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_both_agents(here, monkeypatch, claude_program())
    await here.chat(prompt="SAY[one]", system_prompt="you are a PIRATE")
    assert "PIRATE" in json.dumps(here.api.requests[-1].body)
    session = await here.one("get", name="s")
    assert "model" not in session["options"]
    assert session["session"]["model"] == here.api.requests[-1].body["model"]
    await here.chat(prompt="SAY[two]", system_prompt="you are a ROBOT", model="sonnet")
    sent = here.api.requests[-1].body
    assert ("PIRATE" in json.dumps(sent), "ROBOT" in json.dumps(sent)) == (False, True)
    assert "sonnet" in sent["model"]
    assert "SAY[one]" in json.dumps(sent["messages"])
    assert (await here.session())["model"] == "sonnet"


# Secrets


async def test_secrets_of_mcp_servers_are_stored_and_not_returned(here: World) -> None:
    config = {
        "web": {
            "type": "http",
            "url": f"http://user:{SECRET}@127.0.0.1:9/mcp?token={SECRET}&mode=x",
            "headers": {"Authorization": f"Bearer {SECRET}"},
        },
        "local": {"command": "true", "args": ["--api-key", SECRET], "env": {"KEY": SECRET}},
    }
    chatting = await here.items("claudecode.chat", name="s", prompt="say: hi", mcp_config=config)
    await here.one("fork", name="s", new_name="fork")
    handle = (await here.one("get", name="s"))["handle"]
    answers = [
        chatting,
        await here.items("claudecode.get", name="s"),
        await here.items("claudecode.get", name="fork"),
        await here.items("claudecode.list"),
        await here.items("claudecode.export", name="s", format="jsonl"),
        await here.items("claudecode.get_conversation", name="s"),
        await here.items("claudecode.follow", name="s"),
        await here.items("claudecode.streams"),
        await here.items("plexus.resolve_handle", handle=handle),
        await here.items("claudecode.chat", name="s", prompt="say: hi", mcp_config={"b": {}}),
    ]
    assert [answer for answer in answers if SECRET in json.dumps(answer)] == []
    public_config = (await here.one("get", name="fork"))["options"]["mcp_config"]
    assert public_config["web"]["headers"] == {"Authorization": HIDDEN}
    assert public_config["local"]["env"] == {"KEY": HIDDEN}
    assert here.hub.database is not None
    rows = await here.hub.database.fetch_rows("SELECT options FROM claudecode_sessions")
    assert SECRET in str(rows)


@pytest.mark.parametrize(
    ("server", "shown"),
    [
        ({"url": "https://h/mcp?key=S"}, {"url": f"https://h/mcp?key={HIDDEN}"}),
        ({"url": "https://u:S@h/mcp#S"}, {"url": f"https://{HIDDEN}@h/mcp"}),
        ({"url": "https://h:1/mcp", "type": "sse"}, {"url": "https://h:1/mcp", "type": "sse"}),
        ({"args": ["x", "--token=S"]}, {"args": ["x", f"--token={HIDDEN}"]}),
        ({"args": ["--header", "a: S", "y"]}, {"args": ["--header", HIDDEN, "y"]}),
        ({"args": ["Authorization: Bearer S"]}, {"args": [f"Authorization: Bearer {HIDDEN}"]}),
        ({"args": ["-v", 1]}, {"args": ["-v", "1"]}),
        ({"oauth": {"id": ["S"], "n": 1}}, {"oauth": {"id": [HIDDEN], "n": 1}}),
    ],
)
def test_only_public_fields_of_an_mcp_server_are_returned(
    server: dict[str, Any], shown: dict[str, Any]
) -> None:
    for config in ({"s": server}, {"mcpServers": {"s": server}}):
        seen = public({"mcp_config": config, "model": "m"})
        inner = seen["mcp_config"].get("mcpServers", seen["mcp_config"])
        assert (inner, seen["model"]) == ({"s": shown}, "m")


# The environment


async def test_an_agent_gets_only_the_environment_of_its_caller(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_DAEMON", "x")
    monkeypatch.setenv("HUBD_TOKEN", SECRET)
    ask: dict[str, Any] = {"name": "s", "prompt": "run: env", "allowed_tools": ["Bash"]}
    here.environment |= {"OF_THE_CALLER": "y", "SYNAPSE_TOKEN": SECRET, "HUBD_HOME": "/elsewhere"}
    # Otherwise Python would set a variable itself.
    here.environment["LC_ALL"] = "C.UTF-8"
    own = {name: text for name, text in here.environment.items() if name != "SYNAPSE_TOKEN"}
    seen = await environment_seen(here, ask, Context(cwd=str(here.cwd), env=here.environment))
    # Variables that the shell adds are ignored.
    seen = {name: text for name, text in seen.items() if name not in ("PWD", "SHLVL", "_")}
    assert seen.pop("HUBD_STREAM")
    assert seen == {**own, "HUBD_HOME": str(here.directory)}
    # Without a caller's environment it is the daemon's, without the same secrets.
    seen = await environment_seen(here, ask, Context())
    assert (seen["OF_THE_DAEMON"], seen["HUBD_HOME"]) == ("x", str(here.directory))
    assert not {"OF_THE_CALLER", "HUBD_TOKEN", "SYNAPSE_TOKEN"} & seen.keys()


async def environment_seen(here: World, ask: dict[str, Any], context: Context) -> dict[str, str]:
    """The environment of a command that an agent runs."""
    caller = Collector(context)
    await Call(here.hub, "claudecode.chat", ask, caller).run()
    events = [item["content"] for item in caller.items if item["type"] == "data"]
    [output] = [event["output"] for event in events if event["type"] == "tool_result"]
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


def test_the_environment_of_a_child_of_the_default_hub_has_no_home_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    given = {"PATH": "/bin", "HUBD_HOME": "/elsewhere"}
    assert child_environment(given, tmp_path / "hubd" / "hub.db") == {"PATH": "/bin"}
    named = child_environment(given, tmp_path / "other" / "hub.db")
    assert named == {"PATH": "/bin", "HUBD_HOME": str(tmp_path / "other")}


# The offline agent's own files


async def test_the_offline_agent_writes_nothing_to_the_directory_of_claude(here: World) -> None:
    await here.chat(say("one"))
    native_id = (await here.session())["claude_session_id"]
    await here.chat(say("two"))
    # It went on with its own session.
    assert (await here.session())["claude_session_id"] == native_id
    kept = here.directory / "offline_agent"
    assert [path.stem for path in kept.rglob("*.jsonl")] == [native_id]
    for place in ("HOME", "CLAUDE_CONFIG_DIR"):
        assert list(Path(here.environment[place]).rglob("*.jsonl")) == []
