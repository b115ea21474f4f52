"""A conversation at a prompt: turns, history, commands, Ctrl-C, and its end."""

import json
import stat
from pathlib import Path

import pytest

from synapse.conversation import history
from synapse.conversation.slash_commands import split_command
from tests.synapse.support import Terminal, refusal, synapse

CHAT = ("claudecode", "chat", "--model", "offline", "--name")


@pytest.fixture(scope="module")
def home(cli_home: Path) -> Path:
    return cli_home


def test_two_turns_and_ctrl_d(home: Path) -> None:
    with Terminal(*CHAT, "two", home=home) as terminal:
        terminal.until("two ❯ ")
        terminal.type("say: The **first**.\n")
        terminal.until("· two")
        terminal.until("two ❯ ")
        terminal.type("say: One\\\n")
        terminal.until("… ")
        terminal.type("say: Two\n")
        terminal.until("✓")
        terminal.until("two ❯ ")
        terminal.type("\x04")
        status, text = terminal.finish()
    assert status == 0
    # The prompt is not repeated, because the user has just typed it.
    assert "> say" not in text
    streams = synapse("claudecode", "streams", "--name", "two", "-o", "json", home=home)
    prompts = [row["prompt"] for row in json.loads(streams.stdout)[0]["streams"]]
    assert prompts == ["say: One say: Two", "say: The **first**."]


def test_the_history_belongs_to_the_session_and_to_the_user(home: Path) -> None:
    with Terminal(*CHAT, "past", home=home) as terminal:
        terminal.until("past ❯ ")
        terminal.type("say: remembered\n")
        terminal.until("✓")
        terminal.until("past ❯ ")
        terminal.type("\x04")
        assert terminal.finish()[0] == 0
    with Terminal(*CHAT, "past", home=home) as terminal:
        terminal.until("past ❯ ")
        terminal.type("\x1b[A")
        terminal.until("say: remembered")
        # Ctrl-C leaves the line, not the conversation.
        terminal.type("\x03")
        terminal.until("past ❯ ")
        terminal.type("/quit\n")
        assert terminal.finish()[0] == 0
    with Terminal(*CHAT, "elsewhere", home=home) as terminal:
        terminal.until("elsewhere ❯ ")
        terminal.type("\x1b[A\x04")
        assert "remembered" not in terminal.finish()[1]
    files = [*home.rglob("history/*.jsonl")]
    assert files
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700


def test_ctrl_c_ends_the_turn_and_not_the_conversation(home: Path) -> None:
    with Terminal(*CHAT, "stopped", home=home) as terminal:
        terminal.until("stopped ❯ ")
        terminal.type("hang:\n")
        terminal.until("waiting, as asked")
        terminal.type("\x03")
        terminal.until("✗ ")
        terminal.until("stopped ❯ ")
        terminal.type("say: Again.\n")
        terminal.until("✓")
        terminal.until("stopped ❯ ")
        terminal.type("\x04")
        assert terminal.finish()[0] == 0
    streams = synapse("claudecode", "streams", "--name", "stopped", "-o", "json", home=home)
    statuses = [row["status"] for row in json.loads(streams.stdout)[0]["streams"]]
    assert statuses == ["complete", "cancelled"]


def test_commands_call_methods_and_set_parameters(home: Path) -> None:
    with Terminal(*CHAT, "trunk", home=home) as terminal:
        terminal.until("trunk ❯ ")
        terminal.type("say: Root.\n")
        terminal.until("✓")
        terminal.until("trunk ❯ ")
        terminal.type("/tree\n")
        terminal.until("← trunk")
        terminal.until("trunk ❯ ")
        terminal.type("/fork\n")
        terminal.until("new-name: ")
        terminal.type("branch\n")
        # The conversation continues in the new session.
        terminal.until("branch ❯ ")
        terminal.type("/model\n")
        terminal.until("model: offline")
        terminal.until("branch ❯ ")
        terminal.type("/forg\n")
        terminal.until("Did you mean /fork?")
        terminal.until("branch ❯ ")
        terminal.type("/head beef1234\n")
        terminal.until("synapse: ")
        terminal.until("branch ❯ ")
        terminal.type("/help\n")
        terminal.until("/head NODE-ID")
        terminal.until("branch ❯ ")
        terminal.type("\x04")
        assert terminal.finish()[0] == 0


def test_an_approval_is_answered_between_prompts(home: Path, tmp_path: Path) -> None:
    with Terminal(*CHAT, "asked", "--working-dir", str(tmp_path), home=home) as terminal:
        terminal.until("asked ❯ ")
        terminal.type("run: touch ran\n")
        terminal.until("? Bash wants to run")
        terminal.until("?] ")
        terminal.type("y\n")
        terminal.until("✓")
        terminal.until("asked ❯ ")
        terminal.type("\x04")
        assert terminal.finish()[0] == 0
    assert (tmp_path / "ran").exists()


def test_any_plugin_can_have_a_prompt(home: Path) -> None:
    with Terminal("cli", "converse", "--room", "red", home=home) as terminal:
        terminal.until("red ❯ ")
        terminal.type("hello\n")
        terminal.until("red heard hello")
        terminal.until("red ❯ ")
        # Without a method that ends a turn, Ctrl-C leaves the call.
        terminal.type("wait\n")
        terminal.until("waiting in red")
        terminal.type("\x03")
        terminal.until("red ❯ ")
        terminal.type("/note milk\n")
        terminal.until("milk")
        terminal.until("red ❯ ")
        terminal.type("/room blue\n")
        terminal.until("blue ❯ ")
        terminal.type("\x04")
        assert terminal.finish()[0] == 0


def test_without_a_terminal_the_parameter_is_missing(home: Path) -> None:
    assert "--prompt" in refusal(synapse(*CHAT, "piped", home=home), 2)
    for option in ("-j", "--no-input"):
        with Terminal(*CHAT, "piped", option, home=home) as terminal:
            status, text = terminal.finish()
        assert (status, "missing" in text) == (2, True), option


def test_other_missing_parameters_are_mistakes_at_a_terminal(home: Path) -> None:
    with Terminal("claudecode", "chat", home=home) as terminal:
        status, text = terminal.finish()
    assert (status, "--name" in text) == (2, True)


def test_a_text_that_begins_with_a_path_is_not_a_command() -> None:
    assert split_command("/fork a1 ") == ("fork", "a1")
    assert split_command("/usr/bin is full")[0] == ""
    assert split_command(" /fork")[0] == ""
    assert split_command("/")[0] == ""


def test_a_damaged_or_long_history_is_read_as_far_as_possible(tmp_path: Path) -> None:
    file = tmp_path / "history" / "a.jsonl"
    history.add(str(file), "one\ntwo")
    with file.open("a") as end:
        end.write('{"not": "a text"}\n"cut off')
    assert history.load(str(file)) == ["one\ntwo"]
    file.write_text("".join(f'"{number}"\n' for number in range(3 * history.MAX_ENTRIES)))
    assert len(history.load(str(file))) == history.MAX_ENTRIES
    assert len(file.read_text().splitlines()) == history.MAX_ENTRIES
    history.add("/proc/none/history", "not an error")
    assert history.load("/proc/none/history") == []
