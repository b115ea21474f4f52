"""Session files in use: the real `claude` and the offline agent resume and write them."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hubd.plugins.claudecode.native import (
    NativeMessage,
    conversation,
    leaves,
    list_sessions,
    read_history,
    session_file,
    write_session,
)
from tests.fakes.agent_process import OFFLINE, Line, Program, claude_program
from tests.fakes.messages_api import FakeMessagesApi
from tests.plugins.claudecode.native.native_content import (
    IMAGE,
    MODEL,
    SESSION,
    THOUGHT,
    Entry,
    assistant,
    attachment,
    call,
    encoded,
    entry,
    mark,
    result,
    text,
    user,
)

RoleAndBlocks = list[tuple[str, list[dict[str, Any]]]]


class Claude(Program):
    """The real program, with a fake API."""

    def __init__(self, directory: Path, api: FakeMessagesApi) -> None:
        super().__init__(directory, claude_program(), api_url=api.url, CLAUDE_CODE_MAX_RETRIES="0")
        self.api = api

    async def sends(self, session_id: str = SESSION) -> RoleAndBlocks:
        """Resume a session; return the messages that are sent, without the new prompt."""
        await self.ask("SAY[the next]", f"--resume={session_id}", "--model", MODEL)
        *before, (role, content) = sent(self.api.conversations[-1])
        assert (role, content[-1]) == ("user", text("SAY[the next]"))
        return [*before, (role, content[:-1])] if content[:-1] else before

    def file(self, session_id: str = SESSION) -> Path:
        """The session's file."""
        return session_file(self.environment, self.cwd, session_id)

    def conversation(self, session_id: str = SESSION, leaf: str | None = None) -> RoleAndBlocks:
        """The conversation as we read it."""
        return plain(conversation(read_history(self.file(session_id)), leaf).messages)


@pytest.fixture
async def claude(tmp_path: Path) -> AsyncIterator[Claude]:
    async with FakeMessagesApi() as api:
        yield Claude(tmp_path, api)


def sent(messages: list[dict[str, Any]]) -> RoleAndBlocks:
    """Return the messages of a request, without the additions of claude."""
    words: RoleAndBlocks = []
    for message in messages:
        content = message["content"]
        blocks = [text(content)] if isinstance(content, str) else content
        kept = [
            {key: value for key, value in block.items() if key != "cache_control"}
            for block in blocks
            if not str(block.get("text")).startswith("<system-reminder>")
        ]
        if message["role"] != "system":
            words.append((message["role"], kept))
    return words


def plain(messages: list[NativeMessage]) -> RoleAndBlocks:
    return [(message.role, message.content) for message in messages]


def write(program: Program, messages: list[NativeMessage], session_id: str = SESSION) -> str:
    return write_session(
        session_file(program.environment, program.cwd, session_id),
        session_id=session_id,
        cwd=program.cwd,
        messages=messages,
        version="2.1.325",
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )


EVERYTHING = [
    user(text("hello")),
    assistant(THOUGHT, text("I'll look."), call("1"), call("2")),
    user(result("1", "one"), {**result("2", "ä😀\u2028"), "is_error": True}),
    assistant(THOUGHT, call("3")),
    user(result("3", [text("a picture"), IMAGE])),
    assistant(text("first")),
    user(text("and this?"), IMAGE),
    assistant(THOUGHT, text("one pixel"), text("in red")),
]


@pytest.mark.soak
async def test_claude_sends_a_written_session_unchanged(claude: Claude) -> None:
    last = write(claude, EVERYTHING)
    assert await claude.sends() == plain(EVERYTHING)
    # It went on from where the file ended, in the same file.
    history = read_history(claude.file())
    [asked] = [each for each in history.entries if each.parent_uuid == last]
    assert asked.blocks == [text("SAY[the next]")]
    assert claude.conversation()[: len(EVERYTHING)] == plain(EVERYTHING)


def is_result(line: Line) -> bool:
    return line["type"] == "user" and "tool_use_id" in line["message"]["content"][0]


