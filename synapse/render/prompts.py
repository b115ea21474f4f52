"""Questions of a method: asked on the terminal, or answered from the command line."""

from __future__ import annotations

import json
import sys
from typing import Any

from synapse.errors import CommandError
from synapse.render.safe import clean

YES = ("y", "yes", "true", "1")
NO = ("n", "no", "false", "0")


def read_answer(question: dict[str, Any], text: str) -> dict[str, Any]:
    """The answer that a text given with --answer stands for.

    Raises:
        CommandError: It does not fit the question.
    """
    kind = question["type"]
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


def ask(question: dict[str, Any]) -> dict[str, Any]:
    """Ask the person at the terminal; an end of input declines."""
    kind = question["type"]
    try:
        if kind == "confirm":
            return {"type": "confirmed", "value": _confirm(question)}
        if kind == "prompt":
            return {"type": "text", "value": _prompt(question)}
        if kind == "select":
            return {"type": "selected", "values": _select(question)}
        say(clean(json.dumps(question.get("data"), ensure_ascii=False, indent=2)))
        return read_answer(question, _line("answer as JSON: "))
    except EOFError:
        say("")
        return {"type": "cancelled"}


def _confirm(question: dict[str, Any]) -> bool:
    default = question.get("default")
    choices = {True: "[Y/n]", False: "[y/N]", None: "[y/n]"}[default]
    while True:
        text = _line(f"{clean(question['message'])} {choices} ").strip().lower()
        if not text and default is not None:
            return bool(default)
        if text in YES + NO:
            return text in YES
        say("Please answer yes or no.")


def _prompt(question: dict[str, Any]) -> str:
    default, placeholder = question.get("default"), question.get("placeholder")
    extra = f" [{default}]" if default else f" ({placeholder})" if placeholder else ""
    message = f"{clean(question['message'])}{clean(extra)}: "
    if not question.get("multiline"):
        return _line(message) or str(default or "")
    say(f"{message}(end with a line that is a single '.')")
    lines = []
    while (line := _line("")) != ".":
        lines.append(line)
    return "\n".join(lines) or str(default or "")


def _select(question: dict[str, Any]) -> list[str]:
    say(clean(question["message"]))
    for number, option in enumerate(question["options"], start=1):
        more = f" - {option['description']}" if option.get("description") else ""
        say(f"  {number}) {clean(option['label'])}{clean(more)}")
    many = question.get("multiSelect")
    while True:
        text = _line("numbers, separated by commas: " if many else "number: ")
        try:
            return [_option(question, part) for part in (text.split(",") if many else [text])]
        except CommandError as error:
            say(error.message)


def _option(question: dict[str, Any], text: str) -> str:
    """The value that a number, a label or the value itself stands for."""
    text = text.strip()
    options = question["options"]
    for option in options:
        if text == option["value"] or text.lower() == option["label"].lower():
            return str(option["value"])
    if text.isdecimal() and 1 <= int(text) <= len(options):
        return str(options[int(text) - 1]["value"])
    values = ", ".join(option["value"] for option in options)
    raise CommandError(f"{text!r} is not one of {values}", status=2)


def _line(prompt: str) -> str:
    """A line from the terminal; the prompt goes to stderr, because stdout is data."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def say(text: str) -> None:
    """A line for the person."""
    sys.stderr.write(text + "\n")
