"""An approval as a question to a person: its text, its options, and the edited input. No hub."""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hubd.activation import Option
from hubd.wire.text import shorten

# The most lines of a command, a plan or a diff that a question shows, and characters of a line.
MAX_LINES: Final = 40
MAX_LINE: Final = 400
# Bytes of a file up to which a question shows the change of its content.
MAX_FILE_BYTES: Final = 1024 * 1024

ASK_USER: Final = "AskUserQuestion"
EXIT_PLAN: Final = "ExitPlanMode"

OPTIONS: Final = (
    Option("allow", "Allow", "Run it once"),
    Option("deny", "Deny", "The agent is told that it was denied"),
    Option("message", "Deny with a message", "The agent reads your message"),
    Option("edit", "Edit", "Change the input, then allow it"),
    Option("session", "Allow for this session", "Remember exactly this call in this session"),
    Option("always", "Always allow", "Remember exactly this call for all sessions"),
)

# The field that says most about a call, by tool.
_PRINCIPAL: Final = ("command", "file_path", "notebook_path", "path", "url", "plan", "prompt")


def describe(approval: Mapping[str, Any]) -> str:
    """Return the text of the question.

    Args:
        approval: The approval as clients see it.
    """
    name, tool = approval.get("session_name"), approval["tool_name"]
    where = approval.get("working_dir")
    head = f"{tool} wants to run"
    if name:
        head += f" in session {name}"
    if where:
        head += f", directory {where}"
    if approval.get("agent_id"):
        head += f", for subagent {approval['agent_id']}"
    body = _body(tool, approval["input"])
    return f"{head}:\n{_indented(body)}" if body else f"{head}?"


def editable(tool_input: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the field of an input that a person edits, and its text.

    The field is None if the whole input is edited, as JSON.
    """
    field = "command" if isinstance(tool_input.get("command"), str) else None
    if field is not None:
        return field, str(tool_input[field])
    return None, json.dumps(tool_input, indent=2, ensure_ascii=False)


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


def _body(tool: str, tool_input: Mapping[str, Any]) -> str:
    old, new = tool_input.get("old_string"), tool_input.get("new_string")
    path = tool_input.get("file_path")
    if isinstance(old, str) and isinstance(new, str):
        return f"{path}\n{_diff(old, new)}"
    content = tool_input.get("content")
    if isinstance(content, str) and isinstance(path, str):
        return f"{path}\n{_diff(_current(path), content)}"
    for name in _PRINCIPAL:
        if isinstance(text := tool_input.get(name), str):
            return text
    return json.dumps(tool_input, indent=2, ensure_ascii=False) if tool_input else ""


def _current(path: str) -> str:
    """Return the present content of a file; nothing if it can't be shown."""
    file = Path(path)
    try:
        if file.is_file() and file.stat().st_size <= MAX_FILE_BYTES:
            return file.read_text(errors="replace")
    except OSError:
        pass
    return ""


def _diff(old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2)
    # The first two lines name files.
    return "\n".join([*lines][2:])


def _indented(text: str) -> str:
    lines = [shorten(line, MAX_LINE) for line in text.splitlines()]
    more = len(lines) - MAX_LINES
    if more > 0:
        lines = [*lines[:MAX_LINES], f"… {more} more lines"]
    return "\n".join(f"  {line}" for line in lines)
