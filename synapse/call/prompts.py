"""Read the answers to a method's questions, from the terminal or from --answer."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from hubd.wire.terminal import clean, one_line
from synapse.call.keyboard import Keyboard, Withdrawn, erase_line
from synapse.call.paint import paint
from synapse.call.single_keys import NoKeys, single_keys
from synapse.errors import CommandError
from synapse.render.chat.diff import diff_style, is_diff
from synapse.render.wrapping import chopped, wrapped

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
    keyboard.drop_enter()
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
    # If every option has a key, one key is the answer.
    if many or len(keys) < len(options):
        _print(f"{_painted(_message(question))}\n{_list(options)}")
        prompt = "answer" if keys else "number"
        prompt = f"{prompt}s, separated by commas: " if many else f"{prompt}: "
        return _chosen(question, lambda: keyboard.line(prompt).strip(), many=many)
    prompt = f"[{','.join((*keys, EXPLAIN))}] "

    def read() -> str:
        while (text := keyboard.key(prompt).strip()) in ("", EXPLAIN):
            if text:
                _print(_list(options))
        return text

    with ExitStack() as stack:
        # Before the question is shown, so that no key is echoed. Without such a terminal,
        # `key` reads lines.
        with suppress(NoKeys):
            stack.enter_context(single_keys())
            keyboard.discard_typed()
        _print(f"{_painted(_message(question))}\n{_row(options)}")
        return _chosen(question, read, many=False)


def _chosen(question: dict[str, Any], read: Callable[[], str], *, many: bool) -> list[str]:
    """Return the values of the options that the user chooses, after any number of mistakes."""
    while True:
        text = read()
        try:
            parts = text.split(",") if many else [text]
            return list(dict.fromkeys(_option(question, part, typed=True) for part in parts))
        except CommandError as error:
            _print(error.message)


def _painted(message: str) -> str:
    """Return a message with a mark, its first line and the lines of a diff in colours.

    A message of two short lines becomes one. The first line is folded at spaces. The other lines
    are the call that the user judges, so they are folded without losing a character.
    """
    first, *others = message.split("\n")
    width = shutil.get_terminal_size().columns
    if len(others) == 1 and cell_len(first) + cell_len(others[0]) < width:
        first, others = f"{first} {others[0].strip()}", []
    bodies = [line.removeprefix("  ") for line in others]
    styles = map(diff_style, bodies) if is_diff(bodies) else [""] * len(bodies)
    lines = [paint(part, "bold yellow") for part in wrapped(f"? {first}", indent="  ")]
    for line, style in zip(others, styles, strict=True):
        lines += [paint(part, style) for part in chopped(line, "    ")]
    return "\n".join(lines)


def _row(options: list[dict[str, Any]]) -> str:
    """Return the keys and labels of options, in lines that fit the terminal."""
    width = shutil.get_terminal_size().columns
    rows: list[list[tuple[str, str]]] = []
    room = 0
    for option in options:
        key, label = _key(option), one_line(_label(option))
        needed = cell_len(f"{key} {label}") + 3
        if not rows or needed > room:
            rows.append([])
            room = width - 2 + 3
        rows[-1].append((key, label))
        room -= needed
    return "\n".join(
        "  " + " · ".join(f"{paint(key, 'bold')} {label}" for key, label in row) for row in rows
    )


def _list(options: list[dict[str, Any]]) -> str:
    """Return the options with their descriptions, a line or more for each."""
    lines = []
    for number, option in enumerate(options, start=1):
        first, *others = clean(str(option.get("description") or "")).splitlines() or [""]
        description = f" - {first}" if first else ""
        line = f"  {_key(option) or number}) {clean(_label(option))}{description}"
        lines += wrapped(line, indent="     ")
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
    choices = ", ".join(_key(option) or str(option.get("value")) for option in options)
    raise CommandError(f"{text!r} is not one of {choices}", status=2)


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
