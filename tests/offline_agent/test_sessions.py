"""The conversations of the offline agent: resumed, forked, and read by the real `claude`."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.offline_agent.session import Session, path_of
from tests.fakes.agent_process import OFFLINE, Program, claude_program
from tests.fakes.messages_api import FakeMessagesApi

SESSION = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def offline(tmp_path: Path) -> Program:
    return Program(tmp_path, *OFFLINE)


def file_of(program: Program, session_id: str) -> Path:
    [path] = directory_of(program).rglob(f"{session_id}.jsonl")
    return path


def directory_of(program: Program) -> Path:
    """The data directory of the hub of the program's user."""
    return Path(program.environment["HOME"], ".local/share/hubd/offline_agent")


def entries_of(program: Program, session_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file_of(program, session_id).read_text().splitlines()]


async def test_a_session_file_has_the_path_and_the_format_of_claude(offline: Program) -> None:
    output = await offline.ask("hello\nbig: 3", "--session-id", SESSION)
    assert file_of(offline, SESSION).parent.name == str(offline.cwd).replace("/", "-").replace(
        "_", "-"
    )
    entries = entries_of(offline, SESSION)
    kinds = [entry["type"] for entry in entries]
    assert kinds == ["user", "assistant", "assistant", "user", "assistant"]
    parents = [entry["parentUuid"] for entry in entries]
    assert parents == [None, *(entry["uuid"] for entry in entries[:-1])]
    visible = [line["uuid"] for line in output.lines if line["type"] in ("assistant", "user")]
    assert [entry["uuid"] for entry in entries[1:]] == visible
    for entry in entries:
        assert entry["sessionId"] == SESSION
        assert entry["cwd"] == str(offline.cwd)
        assert {"timestamp", "version", "message", "isSidechain"} <= set(entry)


async def test_a_resumed_session_has_its_messages_and_keeps_its_id(offline: Program) -> None:
    await offline.ask("first\nbig: 1", "--session-id", SESSION)
    output = await offline.ask("second", f"--resume={SESSION}")
    assert output.lines[0]["session_id"] == SESSION
    assert "history: 4 messages" in output.lines[-1]["result"]
    again = await offline.ask("third", "--resume", SESSION)
    assert "history: 6 messages" in again.lines[-1]["result"]


async def test_a_session_is_found_from_another_directory(offline: Program) -> None:
    await offline.ask("first", "--session-id", SESSION)
    offline.cwd = offline.cwd.parent / "elsewhere"
    offline.cwd.mkdir()
    output = await offline.ask("second", f"--resume={SESSION}")
    assert "history: 2 messages" in output.lines[-1]["result"]
    assert len(entries_of(offline, SESSION)) == 4


async def test_a_fork_leaves_the_session_as_it_was(offline: Program) -> None:
    await offline.ask("first", "--session-id", SESSION)
    before = file_of(offline, SESSION).read_bytes()
    output = await offline.ask("second", f"--resume={SESSION}", "--fork-session")
    forked = output.lines[0]["session_id"]
    assert forked != SESSION
    assert "history: 2 messages" in output.lines[-1]["result"]
    assert file_of(offline, SESSION).read_bytes() == before
    assert {entry["sessionId"] for entry in entries_of(offline, forked)} == {forked}
    own = entries_of(offline, SESSION)
    assert [entry["uuid"] for entry in entries_of(offline, forked)[:2]] == [e["uuid"] for e in own]


async def test_a_fork_at_a_message_drops_later_messages(offline: Program) -> None:
    first = await offline.ask("first", "--session-id", SESSION)
    at = first.of_type("assistant")[-1]["uuid"]
    await offline.ask("second", f"--resume={SESSION}")
    flags = (f"--resume={SESSION}", "--fork-session", "--resume-session-at", at)
    given_id = str(uuid4())
    output = await offline.ask("third", *flags, "--session-id", given_id)
    assert output.lines[0]["session_id"] == given_id
    assert "history: 2 messages" in output.lines[-1]["result"]
    assert "second" not in file_of(offline, given_id).read_text()


