"""An approval as a question to a person: its text, its options, and the edited input. No hub."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hubd.activation import Option
from hubd.plugins.loopback.tool_text import body, heading
from hubd.wire.terminal import is_visible, reveal

ASK_USER: Final = "AskUserQuestion"
EXIT_PLAN: Final = "ExitPlanMode"

_DETAILS: Final = Option("details", "details", "Show the whole input", "d")
OPTIONS: Final = (
    Option("allow", "allow", "Run it once", "y"),
    Option("deny", "deny", "The agent is told that it was denied", "n"),
    Option("message", "deny with a message", "The agent reads your message", "m"),
    Option("edit", "edit", "Change the input, then run it once", "e"),
    Option("session", "allow for this session", "Remember exactly this call", "s"),
    Option("always", "always allow", "Remember exactly this call for all sessions", "a"),
    _DETAILS,
)
PLAN_OPTIONS: Final = (
    Option("allow", "start", "The agent leaves plan mode", "y"),
    Option("deny", "keep planning", "The agent stays in plan mode", "n"),
    Option("message", "keep planning, with a message", "The agent reads your message", "m"),
    _DETAILS,
)

OTHER: Final = "other"
DECLINE: Final = "decline"
# Choices beside those of an agent's own question.
QUESTION_OPTIONS: Final = (
    Option(OTHER, "another answer", key="o"),
    Option(DECLINE, "don't answer", key="n"),
)
# The most options of an agent's question, and the most lines of one option's preview.
MAX_OPTIONS: Final = 50
MAX_PREVIEW_LINES: Final = 20


def describe(approval: Mapping[str, Any]) -> str:
    """Return the text of the question. It may read the file that the call would change.

    Args:
        approval: The approval as clients see it.
    """
    text = body(approval)
    if not text:
        return f"{heading(approval)}?"
    return "\n".join([f"{heading(approval)}:", *(f"  {line}" for line in text.split("\n"))])


def options_for(tool: str) -> Sequence[Option]:
    """Return the answers that a person may give about a tool."""
    return PLAN_OPTIONS if tool == EXIT_PLAN else OPTIONS


class Editable(NamedTuple):
    """The part of an input that a person edits."""

    # The name of the field; None if the whole input is edited, as JSON.
    field: str | None
    text: str


def editable(tool_input: Mapping[str, Any]) -> Editable:
    """Return the part of an input to edit: a command as it is, any other input as JSON.

    Text with invisible characters is edited as JSON too, where they are escapes.
    """
    command = tool_input.get("command")
    if isinstance(command, str) and is_visible(command):
        return Editable("command", command)
    text = json.dumps(tool_input, indent=2, ensure_ascii=False)
    return Editable(None, text if is_visible(text) else json.dumps(tool_input, indent=2))


def edited(tool_input: Mapping[str, Any], field: str | None, text: str) -> dict[str, Any]:
    """Return the input with the edited text.

    Raises:
        ValueError: The text is not a JSON object.
    """
    if field is not None:
        return {**tool_input, field: text}
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("the input must be a JSON object")
    return value


class UserQuestion(NamedTuple):
    """A question of an agent to its user."""

    text: str
    header: str
    # Empty if the answer is any text.
    labels: list[str]
    # One for each label, its values being numbers from 1; then the other choices.
    options: list[Option]
    multi: bool

    def answer(self, values: Sequence[str]) -> str:
        """Return the answer for chosen values, as the agent reads it."""
        chosen = [self.labels[int(value) - 1] for value in values if value.isdecimal()]
        return ", ".join(chosen)


def user_questions(tool_input: Mapping[str, Any]) -> list[UserQuestion]:
    """Return the questions of an `AskUserQuestion` call; none if its input is malformed."""
    listed = tool_input.get("questions")
    if not isinstance(listed, list):
        return []
    return [_user_question(entry) for entry in listed if isinstance(entry, dict)]


def _user_question(entry: Mapping[str, Any]) -> UserQuestion:
    listed = entry.get("options")
    choices = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    labels = [str(one.get("label") or "") for one in choices[:MAX_OPTIONS]]
    options = [
        Option(str(number), reveal(label), _description(one) or None)
        for number, (label, one) in enumerate(zip(labels, choices, strict=False), start=1)
    ]
    return UserQuestion(
        str(entry.get("question") or ""),
        str(entry.get("header") or ""),
        labels,
        [*options, *QUESTION_OPTIONS] if options else [],
        bool(entry.get("multiSelect")),
    )


def _description(choice: Mapping[str, Any]) -> str:
    """Return the description of a choice, and its preview on the lines after it."""
    description, preview = choice.get("description"), choice.get("preview")
    if description == choice.get("label"):
        description = None
    lines = preview.splitlines() if isinstance(preview, str) else []
    more = len(lines) - MAX_PREVIEW_LINES
    lines = [*lines[:MAX_PREVIEW_LINES], *([f"… {more} more lines"] if more > 0 else [])]
    return reveal("\n".join([str(description or ""), *lines]).rstrip())
