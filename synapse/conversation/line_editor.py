"""Read lines at a prompt, with editing, history and completion by the system's readline.

readline comes with Python, costs nothing to import, knows the user's key bindings, and works over
ssh and in tmux. Without it lines are read as they are.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from hubd.wire.terminal import one_line
from synapse.call.keyboard import woken_regularly
from synapse.conversation import history

if TYPE_CHECKING:
    from types import ModuleType

CONTINUATION = "… "
_BINDINGS = (
    # Alt-Enter inserts a line feed: `quoted-insert`, then the character itself.
    r'"\e\C-m": "\C-v\C-j"',
    r'"\e\C-j": "\C-v\C-j"',
    "tab: complete",
    # A pasted text is one text with all its lines. Python turns that off.
    "set enable-bracketed-paste on",
)


class LineEditor:
    """The prompt of a conversation.

    Args:
        words: The words that the tab key completes at the start of a line.
    """

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._readline = _readline()
        self._file = ""
        if self._readline is not None:
            self._readline.set_auto_history(False)
            self._readline.set_completer(self._complete)
            # The slash of a command is not a delimiter.
            self._readline.set_completer_delims(" ")
            if "libedit" not in (self._readline.__doc__ or ""):
                for binding in _BINDINGS:
                    self._readline.parse_and_bind(binding)

    def use_history(self, file: str) -> None:
        """Continue with the history of a conversation."""
        self._file = file
        if self._readline is not None:
            self._readline.clear_history()
            for entry in history.load(file):
                self._readline.add_history(entry)

    def read(self, label: str) -> str | None:
        """Return the text that the user enters; None at the end of the input.

        A line that ends with a backslash continues on the next one.

        Raises:
            KeyboardInterrupt: The user pressed Ctrl-C.
        """
        mark = "❯" if "utf" in (sys.stdout.encoding or "").lower() else ">"
        prompt = f"{one_line(label)} {mark} ".lstrip()
        lines: list[str] = []
        try:
            line = _input(self._coloured(prompt))
            while line.endswith("\\"):
                lines.append(line[:-1])
                line = _input(CONTINUATION)
        except EOFError:
            sys.stdout.write("\n")
            return None
        text = "\n".join([*lines, line])
        if text.strip():
            self._remember(text)
        return text

    def ask(self, name: str) -> str:
        """Return a value that a command needs; empty if the user gives none.

        Raises:
            KeyboardInterrupt: The user pressed Ctrl-C.
        """
        try:
            return _input(f"{one_line(name)}: ").strip()
        except EOFError:
            sys.stdout.write("\n")
            return ""

    def _remember(self, text: str) -> None:
        history.add(self._file, text)
        if self._readline is not None:
            self._readline.add_history(text)

    def _complete(self, text: str, number: int) -> str | None:
        matches = [f"{word} " for word in self._words if text and word.startswith(text)]
        return matches[number] if number < len(matches) else None

    def _coloured(self, prompt: str) -> str:
        is_dumb = os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
        if is_dumb or self._readline is None:
            return prompt
        # readline does not count the characters between these marks.
        return f"\001\x1b[1m\002{prompt}\001\x1b[0m\002"


def _input(prompt: str) -> str:
    with woken_regularly(lambda: None):
        return input(prompt)


def _readline() -> ModuleType | Any | None:
    try:
        import readline
    except ImportError:
        return None
    return readline
