"""Approvals as people see them: at terminals, in pipes, in scripts."""

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.claudecode.chat_support import asking, run, say
from tests.plugins.loopback.support import desk
from tests.support import Daemon
from tests.synapse.support import (
    SYNAPSE,
    Result,
    Terminal,
    at_terminal,
    clean_environment,
    synapse,
    synapse_process,
    wait_for_stop,
    without_own_sequences,
)

QUESTION = "[y,n,m,e,s,a,d,?] "
DENIED = 8


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with Daemon(tmp_path_factory.mktemp("people") / "home") as daemon:
        synapse("loopback", "pending", home=daemon.home)
        yield daemon.home


class Chat:
    """A chat with the offline agent in a directory of its own."""

    def __init__(self, home: Path, directory: Path, *lines: str) -> None:
        self.home = home
        self.name = re.sub(r"\W", "", directory.name)
        self.directory = directory
        self.words = (
            *("claudecode", "chat", "--name", self.name, "--model", "offline"),
            *("--working-dir", str(directory), "--prompt", "\n".join(lines)),
        )

    def at_terminal(self, *options: str, **env: str) -> Terminal:
        return Terminal(*self.words, *options, home=self.home, env=env)

    def in_pipe(self, *options: str) -> Result:
        return synapse(*self.words, *options, home=self.home)

    def has(self, file: str) -> bool:
        return (self.directory / file).exists()

    @property
    def pending(self) -> list[dict[str, Any]]:
        return list(self.answer("loopback", "pending", "--session-id", self.name)["approvals"])

    @property
    def history(self) -> list[dict[str, Any]]:
        return list(self.answer("loopback", "history", "--session-id", self.name)["approvals"])

    def answer(self, *words: str) -> dict[str, Any]:
        result = synapse(*words, home=self.home)
        assert result.returncode == 0, result.stderr
        event: dict[str, Any] = json.loads(result.stdout)
        return event


def test_an_allowed_call_runs_and_the_chat_succeeds(home: Path, tmp_path: Path) -> None:
    chat = Chat(home, tmp_path, "run: touch ran", "say: Ready.")
    with chat.at_terminal() as terminal:
        terminal.until(f"Bash wants to run in session {chat.name}")
        terminal.until(" touch ran")
        terminal.until(QUESTION)
        options = "y allow · n deny · m deny with a message · e edit"
        assert options in without_own_sequences(terminal.text)
        assert not chat.has("ran")
        terminal.type("y")
        terminal.until("Ready.")
        assert terminal.finish()[0] == 0
    assert chat.has("ran")


def test_a_call_is_denied_with_a_message_after_its_details_were_shown(
    home: Path, tmp_path: Path
) -> None:
    chat = Chat(home, tmp_path, "run: touch ran", "say: Ready.")
    with chat.at_terminal() as terminal:
        terminal.until(QUESTION)
        terminal.type("d\n")
        terminal.until('"command": "touch ran"')
        terminal.until(QUESTION)
        terminal.type("m\n")
        terminal.until("Message for the agent: ")
        terminal.type("Not today.\n")
        status, text = terminal.finish()
    assert (status, chat.has("ran")) == (DENIED, False)
    # The tool's result has the same words, so they are shown once.
    assert text.count("Not today.") == 2
    assert "⚠ Bash was denied: Not today." in text
    assert [row["message"] for row in chat.history] == ["Not today."]


def test_an_edited_command_runs_instead(home: Path, tmp_path: Path) -> None:
    chat = Chat(home, tmp_path, "run: touch first", "say: Ready.")
    with chat.at_terminal() as terminal:
        terminal.until(QUESTION)
        terminal.type("e\n")
        terminal.until("Edit the command: touch first")
        # Backspace removes the last word's letters.
        terminal.type("\x7f" * len("first") + "second\n")
        assert terminal.finish()[0] == 0
    assert (chat.has("first"), chat.has("second")) == (False, True)


