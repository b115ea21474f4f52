"""Read lines and longer texts from the user at the terminal."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from hubd.wire.client import INTERRUPT_SECONDS
from hubd.wire.terminal import clean
from synapse.call.single_keys import END_OF_INPUT, NoKeys, single_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Editors for text of several lines if neither $VISUAL nor $EDITOR is set.
EDITORS = ("editor", "nano", "vi")

# The time in which Enter may follow a key that has decided already, out of habit.
ENTER_SECONDS = 0.3

# Keys that the user typed before the next question.
_typed = b""
# When the last key was pressed that decided at once.
_last_key = float("-inf")


class Withdrawn(Exception):
    """The hub has withdrawn the question."""


class Keyboard:
    """The user's keyboard, until a deadline or until the question is withdrawn.

    All methods raise the same exceptions:

    Raises:
        EOFError: The user has closed the input.
        TimeoutError: The deadline has passed.
        Withdrawn: The hub has withdrawn the question.
    """

    def __init__(self, deadline: float, withdrawal: Callable[[], str | None]) -> None:
        self._deadline = deadline
        self._withdrawal = withdrawal

    def discard_typed(self) -> None:
        """Forget the keys that were typed before the question was shown."""
        global _typed
        import termios

        _typed = b""
        with suppress(termios.error):
            termios.tcflush(0, termios.TCIFLUSH)

    def line(self, prompt: str) -> str:
        """Return a line; the prompt goes to stderr, because stdout is data."""
        global _typed
        self._check()
        sys.stderr.write(prompt)
        sys.stderr.flush()
        while b"\n" not in _typed:
            self._check()
            left = self._deadline - time.monotonic()
            if not select.select([0], [], [], min(left, INTERRUPT_SECONDS))[0]:
                continue
            more = os.read(0, 4096)
            if not more:
                raise EOFError
            _typed += more
        line, _, _typed = _typed.partition(b"\n")
        return line.decode(errors="replace")

    def key(self, prompt: str) -> str:
        """Return a key at once, without Enter; it is shown after the prompt.

        Several characters that come together, such as a pasted text, are one answer: their first
        line. Keys such as arrows are ignored. Without a terminal a line is read.
        """
        global _typed, _last_key
        self._check()
        try:
            with single_keys() as renew:
                sys.stderr.write(prompt)
                sys.stderr.flush()
                while not _typed:
                    self._check()
                    renew()
                    left = self._deadline - time.monotonic()
                    if select.select([0], [], [], min(left, INTERRUPT_SECONDS))[0]:
                        _typed = _without_sequences(os.read(0, 4096))
        except NoKeys:
            return self.line(prompt)
        text, _, _typed = _typed.partition(b"\n")
        if text == END_OF_INPUT:
            raise EOFError
        if len(text) > 1:
            # The other lines of a pasted text must not answer the next question.
            self.discard_typed()
        _last_key = time.monotonic()
        answer = text.decode(errors="replace")
        sys.stderr.write(f"{clean(answer)}\n")
        return answer

    def drop_enter(self) -> None:
        """Forget an Enter that belongs to the last key, before the user enters a text."""
        global _typed
        left = _last_key + ENTER_SECONDS - time.monotonic()
        if left <= 0 or _typed:
            return
        with suppress(NoKeys), single_keys():
            if select.select([0], [], [], left)[0]:
                _typed = os.read(0, 4096).removeprefix(b"\n")

    def lines(self) -> str:
        """Return several lines, the last of which is followed by a single '.'."""
        lines = []
        while (line := self.line("")) != ".":
            lines.append(line)
        return "\n".join(lines)

    def edited(self, message: str, text: str) -> str:
        """Return a text that the user has edited: on the line, or in an editor if it has several.

        Without an editor, the user types the whole text again; no text leaves it as it is.
        """
        if "\n" not in text and clean(text) == text and not _typed and (line := _line_editor()):
            with woken_regularly(self._check):
                return line(f"{message}: ", text)
        if "\n" in text and (editor := _editor()):
            sys.stderr.write(f"{message}: {shlex.join(editor)} is open …\n")
            return self._in_editor(editor, text)
        sys.stderr.write(f"{message} (end with a line that is a single '.'):\n{clean(text)}\n")
        return self.lines() or text

    def _in_editor(self, editor: list[str], text: str) -> str:
        with tempfile.NamedTemporaryFile("w", prefix="synapse-", suffix=".txt") as file:
            file.write(f"{text}\n")
            file.flush()
            # Ctrl-C is for the editor.
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                status = subprocess.call([*editor, file.name])
            except OSError as error:
                sys.stderr.write(f"{editor[0]} can't be started: {error.strerror}\n")
                raise EOFError from None
            finally:
                signal.signal(signal.SIGINT, before)
            # The editor may have replaced the file.
            with open(file.name, encoding="utf-8", errors="surrogateescape") as saved:
                edited = saved.read().removesuffix("\n")
        self._check()
        if status:
            raise EOFError
        return edited

    def _check(self) -> None:
        if reason := self._withdrawal():
            raise Withdrawn(reason)
        if time.monotonic() >= self._deadline:
            raise TimeoutError


@contextmanager
def woken_regularly(check: Callable[[], object]) -> Iterator[None]:
    """Call a function regularly while a library waits for the user.

    Each call also lets a Ctrl-C take effect that came just before the library began to wait.
    """

    def wake(*_: object) -> None:
        check()

    before = signal.signal(signal.SIGALRM, wake)
    signal.setitimer(signal.ITIMER_REAL, INTERRUPT_SECONDS, INTERRUPT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _without_sequences(typed: bytes) -> bytes:
    """Return typed characters without those of keys that send a sequence, such as arrows."""
    import re

    return re.sub(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?", b"", typed)


def erase_line() -> None:
    """Remove the text of the current line, or end it on a terminal that can't."""
    can_erase = os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")
    sys.stderr.write("\r\x1b[K" if can_erase else "\n")


def _editor() -> list[str] | None:
    """Return the command of the user's editor; None if there is none."""
    for name in ("VISUAL", "EDITOR"):
        with suppress(ValueError):
            if words := shlex.split(os.environ.get(name, "")):
                return words
    return next(([name] for name in EDITORS if shutil.which(name)), None)


def _line_editor() -> Callable[[str, str], str] | None:
    """Return a function that edits one line; None if this Python or this terminal has none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        import readline
    except ImportError:
        return None

    def edit(prompt: str, text: str) -> str:
        readline.set_startup_hook(lambda: readline.insert_text(text))
        readline.set_auto_history(False)
        try:
            return input(prompt)
        finally:
            readline.set_startup_hook(None)

    return edit
