"""Hostile text can't move the cursor, change the title or break the layout in any view."""

import unicodedata
from pathlib import Path

import pytest

from tests.synapse.screens.emulator import Emulator, sequences
from tests.synapse.support import Terminal, at_terminal

# A view's own sequences: go up, erase, hide and show the cursor.
_OWN = ("\r", "\x1b[J", "\x1b[K", "\x1b[?25l", "\x1b[?25h")
VIEWS = {
    "chat": "studio chat --name x --prompt Hello --text hostile --thinking",
    "failed chat": "studio chat --name x --prompt Hello --text hostile --end error",
    "replay of a chat": "studio replay --text hostile --thinking",
    "replay of messages": "studio messages --bad --thinking",
    "tree": "studio tree --bad",
    "list": "studio table --bad",
    "record": "studio record --bad",
    "text": "studio words --text hostile",
    "error": "studio fail --bad",
    "process": "studio process",
}


def check(text: str, columns: int) -> Emulator:
    """Check that an output only adds text to the screen."""
    emulator = Emulator(columns)
    emulator.write(text)
    others = [each for each in sequences(text) if each not in _OWN]
    # A view goes up only to lines that it has written itself.
    assert [each for each in others if not (each.startswith("\x1b[") and each[-1] == "A")] == []
    assert (emulator.titles, emulator.bells) == ([], 0)
    assert pyte_modes(emulator)
    shown = "\n".join(emulator.all_lines())
    invisible = {character for character in shown if unicodedata.category(character) == "Cf"}
    # The joiner of an emoji belongs to ordinary text.
    assert invisible <= {"\u200d"}
    return emulator


def pyte_modes(emulator: Emulator) -> bool:
    """Return whether the modes of the terminal are those of a new one."""
    return emulator.mode == Emulator(emulator.columns).mode and not emulator.cursor.hidden


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_stays_whole_with_hostile_text(cli_home: Path, view: str) -> None:
    for columns in (40, 100):
        _, text = at_terminal(*VIEWS[view].split(), home=cli_home, columns=columns)
        emulator = check(text, columns)
        assert "evil" in "".join(emulator.all_lines())


def test_a_hostile_approval_stays_whole(cli_home: Path) -> None:
    command = ("studio", "approve", "--message", "hostile")
    with Terminal(*command, home=cli_home, columns=40) as terminal:
        terminal.until("?] ")
        terminal.type("n")
        status, text = terminal.finish()
    lines = check(text, 40).all_lines()
    assert (status, lines[0]) == (0, "? Bash wants to run:")


@pytest.mark.parametrize("piece", ["1", "100000"])
def test_a_long_line_of_marks_is_shown_to_its_end(cli_home: Path, piece: str) -> None:
    answer = "> " * 2000 + "[" * 2000 + "e" + "\u0301" * 2000 + " the end"
    words = ("studio", "chat", "--name", "x", "--prompt", "p", "--text", answer, "--size", piece)
    _, text = at_terminal(*words, home=cli_home, columns=40)
    joined = "".join(check(text, 40).all_lines())
    assert "the end" in joined