def test_an_input_is_edited_as_json_in_the_editor_until_it_is_valid(
    home: Path, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    # The first edit breaks the JSON, the second one is abandoned, the third one is good.
    editor.write_text(
        f"""#!/bin/sh
echo x >> {tmp_path}/edits
case $(wc -l < {tmp_path}/edits) in
1) printf '{{\\n{{\\n' > "$1" ;;
2) exit 1 ;;
*) sed -i s/draft/final/ "$1" ;;
esac
"""
    )
    editor.chmod(0o755)
    chat = Chat(home, tmp_path, "write: note.txt draft", "say: Ready.")
    with chat.at_terminal(VISUAL="", EDITOR=str(editor)) as terminal:
        terminal.until("  (a new file)")
        # The lines of a diff have colours.
        terminal.until("\x1b[32m  +draft\x1b[0m")
        terminal.until(QUESTION)
        terminal.type("e\n")
        terminal.until("This is not valid: ")
        # Leaving the editor without saving leads back to the question.
        terminal.until(QUESTION)
        assert not chat.has("note.txt")
        terminal.type("e\n")
        assert terminal.finish()[0] == 0
    assert (tmp_path / "note.txt").read_text() == "final"


def test_the_first_of_three_watchers_decides_and_the_others_read_who_did(
    home: Path, tmp_path: Path
) -> None:
    chat = Chat(home, tmp_path, "run: touch ran", "say: Ready.")
    watch = ("loopback", "watch")
    with (
        Terminal(*watch, home=home) as first,
        Terminal(*watch, home=home, columns=40) as second,
        chat.at_terminal() as asker,
    ):
        for terminal in (first, second, asker):
            terminal.until("touch ran")
            terminal.until(QUESTION)
        first.type("y")
        first.until("was allowed by a person")
        for terminal in (second, asker):
            terminal.until("No answer is needed any more: allowed by a person")
        assert asker.finish()[0] == 0
        for terminal in (first, second):
            terminal.type("\x03")
            assert terminal.finish()[0] == 130
    assert [row["status"] for row in chat.history] == ["approved"]


def test_ctrl_c_leaves_the_call_answerable_and_names_the_command(
    home: Path, tmp_path: Path
) -> None:
    chat = Chat(home, tmp_path, "run: touch ran", "say: Ready.")
    with chat.at_terminal() as terminal:
        terminal.until(QUESTION)
        terminal.type("\x03")
        status, text = terminal.finish()
    command = f"synapse claudecode follow --name {chat.name}"
    assert status == 130
    assert text.splitlines()[-3:-1] == [
        "The chat waits for an approval in the background.",
        f"  Answer: {command}",
    ]
    assert [row["summary"] for row in chat.pending] == ["touch ran"]
    with Terminal(*command.split()[1:], home=home) as terminal:
        terminal.until(QUESTION)
        terminal.type("y\n")
        assert terminal.finish()[0] == 0
    assert chat.has("ran")


@pytest.mark.parametrize(("decision", "status"), [("--approve", 0), ("--no-approve", DENIED)])
def test_in_a_pipe_the_chat_leaves_the_approval_to_others(
    home: Path, tmp_path: Path, decision: str, status: int
) -> None:
    chat = Chat(home, tmp_path, "run: touch ran", "say: Ready.")
    result = chat.in_pipe()
    events = [json.loads(line) for line in result.stdout.splitlines()]
    asked, last = [event for event in events if event["type"] in ("awaiting_approval", "pending")]
    assert (result.returncode, last["pending_approvals"][0]["id"]) == (8, asked["approval_id"])
    command = re.search(r"(loopback respond --approval-id \S+) --approve", result.stderr)
    assert command is not None, result.stderr
    assert not chat.has("ran")

    follow = subprocess.Popen(
        [*SYNAPSE, "claudecode", "follow", "--name", chat.name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=clean_environment(home),
    )
    with follow:
        assert follow.stdout is not None
        # It shows the approval and stays.
        for line in follow.stdout:
            if '"pending_approvals"' in line:
                break
        chat.answer(*command[1].split(), decision)
        assert follow.stdout.read()
        assert follow.wait() == status
    assert chat.has("ran") == (status == 0)


def test_an_agents_questions_are_answered_at_the_terminal(home: Path, tmp_path: Path) -> None:
    chat = Chat(home, tmp_path, "ask: Which colour? | Red | Green", "say: Ready.")
    with chat.at_terminal() as terminal:
        terminal.until(f"The agent of session {chat.name} asks:")
        terminal.until("Which colour?")
        terminal.until("  1) Red")
        terminal.until("  2) Green")
        terminal.until("  o) another answer")
        terminal.until("answer: ")
        terminal.type("2\n")
        terminal.until('"Which colour?"="Green"')
        assert terminal.finish()[0] == 0


def test_keys_that_were_typed_before_the_question_decide_nothing(
    home: Path, tmp_path: Path
) -> None:
    chat = Chat(home, tmp_path, "run: touch ran")
    with chat.at_terminal() as terminal:
        terminal.type("y\ny\n")
        terminal.until(QUESTION)
        assert len(chat.pending) == 1
        terminal.type("n\n")
        status, text = terminal.finish()
    assert (status, chat.has("ran")) == (DENIED, False)
    assert re.search(r"⚠ Bash was denied\x1b\[0m\r?\n", text)
    assert "⎿ The call was denied" not in text


def test_yes_allows_nothing_and_an_explicit_answer_does(home: Path, tmp_path: Path) -> None:
    chat = Chat(home, tmp_path, "run: touch ran")
    assert chat.in_pipe("--yes").returncode == 8
    assert chat.in_pipe("--no-input", "--if-busy", "refuse").returncode == 7
    assert not chat.has("ran")
    [approval] = chat.pending
    chat.answer("loopback", "respond", "--approval-id", approval["id"][:8], "--no-approve")
    with Terminal("claudecode", "follow", "--name", chat.name, home=home) as terminal:
        assert terminal.finish()[0] == DENIED
    assert chat.in_pipe("--answer", "allow").returncode == 0
    assert chat.has("ran")


def test_a_script_answers_with_another_input_and_with_answers(home: Path, tmp_path: Path) -> None:
    ask = "ask: Which colour? | Red | Green"
    chat = Chat(home, tmp_path, ask, "write: draft.txt draft", "say: Ready.")
    assert chat.in_pipe().returncode == 8
    follow = ("claudecode", "follow", "--name", chat.name)
    # A watcher at a terminal tells when the next call waits.
    with Terminal(*follow, home=home) as terminal:
        for question, options in (
            ("answer: ", ("--answers", '{"Which colour?": "Green"}')),
            (QUESTION, ("--updated-input.file_path=a.txt", "--updated-input.content", "final")),
        ):
            terminal.until(question)
            [approval] = chat.pending
            respond = ("loopback", "respond", "--approval-id", approval["id"][:8], "--approve")
            chat.answer(*respond, *options)
            terminal.until("No answer is needed any more: ")
        status, text = terminal.finish()
    assert (status, '"Which colour?"="Green"' in text) == (0, True)
    assert (chat.has("draft.txt"), (tmp_path / "a.txt").read_text()) == (False, "final")


def test_always_remembers_the_call(home: Path, tmp_path: Path) -> None:
    chat = Chat(home, tmp_path, "run: touch ran")
    with chat.at_terminal() as terminal:
        terminal.until(QUESTION)
        terminal.type("a\n")
        assert terminal.finish()[0] == 0
    (tmp_path / "ran").unlink()
    assert chat.in_pipe().returncode == 0
    assert chat.has("ran")


def test_lists_are_tables_at_a_terminal_and_complete_in_a_pipe(home: Path, tmp_path: Path) -> None:
    chat = Chat(home, tmp_path, "run: touch ran")
    chat.in_pipe()
    [approval] = chat.pending
    assert approval["input"]["command"] == "touch ran"
    for words in (("loopback", "pending"), ("loopback", "history", "--limit", "1")):
        status, text = at_terminal(*words, "--session-id", chat.name, home=home, columns=120)
        header, row, *others = without_own_sequences(text).splitlines()
        assert (status, others) == (0, [])
        assert header.split()[0] == "ID"
        assert row.split()[0] == approval["id"][:8]
        assert {"touch", "Bash", chat.name} < set(row.split())
    output = synapse(
        *("loopback", "respond", "--approval-id", ""), home=home, _SYNAPSE_COMPLETE="zsh"
    )
    assert approval["id"] in output.stdout
    chat.answer("claudecode", "cancel", "--name", chat.name)


@pytest.mark.claude
async def test_a_call_of_the_real_program_is_allowed_at_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "claude", monkeypatch) as person:
        prompt = asking("claude", run("touch ran"), say("Ready."))
        words = ("claudecode", "chat", "--name", "real", "--prompt", prompt)
        options = ("--working-dir", str(person.cwd))
        home = person.daemon.home

        def answer() -> int:
            with Terminal(*words, *options, home=home, env=person.environment) as terminal:
                terminal.until("  touch ran")
                terminal.until(QUESTION)
                terminal.type("y\n")
                terminal.until("Ready.")
                return terminal.finish()[0]

        assert await asyncio.to_thread(answer) == 0
        assert (person.cwd / "ran").exists()


def test_watch_in_a_pipe_lists_each_approval_and_ends_with_the_hub(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (project := tmp_path / "project").mkdir()
    with Daemon(home):
        chat = Chat(home, project, "run: touch ran")
        watch = subprocess.Popen(
            [*SYNAPSE, "loopback", "watch"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=clean_environment(home),
        )
        with watch:
            assert chat.in_pipe().returncode == 8
            assert watch.stdout is not None
            assert watch.stderr is not None
            asked, declined = (json.loads(watch.stdout.readline()) for _ in range(2))
            assert (asked["type"], declined["type"]) == ("asked", "declined")
            assert asked["approval"]["id"] == declined["approval_id"]
            assert synapse_process("loopback", "pending", home=home).returncode == 0
            wait_for_stop(home)
            assert watch.stdout.read() == ""
            assert watch.stderr.read() == "synapse: the daemon is stopping\n"
            assert watch.wait() == 1
