"""The prompt of a third-party plugin: several lines, commands, and a terminal that changes."""

from pathlib import Path

from tests.screen import screen
from tests.synapse.support import Terminal

PROMPT = "room ❯ "


def test_any_plugin_has_a_prompt_with_lines_commands_and_a_changing_width(cli_home: Path) -> None:
    chat = ("studio", "chat", "--name", "room", "--text", "one two three four five six seven")
    with Terminal(*chat, home=cli_home, columns=80) as terminal:
        before = terminal.settings
        terminal.until(PROMPT)
        # Alt-Enter.
        terminal.type("first\x1b\rsecond\r")
        terminal.until("8.4 s")
        terminal.until(PROMPT)
        terminal.resize(20)
        terminal.type("narrow\r")
        terminal.until("one two three four\r\n")
        terminal.until(PROMPT)
        terminal.resize(80)
        terminal.type("/list\r")
        terminal.until("Summarise the logs")
        terminal.until(PROMPT)
        # The arrow key brings back both lines of the first text.
        terminal.type("\x1b[A\x1b[A\x1b[A")
        terminal.until("second")
        terminal.type("\x03")
        terminal.until(PROMPT)
        terminal.type("\x04")
        status, text = terminal.finish(before=before)
    assert status == 0
    assert "one two three four five six seven" in text


def test_a_pasted_text_is_one_text_with_all_its_lines(cli_home: Path) -> None:
    chat = ("studio", "chat", "--name", "pasted", "--text", "short")
    with Terminal(*chat, home=cli_home, columns=80) as terminal:
        terminal.until("pasted ❯ ")
        # The terminal marks the start and the end of a pasted text.
        terminal.type("\x1b[200~first\n\n/quit\n\x1b[201~ and more\r")
        terminal.until("8.4 s")
        terminal.until("pasted ❯ ")
        terminal.type("\x1b[A")
        terminal.until(" and more")
        terminal.type("\x03")
        terminal.until("pasted ❯ ")
        terminal.type("\x04")
        status, text = terminal.finish()
    assert (status, text.count("8.4 s")) == (0, 1)


def test_a_command_of_any_plugin_writes_its_lines(cli_home: Path) -> None:
    with Terminal("studio", "process", home=cli_home) as terminal:
        status, text = terminal.finish()
    assert (status, screen(text, 200)[0][:6]) == (0, "a line")