@pytest.mark.soak
async def test_a_session_of_claude_is_read_as_claude_sends_it(claude: Claude) -> None:
    """Two calls at once, of which the first ends last: their results lie beside the chain."""
    pipe = claude.cwd / "pipe"
    os.mkfifo(pipe)
    (claude.cwd / "file").write_text("two")
    calls = [
        {"name": "Bash", "input": {"command": "head -n1 pipe"}},
        {"name": "Read", "input": {"file_path": str(claude.cwd / "file")}},
    ]
    flags = ("--session-id", SESSION, "--allowedTools=Bash", "--allowedTools=Read")
    async with claude.talk(*flags, "--model", MODEL) as running:
        await running.say(f"THINK[hm] SAY[both] TOOLS{json.dumps(calls)} THINK[ah] SAY[done]")
        await running.until(is_result)
        # Both ends, so that opening it does not wait for the other one.
        descriptor = os.open(pipe, os.O_RDWR)
        try:
            os.write(descriptor, b"one\n")
            await running.turn()
        finally:
            os.close(descriptor)
        assert await running.end() == 0
    model_input = claude.conversation()
    [_, (_, called), (_, results), (_, last)] = model_input
    assert [block["type"] for block in called] == ["thinking", "text", "tool_use", "tool_use"]
    keys = [block["id"] for block in called[2:]]
    assert [block["tool_use_id"] for block in results] == keys[::-1]
    assert [block["type"] for block in last] == ["thinking", "text"]
    assert await claude.sends() == model_input
    # Under another name it is the same conversation.
    copy = SESSION.replace("1", "2")
    messages = conversation(read_history(claude.file())).messages
    write(claude, messages, copy)
    assert await claude.sends(copy) == plain(messages)


@pytest.mark.soak
async def test_branches_of_a_file_are_read_as_claude_sent_them(claude: Claude) -> None:
    first = await claude.ask("SAY[one]", "--session-id", SESSION)
    at = first.of_type("assistant")[-1]["uuid"]
    await claude.ask("SAY[two]", f"--resume={SESSION}")
    before = claude.conversation()
    await claude.ask("SAY[other]", f"--resume={SESSION}", "--resume-session-at", at)
    newer, older = leaves(read_history(claude.file()))
    assert claude.conversation(leaf=older.uuid) == before
    assert claude.conversation(leaf=newer.uuid) == claude.conversation()
    assert claude.conversation()[-2:] == [
        ("user", [text("SAY[other]")]),
        ("assistant", [text("other")]),
    ]
    assert await claude.sends() == claude.conversation(leaf=newer.uuid)


@pytest.mark.soak
async def test_a_failed_request_is_read_and_written_but_never_sent(claude: Claude) -> None:
    await claude.ask("STATUS[500]", "--session-id", SESSION, status=1)
    asked, error = conversation(read_history(claude.file())).messages
    assert (error.is_api_error, error.content[0]["text"][:14]) == (True, "API Error: 500")
    copy = SESSION.replace("1", "2")
    write(claude, [asked, error], copy)
    for session_id in (SESSION, copy):
        # Two messages of the user in a row are one; a plain text is ended with a new line then.
        [(role, [block])] = await claude.sends(session_id)
        assert (role, block["text"].rstrip("\n")) == ("user", "STATUS[500]")


@pytest.mark.soak
async def test_preserved_messages_of_a_summary_are_read_where_claude_sends_them(
    claude: Claude,
) -> None:
    await claude.ask("SAY[one]", "--session-id", SESSION)
    await claude.ask("SAY[two]", f"--resume={SESSION}")
    await claude.ask("/compact", f"--resume={SESSION}")
    summary, kept, *commands = claude.conversation()
    assert kept == ("assistant", [text("two")])
    assert all(content[0]["text"].startswith("<") for _, content in commands)
    assert (await claude.sends())[:2] == [summary, kept]


FOUR = [
    entry("a", None, "one"),
    entry("b", "a", [text("two")], id="msg_1"),
    entry("c", "b", "three"),
    entry("d", "c", [text("four")], id="msg_2"),
]
BRANCH = [entry("e", "b", "other"), entry("f", "e", [text("branch")], id="msg_3")]
PARALLEL = [
    entry("a", None, "one"),
    entry("b", "a", [call("1")], id="msg_1"),
    entry("c", "b", [call("2")], id="msg_1"),
    entry("d", "b", [result("1")]),
    entry("e", "c", [result("2")]),
]
OLD = {"timestamp": "2020-01-01T00:00:00.000Z"}


