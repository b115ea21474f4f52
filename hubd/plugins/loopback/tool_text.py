"""A tool call as text for a person: a command, a diff, a plan. It may read the changed file."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from hubd.wire.summary import PRINCIPAL_FIELDS
from hubd.wire.terminal import escape_json, is_visible, reveal

# The lines of a text that are shown: so many of its beginning and of its end.
FIRST_LINES: Final = 30
LAST_LINES: Final = 10
# The characters of a line that are shown, likewise.
FIRST_CHARACTERS: Final = 300
LAST_CHARACTERS: Final = 100
# The largest texts that are compared. The comparison takes quadratic time.
MAX_COMPARED_LINES: Final = 2000
MAX_COMPARED_CHARACTERS: Final = 200_000
# The most edits of one call that are shown.
MAX_EDITS: Final = 20
# The longest text of `details`, in characters.
MAX_DETAILS: Final = 32_000

# Fields that need no line of their own: the agent's words about its own call.
_UNSHOWN: Final = ("description",)

_VERBS: Final = {
    "Bash": "wants to run",
    "Edit": "wants to change",
    "MultiEdit": "wants to change",
    "NotebookEdit": "wants to change",
    "Write": "wants to write",
    "Read": "wants to read",
    "WebFetch": "wants to open",
    "ExitPlanMode": "wants to leave plan mode",
    "AskUserQuestion": "asks",
}


def heading(approval: Mapping[str, Any]) -> str:
    """Return the first line of a question: the tool, the session and its directory."""
    tool = approval["tool_name"]
    line = f"{tool} {_VERBS.get(tool, 'wants to run')}"
    if approval.get("session_name"):
        line += f" in session {approval['session_name']}"
    if approval.get("working_dir"):
        line += f" ({approval['working_dir']})"
    if approval.get("agent_id"):
        line += f" for subagent {approval['agent_id']}"
    return reveal(line)


def body(approval: Mapping[str, Any]) -> str:
    """Return the input of a call, as far as a person needs it to decide.

    A long text shows its beginning and its end, and counts the rest.
    """
    tool_input = approval["input"]
    lines = list(_lines(tool_input, approval.get("working_dir") or "/"))
    warning = _warning(tool_input)
    return "\n".join([*_shortened(lines), *warning])


def details(approval: Mapping[str, Any]) -> str:
    """Return the ids of a call and its whole input as JSON, invisible characters as escapes."""
    text = json.dumps(approval["input"], indent=2, ensure_ascii=False)
    more = len(text) - MAX_DETAILS
    if more > 0:
        half = MAX_DETAILS // 2
        text = f"{text[:half]}\n… {more:,} more characters …\n{text[-half:]}"
    names = ("id", "session_id", "tool_use_id", "approver")
    ids = [f"{name}: {approval[name]}" for name in names if approval.get(name)]
    lines = [*ids, *escape_json(text).split("\n")]
    return "\n".join([f"{heading(approval)}:", *(f"  {line}" for line in lines)])


def _lines(tool_input: Mapping[str, Any], directory: str) -> Iterator[str]:
    """Yield the lines of a call. The fields of its input decide, not the name of the tool."""
    path = tool_input.get("file_path") or tool_input.get("notebook_path")
    drawn: set[str] = {"file_path", "notebook_path"} if isinstance(path, str) else set()
    if isinstance(path, str):
        yield path
    old, new = tool_input.get("old_string"), tool_input.get("new_string")
    edits, content = tool_input.get("edits"), tool_input.get("content")
    source = tool_input.get("new_source")
    if isinstance(old, str) and isinstance(new, str):
        drawn |= {"old_string", "new_string"}
        yield from _diff(old, new)
    elif isinstance(edits, list) and all(map(_is_edit, edits)):
        drawn.add("edits")
        for edit in edits[:MAX_EDITS]:
            if edit.get("replace_all"):
                yield "(every occurrence)"
            yield from _diff(edit["old_string"], edit["new_string"])
        if len(edits) > MAX_EDITS:
            yield f"… {len(edits) - MAX_EDITS} more edits"
    elif isinstance(content, str) and isinstance(path, str):
        drawn.add("content")
        yield from _written(Path(directory, path), content)
    elif isinstance(source, str):
        drawn.add("new_source")
        yield from (f"+{line}" for line in _split(source))
    elif not drawn:
        for name in PRINCIPAL_FIELDS:
            if isinstance(text := tool_input.get(name), str):
                drawn.add(name)
                yield from _split(text)
                break
    for name, value in tool_input.items():
        if name not in drawn and name not in _UNSHOWN:
            yield f"{name}: {json.dumps(value, ensure_ascii=False)}"


def _is_edit(edit: object) -> bool:
    return isinstance(edit, dict) and all(
        isinstance(edit.get(name), str) for name in ("old_string", "new_string")
    )


def _written(file: Path, content: str) -> Iterator[str]:
    """Yield the change of a file that a call writes as a whole."""
    try:
        if not file.exists():
            yield "(a new file)"
            yield from (f"+{line}" for line in _split(content))
            return
        if not file.is_file() or file.stat().st_size > MAX_COMPARED_CHARACTERS:
            raise OSError("it is too large")
        present = file.read_text()
    except (OSError, ValueError) as error:
        yield f"(it exists; its present content can't be shown: {error})"
        yield from (f"+{line}" for line in _split(content))
        return
    if present == content:
        yield "(no change)"
    else:
        yield from _diff(present, content, "file")


def _diff(old: str, new: str, noun: str = "text") -> Iterator[str]:
    before, after = _split(old), _split(new)
    too_many = max(len(before), len(after)) > MAX_COMPARED_LINES
    if too_many or max(len(old), len(new)) > MAX_COMPARED_CHARACTERS:
        yield f"({len(before):,} lines become {len(after):,} lines)"
        yield from (f"+{line}" for line in after)
        return
    # The first two lines of a diff name files.
    # Imported here, because the start of the daemon does not need it.
    import difflib

    # If only one text ends with a line feed, the last line of the other differs from every line.
    if old and new and old.endswith("\n") != new.endswith("\n"):
        (after if old.endswith("\n") else before)[-1] += "\n"
    for line in list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]:
        yield line.removesuffix("\n")
        if line.endswith("\n"):
            yield f"\\ No newline at end of {noun}"


def _split(text: str) -> list[str]:
    """Return the lines of a text. Only a line feed ends a line: other controls are shown."""
    return text.removesuffix("\n").split("\n") if text else []


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - FIRST_LINES - LAST_LINES
    if more > 1:
        count = f"… {more:,} more lines …"
        lines = [*lines[:FIRST_LINES], count, *lines[-LAST_LINES:]]
    return [_shortened_line(line) for line in lines]


def _shortened_line(line: str) -> str:
    more = len(line) - FIRST_CHARACTERS - LAST_CHARACTERS
    if more > 0:
        count = f" … {more:,} more characters … "
        line = f"{line[:FIRST_CHARACTERS]}{count}{line[-LAST_CHARACTERS:]}"
    return reveal(line)


def _warning(tool_input: Mapping[str, Any]) -> list[str]:
    """Return a line about characters that a terminal would hide; none for ordinary text."""
    for value in tool_input.values():
        if isinstance(value, str) and not is_visible(value):
            return ["(This text has control or invisible characters. They are shown as ‹U+…›.)"]
    return []
