"""No flicker: a chat that streams rewrites only lines that change, and never the scrollback."""

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from synapse.render.chat.region import Region
from tests.synapse.screens.emulator import Emulator
from tests.synapse.support import at_terminal

LINES = 50
# One drawing: how far it goes up before it erases, and the text that it writes.
_DRAWING = re.compile(r"\x1b\[(\d+)A\r\x1b\[K\n\x1b\[J\x1b\[A")
# What erases the lines below; one sequence alone would erase the whole screen from its first line.
_ERASED = "\x1b[K\n\x1b[J\x1b[A"
ANSWER = "\n".join(
    f"Paragraph {number} has some words that are longer than a narrow line.\n"
    if number % 3
    else f"- item {number}\n- another\n"
    for number in range(60)
)


@pytest.mark.parametrize("columns", [40, 100])
def test_a_streaming_chat_rewrites_only_what_changes(cli_home: Path, columns: int) -> None:
    words = ("studio", "chat", "--name", "x", "--prompt", "p", "--text", ANSWER, "--size", "9")
    _, text = at_terminal(*words, home=cli_home, columns=columns)
    emulator = Emulator(columns, LINES)
    first, *parts = _DRAWING.split(text)
    emulator.write(first)
    assert parts, "nothing was drawn again"
    for up, drawn in zip(parts[::2], parts[1::2], strict=True):
        assert int(up) < LINES
        scrolled = len(emulator.history.top)
        before = emulator.all_lines()
        emulator.write(f"\x1b[{up}A\r")
        start = len(emulator.history.top) + emulator.cursor.y
        # The lines above the drawing, and all that have left the screen, stay as they are.
        assert start >= scrolled
        emulator.write(f"{_ERASED}{drawn}")
        after = emulator.all_lines()
        assert after[:start] == before[:start]
        # The first line that is written again is another one than before.
        assert len(after) <= start or after[start:] != before[start:]
        plain = re.sub(r"\x1b\[[0-9;]*m", "", drawn).split("\n")[0]
        assert start >= len(before) or plain.rstrip() != before[start]
    # Streamed text ends as the same text in one piece.
    whole = Emulator(columns, LINES)
    whole.write(at_terminal(*words[:-1], "100000", home=cli_home, columns=columns)[1])
    assert emulator.all_lines() == whole.all_lines()


def test_lines_at_the_top_of_the_screen_are_not_kept_in_the_scrollback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setenv("TERM", "tmux-256color")
    region = Region(Console(width=20, height=10, force_terminal=True, highlight=False))
    for number in range(5):
        region.update([], [Text(f"first {number}"), Text(f"second {number}")])
    emulator = Emulator(20, 10)
    emulator.write(output.getvalue())
    assert emulator.all_lines() == ["first 4", "second 4"]
