"""Read the answers to a method's questions, from the terminal or from --answer."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

from hubd.wire.terminal import clean, one_line
from synapse.call.keyboard import Keyboard, Withdrawn, erase_line
from synapse.call.paint import paint
from synapse.errors import CommandError
from synapse.render.chat.diff import diff_style, is_diff

if TYPE_CHECKING:
    from collections.abc import Callable

YES = ("y", "yes", "true", "1")
NO = ("n", "no", "false", "0")
# Typed at a question, it explains the options.
EXPLAIN = "?"


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
        return _ask(question, Keyboard(deadline, withdrawal))
    except TimeoutError:
        _print("")
        return None
    except Withdrawn as reason:
        erase_line()
        _print(f"No answer is needed any more: {one_line(str(reason))}")
        return None
    except CommandError:
        # The daemon has ended. Its message begins a new line.
        _print("")
        raise


def _ask(question: dict[str, Any], keyboard: Keyboard) -> dict[str, Any]:
    kind = question.get("type")
    if kind in ("confirm", "select"):
        # Keys that were meant for something else decide nothing.
        keyboard.discard_typed()
    try:
        if kind == "confirm":
            return {"type": "confirmed", "value": _confirm(question, keyboard)}
        if kind == "prompt":
            return {"type": "text", "value": _prompt(question, keyboard)}
        if kind == "select":
            return {"type": "selected", "values": _select(question, keyboard)}
        _print(clean(json.dumps(question.get("data"), ensure_ascii=False, indent=2)))
        return read_answer(question, keyboard.line("answer as JSON: "))
    except EOFError:
        _print("")
        return {"type": "cancelled"}


def _confirm(question: dict[str, Any], keyboard: Keyboard) -> bool:
    default = question.get("default")
    choices = "[y/n]" if default is None else "[Y/n]" if default else "[y/N]"
    while True:
        text = keyboard.line(f"{_message(question)} {choices} ").strip().lower()
        if not text and default is not None:
            return bool(default)
        if text in YES + NO:
            return text in YES
        _print("Please answer yes or no.")


def _prompt(question: dict[str, Any], keyboard: Keyboard) -> str:
    default, placeholder = question.get("default"), question.get("placeholder")
    multiline = question.get("multiline")
    if multiline and default:
        return keyboard.edited(_message(question), str(default))
    extra = f" [{default}]" if default else f" ({placeholder})" if placeholder else ""
    message = f"{_message(question)}{clean(extra)}: "
    if not multiline:
        return keyboard.line(message) or str(default or "")
    _print(f"{message}(end with a line that is a single '.')")
    return keyboard.lines()


def _select(question: dict[str, Any], keyboard: Keyboard) -> list[str]:
    options = _options(question)
    many = bool(question.get("multiSelect"))
    keys = [key for option in options if (key := _key(option))]
    _print(_painted(_message(question)))
    is_short = len(keys) == len(options) and not many
    if is_short:
        _print(_row(options))
        prompt = f"[{','.join((*keys, EXPLAIN))}] "
    else:
        _print(_list(options))
        prompt = "answer" if keys else "number"
        prompt = f"{prompt}s, separated by commas: " if many else f"{prompt}: "
    while True:
        text = keyboard.line(prompt).strip()
        if is_short and text in ("", EXPLAIN):
            if text:
                _print(_list(options))
            continue
        try:
            parts = text.split(",") if many else [text]
            return list(dict.fromkeys(_option(question, part, typed=True) for part in parts))
        except CommandError as error:
            _print(error.message)


def _painted(message: str) -> str:
    """Return a message with a mark, its first line and the lines of a diff in colours.

    A message of two short lines becomes one.
    """
    first, *others = message.split("\n")
    if len(others) == 1 and len(first) + len(others[0]) < shutil.get_terminal_size().columns:
        first, others = f"{first} {others[0].strip()}", []
    bodies = [line.removeprefix("  ") for line in others]
    styles = map(diff_style, bodies) if is_diff(bodies) else [""] * len(bodies)
    lines = [paint(line, style) for line, style in zip(others, styles, strict=True)]
    return "\n".join([paint(f"? {first}", "bold yellow"), *lines])


def _row(options: list[dict[str, Any]]) -> str:
    """Return the keys and labels of options, in lines that fit the terminal."""
    width = shutil.get_terminal_size().columns
    lines: list[str] = []
    for option in options:
        part = f"{_key(option)} {clean(_label(option))}"
        if lines and len(lines[-1]) + len(part) + 3 < width:
            lines[-1] += f" · {part}"
        else:
            lines.append(f"  {part}")
    return "\n".join(lines)


def _list(options: list[dict[str, Any]]) -> str:
    """Return the options with their descriptions, a line or more for each."""
    lines = []
    for number, option in enumerate(options, start=1):
        first, *others = clean(str(option.get("description") or "")).splitlines() or [""]
        about = f" - {first}" if first else ""
        lines.append(f"  {_key(option) or number}) {clean(_label(option))}{about}")
        lines += [f"     {line}" for line in others]
    return "\n".join(lines)


def _option(question: dict[str, Any], text: str, *, typed: bool = False) -> str:
    """Return the value of an option, by its value, label, key or number.

    If it was typed, the key and the number come first, because the user sees them.
    """
    text = text.strip()
    options = _options(question)
    by_name = [str(option.get("value")) for option in options], list(map(_label, options))
    by_mark = list(map(_key, options)), [str(number + 1) for number in range(len(options))]
    for names in (*by_mark, *by_name) if typed else (*by_name, *by_mark):
        for fold in (str, str.lower):
            for option, name in zip(options, names, strict=True):
                if text and fold(name) == fold(text):
                    return str(option.get("value"))
    shown = ", ".join(_key(option) or str(option.get("value")) for option in options)
    raise CommandError(f"{text!r} is not one of {shown}", status=2)


def _options(question: dict[str, Any]) -> list[dict[str, Any]]:
    options = question.get("options")
    return [option for option in options if isinstance(option, dict)] if options else []


def _key(option: dict[str, Any]) -> str:
    return clean(str(option.get("key") or ""))


def _label(option: dict[str, Any]) -> str:
    return str(option.get("label") or option.get("value"))


def _message(question: dict[str, Any]) -> str:
    return clean(str(question.get("message") or "The method asks"))


def _print(text: str) -> None:
    """Print a line for the user; stdout is data."""
    sys.stderr.write(text + "\n")
