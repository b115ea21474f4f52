"""A terminal emulator for tests: the screen, its scrollback, its title and its sequences."""

import re
from collections.abc import Iterator
from typing import Any

import pyte


class Emulator(pyte.HistoryScreen):
    """A screen that notes everything besides text that a program does to it."""

    def __init__(self, columns: int, lines: int = 50) -> None:
        # Set first, because the base class calls methods.
        self.titles: list[str] = []
        self.bells = 0
        super().__init__(columns, lines, history=100_000, ratio=0.5)
        self._parser = pyte.Stream(self)

    def write(self, text: str) -> None:
        """Take the output of a program; the terminal turns a line feed into a new line."""
        self._parser.feed(text.replace("\n", "\r\n"))

    def set_title(self, param: str) -> None:
        """Note a title."""
        self.titles.append(param)

    def set_icon_name(self, param: str) -> None:
        """Note a title."""
        self.titles.append(param)

    def bell(self, *_: Any) -> None:
        """Note a bell."""
        self.bells += 1

    def erase_in_display(self, how: int = 0, *_: Any, **__: Any) -> None:
        """Keep the lines of a screen that is erased as a whole in the scrollback, as tmux does."""
        if how == 0 and (self.cursor.x, self.cursor.y) == (0, 0):
            used = max((line for line, row in self.buffer.items() if row), default=-1) + 1
            for line in range(used):
                self.history.top.append(self.buffer[line])
                del self.buffer[line]
        super().erase_in_display(how)

    def select_graphic_rendition(self, *attributes: int, **options: Any) -> None:
        """Ignore styles: only the text counts."""

    def all_lines(self) -> list[str]:
        """Return the scrollback and the screen, without empty lines at the end."""
        rows = [*self.history.top, *(self.buffer[number] for number in range(self.lines))]
        lines = [
            "".join(row[column].data for column in range(self.columns)).rstrip() for row in rows
        ]
        while lines and not lines[-1]:
            lines.pop()
        return lines


def sequences(text: str) -> Iterator[str]:
    """Yield the control characters and sequences of an output that are not styles."""
    for match in re.finditer(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|.)|[\x00-\x09\x0b-\x1f\x7f-\x9f]", text):
        if not re.fullmatch(r"\x1b\[[0-9;]*m", match[0]):
            yield match[0]
