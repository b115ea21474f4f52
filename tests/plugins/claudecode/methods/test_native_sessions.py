"""Claude's own sessions: list, read, import, continue and export them."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.plugins.claudecode import native
from hubd.plugins.claudecode.plugin import ClaudeCode
from tests.fakes.agent_process import STREAM_FLAGS, agent
from tests.plugins.claudecode.chat_support import (
    HANG,
    Event,
    Failure,
    Step,
    World,
    asking,
    is_sound,
    plain,
    run,
    say,
    text_of,
    think,
    world,
)

BASH: dict[str, Any] = {"allowed_tools": ["Bash"]}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(params=["offline", pytest.param("claude", marks=pytest.mark.soak)])
async def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[World]:
    """The real `claude` in the longer runs; else the offline agent in its place."""
    async with world(
        tmp_path, monkeypatch, "claude", stand_in=request.param == "offline"
    ) as running:
        yield running


# For a test that the offline agent cannot replace.
with_claude = pytest.mark.parametrize("here", ["claude"], indirect=True)


async def by_hand(here: World, *steps: Step, resume: str | None = None) -> str:
    """Run the agent as its user would, without the hub, and return the id of its session."""
    flags = () if resume is None else (f"--resume={resume}",)
    prompt = asking(here.engine, *steps)
    command = (here.program, *STREAM_FLAGS, "--allowedTools=Bash", *flags, "--", prompt)
    starting = agent(*command, cwd=here.cwd, environment=here.environment, dialogue=False)
    async with starting as running:
        assert await running.end() == 0, running.stderr
    return str(running.of_type("result")[0]["session_id"])


async def trees(here: World) -> list[Event]:
    """Return all trees."""
    pages = [await here.call(f"arbor.tree_list{which}") for which in ("", "_scheduled")]
    return [each for page in pages for event in page for each in event["trees"]]


@pytest.mark.soak
@with_claude
async def test_a_session_of_claude_is_listed_read_imported_and_continued(here: World) -> None:
    steps = think("hm"), run("echo two"), say("three")
    session_id = await by_hand(here, *steps)
    prompt = asking(here.engine, *steps)
    [listed] = (await here.one("sessions_list", working_dir=str(here.cwd)))["sessions"]
    assert (listed["session_id"], listed["prompt"]) == (session_id, prompt)
    assert (await here.one("sessions_list"))["sessions"] == [listed]
    elsewhere = await here.one("sessions_list", working_dir=str(here.directory))
    assert elsewhere["sessions"] == []
    read = plain(await here.call("sessions_get", claude_session_id=session_id))
    assert [text for _, text in text_of(read)] == [prompt, "I will run it.", "", "three"]

    imported = await here.one("sessions_import", claude_session_id=session_id, name="s")
    assert (imported["messages"], imported["corrupt"]) == (4, 0)
    assert await here.context() == read
    assert (await here.session())["engine"] == "claude"
    # It goes on natively: the same session, with all that was said.
    await here.chat(say("four"))
    assert (await here.session())["claude_session_id"] == session_id
    messages = await here.model_messages()
    assert messages[:-1] == read
    assert is_sound(messages)


async def test_a_second_import_adds_only_new_messages(here: World) -> None:
    session_id = await by_hand(here, say("one"))
    imported = await here.one("sessions_import", claude_session_id=session_id)
    name = imported["name"]
    again = await here.one("sessions_import", claude_session_id=session_id)
    assert (again["messages"], again["id"], again["head"]) == (
        0,
        imported["id"],
        imported["head"],
    )
    await by_hand(here, say("two"), resume=session_id)
    later = await here.one("sessions_import", claude_session_id=session_id)
    assert (later["messages"], later["id"]) == (2, imported["id"])
    # Messages of the hub's own chats are not new either.
    await here.chat(say("three"), name=name)
    assert (await here.one("sessions_import", claude_session_id=session_id))["messages"] == 0
    await by_hand(here, say("four"), resume=session_id)
    assert (await here.one("sessions_import", claude_session_id=session_id))["messages"] == 2
    texts = [text for role, text in text_of(await here.context(name)) if role == "assistant"]
    assert texts == ["one", "two", "three", "four"]
    turns = [branch["turn_index"] for branch in await branches(here, name)]
    assert turns == [0]


async def branches(here: World, name: str) -> list[dict[str, Any]]:
    """How the conversation of a session began."""
    tree = (await here.session(name))["head"]["tree_id"]
    root = (await here.one("arbor.tree_get", tree_id=tree))["tree"]["root"]
    answer = await here.one("list_branches", name=name, node_id=root)
    return list(answer["branches"])


async def test_broken_lines_are_counted_and_the_rest_is_imported(here: World) -> None:
    session_id = await by_hand(here, say("one"))
    file = here.native_file(session_id)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"{broken\n" + b"".join(lines) + b'"no object"\n{"half')
    imported = await here.one("sessions_import", claude_session_id=session_id, name="s")
    assert (imported["messages"], imported["corrupt"]) == (2, 2)
    assert text_of(await here.context()) == [
        ("user", asking(here.engine, say("one"))),
        ("assistant", "one"),
    ]


async def test_a_missing_session_of_claude_is_not_found(here: World) -> None:
    for method in ("sessions_get", "sessions_import"):
        with pytest.raises(Failure, match="not_found"):
            await here.call(method, claude_session_id=UNKNOWN)
        with pytest.raises(Failure, match="invalid_params"):
            await here.call(method, claude_session_id="../../etc/passwd")
    await here.one("create", name="s")
    with pytest.raises(Failure, match="invalid_params"):
        await here.one("sessions_export", name="s")


@pytest.mark.claude
@with_claude
async def test_claude_resumes_an_exported_session_with_its_whole_history(here: World) -> None:
    await here.chat(think("hm"), say("one"), run("echo two"), **BASH)
    before = await here.context()
    exported = await here.one("sessions_export", name="s")
    native_id = exported["claude_session_id"]
    assert native_id != (await here.session())["claude_session_id"]
    assert Path(exported["path"]) == here.native_file(native_id)
    assert await by_hand(here, say("by hand"), resume=native_id) == native_id
    messages = plain(here.api.conversations[-1])
    assert messages[:-1] == before
    assert text_of(messages)[-1] == ("user", "SAY[by hand]")
    # And it comes back whole.
    imported = await here.one("sessions_import", claude_session_id=native_id, name="back")
    assert imported["corrupt"] == 0
    assert text_of(await here.context("back"))[-1] == ("assistant", "by hand")
    assert (await here.context("back"))[: len(before)] == before


async def test_an_imported_session_can_be_forked_at_any_of_its_messages(here: World) -> None:
    session_id = await by_hand(here, say("one"))
    await here.one("sessions_import", claude_session_id=session_id, name="s")
    early = await here.head()
    await by_hand(here, say("two"), resume=session_id)
    await here.one("sessions_import", claude_session_id=session_id)
    await here.one("fork", name="s", new_name="fork", at=early)
    await here.chat(say("other"), name="fork")
    assert [text for _, text in text_of(await here.model_messages("fork"))] == [
        asking(here.engine, say("one")),
        "one",
        asking(here.engine, say("other")),
    ]


async def test_a_native_session_that_another_program_continued_does_not_change_the_context(
    here: World,
) -> None:
    await here.chat(say("one"))
    session_id = (await here.session())["claude_session_id"]
    await by_hand(here, say("unheard"), resume=session_id)
    await here.chat(say("two"))
    assert await here.model_messages() == (await here.context())[:-1]


async def test_many_imports_at_once_create_one_session(here: World) -> None:
    session_id = await by_hand(here, say("one"))
    calls = [here.one("sessions_import", claude_session_id=session_id) for _ in range(5)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    problems = [each for each in outcomes if isinstance(each, BaseException)]
    assert all(isinstance(each, Failure) and each.code == "conflict" for each in problems)
    [listed] = (await here.one("list"))["sessions"]
    assert text_of(await here.context(listed["name"])) == [
        ("user", asking(here.engine, say("one"))),
        ("assistant", "one"),
    ]


async def test_many_imports_at_once_add_new_messages_once(here: World) -> None:
    session_id = await by_hand(here, say("one"))
    await here.one("sessions_import", claude_session_id=session_id, name="s")
    await by_hand(here, say("two"), resume=session_id)
    calls = [here.one("sessions_import", claude_session_id=session_id) for _ in range(5)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    problems = [each for each in outcomes if isinstance(each, BaseException)]
    assert all(isinstance(each, Failure) and each.code == "conflict" for each in problems)
    texts = [text for role, text in text_of(await here.context()) if role == "assistant"]
    assert texts == ["one", "two"]


async def test_of_many_first_imports_under_different_names_one_creates_a_session(
    here: World,
) -> None:
    session_id = await by_hand(here, say("one"))
    names = [f"n{number}" for number in range(5)]
    calls = [here.one("sessions_import", claude_session_id=session_id, name=name) for name in names]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    problems = [each for each in outcomes if isinstance(each, BaseException)]
    assert all(isinstance(each, Failure) and each.code == "conflict" for each in problems)
    # The refused imports leave no empty session and no tree without a session.
    [listed] = (await here.one("list"))["sessions"]
    assert [each["tree_id"] for each in await trees(here)] == [listed["head"]["tree_id"]]
    assert [text for _, text in text_of(await here.context(listed["name"]))] == [
        asking(here.engine, say("one")),
        "one",
    ]
    # They are free to be used.
    for name in {*names} - {listed["name"]}:
        await here.one("create", name=name)


async def test_a_first_import_under_a_taken_name_is_refused(
    here: World,
) -> None:
    session_id = await by_hand(here, say("one"))
    await here.one("create", name="s")
    before = await trees(here), await here.session()
    with pytest.raises(Failure, match="there is a session named 's' already") as caught:
        await here.one("sessions_import", claude_session_id=session_id, name="s")
    assert caught.value.code == "conflict"
    assert (await trees(here), await here.session()) == before
    # It does not count as imported.
    assert (await here.one("sessions_import", claude_session_id=session_id))["messages"] == 2


@pytest.mark.parametrize("grown", [True, False])
async def test_an_import_into_a_busy_session_is_refused_and_changes_nothing(
    here: World, grown: bool
) -> None:
    session_id = await by_hand(here, say("one"))
    await here.one("sessions_import", claude_session_id=session_id, name="s")
    if grown:
        await by_hand(here, say("two"), resume=session_id)
    # Leaves the native session as it is, so that there may be nothing to import.
    stream = await here.begin(HANG, ephemeral=True)
    await here.until_said(stream)
    before = await trees(here), await here.session(), await here.context()
    for _ in range(2):
        with pytest.raises(Failure, match="session 's' is busy") as caught:
            await here.one("sessions_import", claude_session_id=session_id)
        assert caught.value.code == "conflict"
        assert (await trees(here), await here.session(), await here.context()) == before
    # Nor did it disturb the chat.
    assert (await here.one("poll", stream_id=stream, from_seq=0))["status"] == "running"
    await here.one("cancel", stream_id=stream)
    imported = await here.one("sessions_import", claude_session_id=session_id)
    assert imported["messages"] == (2 if grown else 0)
    texts = [text for role, text in text_of(await here.context()) if role == "assistant"]
    assert texts == (["one", "two"] if grown else ["one"])


async def test_an_import_is_refused_if_the_head_moves_during_it(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await by_hand(here, say("one"))
    await here.one("sessions_import", claude_session_id=session_id, name="s")
    first = await here.head()
    await by_hand(here, say("two"), resume=session_id)
    look = ClaudeCode._new_messages

    async def look_and_let_others_chat(*asked: Any) -> list[native.NativeMessage]:
        outcome = await look(*asked)
        await here.chat(say("elsewhere"))
        return outcome

    monkeypatch.setattr(ClaudeCode, "_new_messages", look_and_let_others_chat)
    with pytest.raises(Failure, match="conflict"):
        await here.one("sessions_import", claude_session_id=session_id)
    assert [text for _, text in text_of(await here.context())][-1] == "elsewhere"
    branches = (await here.one("list_branches", name="s", node_id=first))["branches"]
    assert [branch["summary"] for branch in branches] == [asking(here.engine, say("elsewhere"))]


async def test_every_block_of_a_native_session_is_imported_unchanged(here: World) -> None:
    steps = think("hm"), run(r"printf 'a\tb'"), say("ünïcödé \U0001f600")
    session_id = await by_hand(here, *steps)
    await here.one("sessions_import", claude_session_id=session_id, name="s")
    history = native.read_history(here.native_file(session_id))
    written = [
        json.loads(json.dumps(block))
        for message in native.conversation(history).messages
        for block in message.content
    ]
    kept = [
        block
        for message in await here.call("render_context", name="s")
        for block in message["content"]
    ]
    assert kept == written
