"""Claude's own sessions, listed, read, imported and exported: one history, whoever has told it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.plugins.claudecode import native
from hubd.plugins.claudecode.plugin import ClaudeCode
from tests.fakes.agent_process import STREAM_FLAGS, agent, claude_program
from tests.plugins.claudecode.chat_support import (
    HANG,
    Event,
    Failure,
    World,
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


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "claude") as made:
        yield made


async def by_hand(here: World, prompt: str, *flags: str) -> str:
    """Run `claude` as its user would, without the hub; the id of its session."""
    command = (claude_program(), *STREAM_FLAGS, "--allowedTools=Bash", *flags, "--", prompt)
    starting = agent(*command, cwd=here.cwd, environment=here.environment, dialogue=False)
    async with starting as running:
        assert await running.end() == 0, running.stderr
    return str(running.of_type("result")[0]["session_id"])


async def trees(here: World) -> list[Event]:
    """All trees, whoever holds them."""
    pages = [await here.call(f"arbor.tree_list{which}") for which in ("", "_scheduled")]
    return [each for page in pages for event in page for each in event["trees"]]


async def test_a_session_of_claude_is_listed_read_and_imported_and_goes_on(here: World) -> None:
    prompt = "THINK[hm] RUN_BASH[echo two] SAY[three]"
    session_id = await by_hand(here, prompt)
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
    told = await here.told()
    assert told[:-1] == read
    assert is_sound(told)


async def test_a_second_import_brings_only_what_is_new(here: World) -> None:
    session_id = await by_hand(here, "SAY[one]")
    imported = await here.one("sessions_import", claude_session_id=session_id)
    name = imported["name"]
    again = await here.one("sessions_import", claude_session_id=session_id)
    assert (again["messages"], again["id"], again["head"]) == (
        0,
        imported["id"],
        imported["head"],
    )
    await by_hand(here, "SAY[two]", f"--resume={session_id}")
    later = await here.one("sessions_import", claude_session_id=session_id)
    assert (later["messages"], later["id"]) == (2, imported["id"])
    # What the hub itself has said in it is not new either.
    await here.chat(say("three"), name=name)
    assert (await here.one("sessions_import", claude_session_id=session_id))["messages"] == 0
    await by_hand(here, "SAY[four]", f"--resume={session_id}")
    assert (await here.one("sessions_import", claude_session_id=session_id))["messages"] == 2
    said = [text for role, text in text_of(await here.context(name)) if role == "assistant"]
    assert said == ["one", "two", "three", "four"]
    turns = [branch["turn_index"] for branch in await branches(here, name)]
    assert turns == [0]


async def branches(here: World, name: str) -> list[dict[str, Any]]:
    """How the conversation of a session began."""
    tree = (await here.session(name))["head"]["tree_id"]
    root = (await here.one("arbor.tree_get", tree_id=tree))["tree"]["root"]
    found = await here.one("list_branches", name=name, node_id=root)
    return list(found["branches"])


async def test_broken_lines_are_counted_and_the_rest_is_imported(here: World) -> None:
    session_id = await by_hand(here, "SAY[one]")
    file = here.native_file(session_id)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"{broken\n" + b"".join(lines) + b'"no object"\n{"half')
    imported = await here.one("sessions_import", claude_session_id=session_id, name="s")
    assert (imported["messages"], imported["corrupt"]) == (2, 2)
    assert text_of(await here.context()) == [("user", "SAY[one]"), ("assistant", "one")]


async def test_a_session_that_is_not_there_is_not_found(here: World) -> None:
    for method in ("sessions_get", "sessions_import"):
        with pytest.raises(Failure, match="not_found"):
            await here.call(method, claude_session_id=UNKNOWN)
        with pytest.raises(Failure, match="invalid_params"):
            await here.call(method, claude_session_id="../../etc/passwd")
    await here.one("create", name="s")
    with pytest.raises(Failure, match="invalid_params"):
        await here.one("sessions_export", name="s")


async def test_claude_resumes_an_exported_session_with_its_whole_history(here: World) -> None:
    await here.chat(think("hm"), say("one"), run("echo two"), **BASH)
    before = await here.context()
    exported = await here.one("sessions_export", name="s")
    native_id = exported["claude_session_id"]
    assert native_id != (await here.session())["claude_session_id"]
    assert Path(exported["path"]) == here.native_file(native_id)
    assert await by_hand(here, "SAY[by hand]", f"--resume={native_id}") == native_id
    told = plain(here.api.conversations[-1])
    assert told[:-1] == before
    assert text_of(told)[-1] == ("user", "SAY[by hand]")
    # And it comes back whole.
    imported = await here.one("sessions_import", claude_session_id=native_id, name="back")
    assert imported["corrupt"] == 0
    assert text_of(await here.context("back"))[-1] == ("assistant", "by hand")
    assert (await here.context("back"))[: len(before)] == before


async def test_an_imported_session_can_be_forked_at_any_of_its_messages(here: World) -> None:
    session_id = await by_hand(here, "SAY[one]")
    await here.one("sessions_import", claude_session_id=session_id, name="s")
    early = await here.head()
    await by_hand(here, "SAY[two]", f"--resume={session_id}")
    await here.one("sessions_import", claude_session_id=session_id)
    await here.one("fork", name="s", new_name="fork", at=early)
    await here.chat(say("other"), name="fork")
    assert [text for _, text in text_of(await here.told("fork"))] == [
        "SAY[one]",
        "one",
        "SAY[other]",
    ]


async def test_a_native_session_that_grew_by_other_hands_does_not_change_what_is_told(
    here: World,
) -> None:
    await here.chat(say("one"))
    session_id = (await here.session())["claude_session_id"]
    await by_hand(here, "SAY[unheard]", f"--resume={session_id}")
    await here.chat(say("two"))
    assert await here.told() == (await here.context())[:-1]


async def test_many_imports_at_once_make_one_session(here: World) -> None:
    session_id = await by_hand(here, "SAY[one]")
    calls = [here.one("sessions_import", claude_session_id=session_id) for _ in range(5)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    problems = [each for each in outcomes if isinstance(each, BaseException)]
    assert all(isinstance(each, Failure) and each.code == "conflict" for each in problems)
    [listed] = (await here.one("list"))["sessions"]
    assert text_of(await here.context(listed["name"])) == [
        ("user", "SAY[one]"),
        ("assistant", "one"),
    ]


async def test_many_imports_of_what_is_new_bring_it_once(here: World) -> None:
    session_id = await by_hand(here, "SAY[one]")
    await here.one("sessions_import", claude_session_id=session_id, name="s")
    await by_hand(here, "SAY[two]", f"--resume={session_id}")
    calls = [here.one("sessions_import", claude_session_id=session_id) for _ in range(5)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    problems = [each for each in outcomes if isinstance(each, BaseException)]
    assert all(isinstance(each, Failure) and each.code == "conflict" for each in problems)
    said = [text for role, text in text_of(await here.context()) if role == "assistant"]
    assert said == ["one", "two"]


async def test_of_many_first_imports_under_different_names_one_makes_a_session(
    here: World,
) -> None:
    session_id = await by_hand(here, "SAY[one]")
    names = [f"n{number}" for number in range(5)]
    calls = [here.one("sessions_import", claude_session_id=session_id, name=name) for name in names]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    problems = [each for each in outcomes if isinstance(each, BaseException)]
    assert all(isinstance(each, Failure) and each.code == "conflict" for each in problems)
    # What the others had begun is not there: no empty session, and no tree without one.
    [listed] = (await here.one("list"))["sessions"]
    assert [each["tree_id"] for each in await trees(here)] == [listed["head"]["tree_id"]]
    assert [text for _, text in text_of(await here.context(listed["name"]))] == ["SAY[one]", "one"]
    # They are free to be used.
    for name in {*names} - {listed["name"]}:
        await here.one("create", name=name)


async def test_a_first_import_under_a_name_that_is_taken_is_refused_and_makes_nothing(
    here: World,
) -> None:
    session_id = await by_hand(here, "SAY[one]")
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
    session_id = await by_hand(here, "SAY[one]")
    await here.one("sessions_import", claude_session_id=session_id, name="s")
    if grown:
        await by_hand(here, "SAY[two]", f"--resume={session_id}")
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
    said = [text for role, text in text_of(await here.context()) if role == "assistant"]
    assert said == (["one", "two"] if grown else ["one"])


async def test_an_import_into_a_session_that_moves_meanwhile_is_refused(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await by_hand(here, "SAY[one]")
    await here.one("sessions_import", claude_session_id=session_id, name="s")
    first = await here.head()
    await by_hand(here, "SAY[two]", f"--resume={session_id}")
    look = ClaudeCode._not_yet_in

    async def look_and_let_others_chat(*asked: Any) -> list[native.NativeMessage]:
        found = await look(*asked)
        await here.chat(say("elsewhere"))
        return found

    monkeypatch.setattr(ClaudeCode, "_not_yet_in", look_and_let_others_chat)
    with pytest.raises(Failure, match="conflict"):
        await here.one("sessions_import", claude_session_id=session_id)
    assert [text for _, text in text_of(await here.context())][-1] == "elsewhere"
    branches = (await here.one("list_branches", name="s", node_id=first))["branches"]
    assert [branch["summary"] for branch in branches] == ["SAY[elsewhere]"]


async def test_every_block_of_a_native_session_is_kept_to_the_byte(here: World) -> None:
    session_id = await by_hand(here, "THINK[hm] RUN_BASH[printf 'a\\tb'] SAY[ünïcödé \U0001f600]")
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
