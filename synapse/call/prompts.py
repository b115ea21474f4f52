"""Read the answers to a method's questions, from the terminal or from --answer."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any

from hubd.wire.client import INTERRUPT_SECONDS
from hubd.wire.terminal import clean, one_line
from synapse.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

YES = ("y", "yes", "true", "1")
NO = ("n", "no", "false", "0")

# Keys that the user typed before the next question.
_typed = b""


class Withdrawn(Exception):
    """The hub has withdrawn the question."""


class _Terminal:
    """The user's keyboard, until a deadline or until the question is withdrawn."""

    def __init__(self, deadline: float, withdrawal: Callable[[], str | None]) -> None:
        self._deadline = deadline
        self._withdrawal = withdrawal

    def line(self, prompt: str) -> str:
        """Return a line; the prompt goes to stderr, because stdout is data.

        Raises:
            EOFError: The user has closed the input.
            TimeoutError: The deadline has passed.
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
            if not select.select([0], [], [], min(left, INTERRUPT_SECONDS))[0]:
                continue
            more = os.read(0, 4096)
            if not more:
                raise EOFError
            _typed += more
        line, _, _typed = _typed.partition(b"\n")
        return line.decode(errors="replace")


def read_answer(question: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the answer from the text of --answer.

    Raises:
        CommandError: The text does not fit the question.
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
    """Ask the user at the terminal; an end of input cancels the question.

    Args:
        question: The question.
        deadline: The end of the wait, on the monotonic clock.
        withdrawal: Returns the reason why the question was withdrawn, or None.

    Returns:
        The answer; None if it did not come in time, or the question was withdrawn.
    """
    try:
        return _ask(question, _Terminal(deadline, withdrawal))
    except TimeoutError:
        _print("")
        return None
    except Withdrawn as reason:
        _print(f"\nThe question was withdrawn: {one_line(str(reason))}")
        return None
    except KeyboardInterrupt:
        _print("")
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
        _print(clean(json.dumps(question.get("data"), ensure_ascii=False, indent=2)))
        return read_answer(question, terminal.line("answer as JSON: "))
    except EOFError:
        _print("")
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
        _print("Please answer yes or no.")


def _prompt(question: dict[str, Any], terminal: _Terminal) -> str:
    default, placeholder = question.get("default"), question.get("placeholder")
    extra = f" [{default}]" if default else f" ({placeholder})" if placeholder else ""
    message = f"{_message(question)}{clean(extra)}: "
    if not question.get("multiline"):
        return terminal.line(message) or str(default or "")
    _print(f"{message}(end with a line that is a single '.')")
    lines = []
    while (line := terminal.line("")) != ".":
        lines.append(line)
    return "\n".join(lines) or str(default or "")


def _select(question: dict[str, Any], terminal: _Terminal) -> list[str]:
    _print(_message(question))
    for number, option in enumerate(_options(question), start=1):
        more = f" - {option['description']}" if option.get("description") else ""
        _print(f"  {number}) {clean(_label(option))}{clean(more)}")
    many = question.get("multiSelect")
    while True:
        text = terminal.line("numbers, separated by commas: " if many else "number: ")
        try:
            return [_option(question, part) for part in (text.split(",") if many else [text])]
        except CommandError as error:
            _print(error.message)


def _option(question: dict[str, Any], text: str) -> str:
    """Return the value of an option, by its number, its label or the value itself."""
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


def _print(text: str) -> None:
    """Print a line for the user; stdout is data."""
    sys.stderr.write(text + "\n")
