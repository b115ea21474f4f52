"""Questions of a method: asked on the terminal, or answered from the command line."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any

from hubd.wire.terminal import clean, one_line
from synapse.client import GLANCE_SECONDS
from synapse.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

YES = ("y", "yes", "true", "1")
NO = ("n", "no", "false", "0")

# What was typed ahead of a question, kept for the next one.
_typed = b""


class Withdrawn(Exception):
    """The question needs no answer any more."""


class _Terminal:
    """The person's keyboard, until a deadline or until the question is withdrawn."""

    def __init__(self, deadline: float, withdrawal: Callable[[], str | None]) -> None:
        self._deadline = deadline
        self._withdrawal = withdrawal

    def line(self, prompt: str) -> str:
        """Return a line; the prompt goes to stderr, because stdout is data.

        Raises:
            EOFError: The person has closed the input.
            TimeoutError: The deadline is over.
            Withdrawn: The hub has withdrawn the question.
        """
        global _typed
        if reason := self._withdrawal():
            raise Withdrawn(reason)
        sys.stderr.write(prompt)
        sys.stderr.flush()
        while b"\n" not in _typed:
            if reason := self._withdrawal():
                raise Withdrawn(reason)
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if not select.select([0], [], [], min(left, GLANCE_SECONDS))[0]:
                continue
            more = os.read(0, 4096)
            if not more:
                raise EOFError
            _typed += more
        line, _, _typed = _typed.partition(b"\n")
        return line.decode(errors="replace")


def read_answer(question: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the answer that a text given with --answer stands for.

    Raises:
        CommandError: It does not fit the question.
    """
    kind = question.get("type")
    if kind == "confirm":
        if text.lower() not in YES + NO:
            raise CommandError(f"--answer {text!r} is neither yes nor no", status=2)
        return {"type": "confirmed", "value": text.lower() in YES}
    if kind == "prompt":
        return {"type": "text", "value": text}
    if kind == "select":
        values = text.split(",") if question.get("multiSelect") else [text]
        return {"type": "selected", "values": [_option(question, value) for value in values]}
    try:
        return {"type": "custom", "data": json.loads(text)}
    except ValueError:
        return {"type": "custom", "data": text}


def ask(
    question: dict[str, Any], deadline: float, withdrawal: Callable[[], str | None]
) -> dict[str, Any] | None:
    """Ask the person at the terminal; an end of input declines.

    Args:
        question: The question.
        deadline: The time by which the answer must be there.
        withdrawal: Returns why the question needs no answer any more, or None.

    Returns:
        The answer; None if there was none by the deadline, or none is needed.
    """
    try:
        return _ask(question, _Terminal(deadline, withdrawal))
    except TimeoutError:
        say("")
        return None
    except Withdrawn as reason:
        say(f"\nThe question was withdrawn: {one_line(str(reason))}")
        return None
    except KeyboardInterrupt:
        say("")
        raise


def _ask(question: dict[str, Any], terminal: _Terminal) -> dict[str, Any]:
    kind = question.get("type")
    try:
        if kind == "confirm":
            return {"type": "confirmed", "value": _confirm(question, terminal)}
        if kind == "prompt":
            return {"type": "text", "value": _prompt(question, terminal)}
        if kind == "select":
            return {"type": "selected", "values": _select(question, terminal)}
        say(clean(json.dumps(question.get("data"), ensure_ascii=False, indent=2)))
        return read_answer(question, terminal.line("answer as JSON: "))
    except EOFError:
        say("")
        return {"type": "cancelled"}


def _confirm(question: dict[str, Any], terminal: _Terminal) -> bool:
    default = question.get("default")
    choices = "[y/n]" if default is None else "[Y/n]" if default else "[y/N]"
    while True:
        text = terminal.line(f"{_message(question)} {choices} ").strip().lower()
        if not text and default is not None:
            return bool(default)
        if text in YES + NO:
            return text in YES
        say("Please answer yes or no.")


def _prompt(question: dict[str, Any], terminal: _Terminal) -> str:
    default, placeholder = question.get("default"), question.get("placeholder")
    extra = f" [{default}]" if default else f" ({placeholder})" if placeholder else ""
    message = f"{_message(question)}{clean(extra)}: "
    if not question.get("multiline"):
        return terminal.line(message) or str(default or "")
    say(f"{message}(end with a line that is a single '.')")
    lines = []
    while (line := terminal.line("")) != ".":
        lines.append(line)
    return "\n".join(lines) or str(default or "")


def _select(question: dict[str, Any], terminal: _Terminal) -> list[str]:
    say(_message(question))
    for number, option in enumerate(_options(question), start=1):
        more = f" - {option['description']}" if option.get("description") else ""
        say(f"  {number}) {clean(_label(option))}{clean(more)}")
    many = question.get("multiSelect")
    while True:
        text = terminal.line("numbers, separated by commas: " if many else "number: ")
        try:
            return [_option(question, part) for part in (text.split(",") if many else [text])]
        except CommandError as error:
            say(error.message)


def _option(question: dict[str, Any], text: str) -> str:
    """The value that a number, a label or the value itself stands for."""
    text = text.strip()
    options = _options(question)
    for option in options:
        if text == str(option.get("value")) or text.lower() == _label(option).lower():
            return str(option.get("value"))
    if text.isdecimal() and 1 <= int(text) <= len(options):
        return str(options[int(text) - 1].get("value"))
    values = ", ".join(str(option.get("value")) for option in options)
    raise CommandError(f"{text!r} is not one of {values}", status=2)


def _options(question: dict[str, Any]) -> list[dict[str, Any]]:
    options = question.get("options")
    return [option for option in options if isinstance(option, dict)] if options else []


def _label(option: dict[str, Any]) -> str:
    return str(option.get("label") or option.get("value"))


def _message(question: dict[str, Any]) -> str:
    return clean(str(question.get("message") or "The method asks"))


def say(text: str) -> None:
    """A line for the person."""
    sys.stderr.write(text + "\n")