LEAVES: list[tuple[list[Entry], str | None]] = [
    ([*FOUR, *BRANCH], "f"),
    ([*FOUR, *({**line, **OLD} for line in BRANCH)], "f"),
    ([*FOUR, *BRANCH, attachment("x", "d")], "d"),
    ([*FOUR, attachment("x", "b")], "b"),
    ([*FOUR, mark("d"), attachment("x", "b")], "d"),
    ([*FOUR, *BRANCH, mark("d")], "d"),
    ([*FOUR, mark("d"), *BRANCH], "d"),
    ([*FOUR, mark("b")], "d"),
    ([*FOUR[:2], mark("b"), *FOUR[2:]], "d"),
    ([*FOUR, mark("b", explicit=True)], "b"),
    ([*FOUR, mark("b", explicit=True), *BRANCH], "f"),
    ([*FOUR, mark("nowhere")], "d"),
    ([*FOUR, mark(None, explicit=True)], None),
    ([*PARALLEL, entry("f", "e", [text("done")], id="msg_2")], "f"),
    ([*PARALLEL, entry("f", "d", [text("done")], id="msg_2")], "f"),
    ([*PARALLEL, attachment("x", "d"), entry("f", "x", [text("done")], id="msg_2")], "f"),
]


@pytest.mark.parametrize(("lines", "leaf"), LEAVES)
def test_without_a_leaf_the_newest_conversation_is_read(
    tmp_path: Path, lines: list[Entry], leaf: str | None
) -> None:
    file = tmp_path / "session.jsonl"
    file.write_bytes(encoded(*lines))
    assert conversation(read_history(file)).leaf == leaf


@pytest.mark.soak
@pytest.mark.parametrize(("lines", "leaf"), LEAVES)
async def test_claude_continues_the_conversation_that_is_read_without_a_leaf(
    claude: Claude, lines: list[Entry], leaf: str | None
) -> None:
    claude.file().parent.mkdir(parents=True)
    claude.file().write_bytes(encoded(*lines))
    expected = claude.conversation()
    assert claude.conversation(leaf=leaf) == expected
    assert await claude.sends() == expected


@pytest.mark.soak
async def test_claude_is_found_in_a_directory_with_a_long_and_strange_name(
    claude: Claude,
) -> None:
    real = claude.cwd / ("é" * 100) / f"😀 {'x' * 100}.y"
    real.mkdir(parents=True)
    (claude.cwd / "link").symlink_to(real)
    claude.cwd = claude.cwd / "link"
    await claude.ask("SAY[one]", "--session-id", SESSION)
    [file] = Path(claude.environment["CLAUDE_CONFIG_DIR"]).rglob(f"{SESSION}.jsonl")
    assert claude.file() == file
    own = await asyncio.to_thread(list_sessions, claude.environment, claude.cwd)
    [session] = own
    assert (session.path, session.cwd, session.prompt) == (file, str(real), "SAY[one]")
    assert session.messages == 2
    # A file that is not there yet would get the same place.
    other = SESSION.replace("1", "2")
    assert claude.file(other).parent == file.parent


def offline_beside_claude(directory: Path) -> Program:
    """The offline agent with its sessions where claude would have them."""
    offline = Program(directory, *OFFLINE)
    config = offline.environment["CLAUDE_CONFIG_DIR"]
    return Program(
        directory / "beside", *OFFLINE, f"--session-directory={config}", CLAUDE_CONFIG_DIR=config
    )


async def test_a_file_of_the_offline_agent_is_read_alike(tmp_path: Path) -> None:
    offline = offline_beside_claude(tmp_path)
    prompt = "think: hm\nsay: first\nrun: echo one\nsay: done"
    output = await offline.ask(prompt, "--session-id", SESSION, "--allowedTools=Bash")
    history = read_history(session_file(offline.environment, offline.cwd, SESSION))
    asked, called, results, last = conversation(history).messages
    assert asked.content == [text(prompt)]
    assert [block["type"] for block in called.content] == ["thinking", "text", "tool_use"]
    assert results.content == output.blocks("user")
    assert last.content == [text("done")]
    visible = [line["uuid"] for line in output.lines if line["type"] in ("assistant", "user")]
    assert [uuid for each in (called, results, last) for uuid in each.uuids] == visible
    [session] = list_sessions(offline.environment, offline.cwd)
    assert (session.prompt, session.messages) == (prompt.replace("\n", " "), 4)


async def test_the_offline_agent_continues_a_written_session(tmp_path: Path) -> None:
    offline = offline_beside_claude(tmp_path)
    write(offline, EVERYTHING)
    output = await offline.ask("next", f"--resume={SESSION}")
    assert f"history: {len(EVERYTHING)} messages" in output.lines[-1]["result"]
    messages = conversation(
        read_history(session_file(offline.environment, offline.cwd, SESSION))
    ).messages
    assert plain(messages)[: len(EVERYTHING)] == plain(EVERYTHING)
    assert messages[len(EVERYTHING)].content == [text("next")]