async def test_resuming_at_a_message_without_a_fork_adds_a_branch_to_the_file(
    offline: Program,
) -> None:
    first = await offline.ask("first", "--session-id", SESSION)
    at = first.of_type("assistant")[-1]["uuid"]
    await offline.ask("second", f"--resume={SESSION}")
    await offline.ask("third", f"--resume={SESSION}", "--resume-session-at", at)
    output = await offline.ask("fourth", f"--resume={SESSION}")
    assert "history: 4 messages" in output.lines[-1]["result"]
    assert len(entries_of(offline, SESSION)) == 8


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ((f"--resume={SESSION}",), f"No conversation found with session ID: {SESSION}"),
        (("--resume=nonsense",), "No conversation found with session ID: nonsense"),
    ],
)
async def test_an_unknown_session_gives_only_a_result(
    offline: Program, flags: tuple[str, ...], error: str
) -> None:
    output = await offline.ask("hello", *flags, status=1)
    [result] = output.lines
    assert (result["type"], result["subtype"]) == ("result", "error_during_execution")
    assert result["errors"] == [error]
    assert result["num_turns"] == 0
    assert error in output.stderr


async def test_an_unknown_message_gives_only_a_result(offline: Program) -> None:
    await offline.ask("first", "--session-id", SESSION)
    flags = (f"--resume={SESSION}", "--resume-session-at", str(uuid4()))
    output = await offline.ask("hello", *flags, status=1)
    assert [line["type"] for line in output.lines] == ["result"]
    assert output.lines[0]["errors"][0].startswith("No message found with message.uuid of: ")


async def test_a_session_id_is_used_once(offline: Program) -> None:
    await offline.ask("first", "--session-id", SESSION)
    output = await offline.ask("second", "--session-id", SESSION, status=1)
    assert output.lines == []
    assert output.stderr == f"Error: Session ID {SESSION} is already in use.\n"


async def test_damaged_entries_are_skipped(offline: Program) -> None:
    await offline.ask("first", "--session-id", SESSION)
    with file_of(offline, SESSION).open("a") as file:
        file.write('{"type":"mode"}\n[1]\n{"half an ent')
    output = await offline.ask("second", f"--resume={SESSION}")
    assert "history: 2 messages" in output.lines[-1]["result"]


@pytest.mark.soak
async def test_claude_continues_a_session_of_the_offline_agent(
    offline: Program, tmp_path: Path
) -> None:
    await offline.ask("first words\nbig: 20\nthink: hm\nsay: an answer", "--session-id", SESSION)
    async with FakeMessagesApi() as api:
        claude = Program(tmp_path / "claude", claude_program(), api_url=api.url)
        claude.cwd = offline.cwd
        claude.environment["CLAUDE_CONFIG_DIR"] = str(directory_of(offline))
        output = await claude.ask("SAY[and claude]", f"--resume={SESSION}")
        sent = json.dumps(api.conversations[-1])
    assert output.lines[-1]["session_id"] == SESSION
    answer = '"text": "an answer"'
    words = ["first words", '"name": "Big"', "0123456789abcdef", answer, "SAY[and claude]"]
    places = [sent.find(word) for word in words]
    assert -1 not in places
    assert places == sorted(places)
    back = await offline.ask("third", f"--resume={SESSION}")
    assert "history: 6 messages" in back.lines[-1]["result"]


def test_a_long_directory_gets_the_name_that_claude_gives_it() -> None:
    # As claude 2.1.325 named it when it was run there.
    cwd = Path("/tmp/explore/run") / ("l" * 120) / ("m" * 120)
    name = f"-tmp-explore-run-{'l' * 120}-{'m' * 62}-ljb1js"
    assert path_of(Path("/c"), "s", cwd) == Path("/c/projects") / name / "s.jsonl"


@given(st.lists(st.sampled_from(["user", "assistant"])))
def test_a_message_of_several_entries_counts_once(kinds: list[str]) -> None:
    chain = [{"type": kind, "uuid": str(index)} for index, kind in enumerate(kinds)]
    history = Session("s", Path("/nowhere"), "/", chain).history
    changes = sum(a != b for a, b in pairwise(kinds))
    assert history == (changes + 1 if kinds else 0)
