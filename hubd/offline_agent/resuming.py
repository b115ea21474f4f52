"""Continue a turn of an earlier process, from the entries of its session file.

As in claude, a `hook_deferred_tool` entry names a tool call that the next process carries out. The
rest of the turn is the part of the prompt's plan after the calls that have results.
"""

import json
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from hubd.offline_agent.directives import Call, Step, read_plan
from hubd.offline_agent.lines import CONTINUE, INTERRUPTED, INTERRUPTED_IN_TOOL, Line, text_block

# Bytes at the end of the file that are searched for a marker, as in claude.
SEARCHED: Final = 1024 * 1024


class Deferred(NamedTuple):
    """A call that a marker names. The call is None if the conversation does not have it."""

    tool_use_id: str
    call: Call | None


class Rest(NamedTuple):
    """The rest of a turn."""

    # Steps that are done, for those that affect later steps.
    done: list[Step]
    steps: list[Step]
    # The results of the last calls: tool, whether it failed, text.
    results: list[tuple[str, bool, str]]


def deferred(path: Path, chain: list[Line]) -> Deferred | None:
    """Return the call of the last marker in a file, unless the call has a result after it."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - SEARCHED))
        lines = file.read().split(b"\n")
    for position in range(len(lines) - 1, -1, -1):
        if b'"hook_deferred_tool"' not in lines[position]:
            continue
        key = _marked(lines[position])
        if key is not None:
            answer = f'"tool_use_id":{json.dumps(key)}'.encode()
            if any(answer in later for later in lines[position + 1 :]):
                return None
            return Deferred(key, _calls(chain).get(key))
    return None


def resume_prompt() -> str:
    """Return the prompt that continues a turn."""
    return os.environ.get("CLAUDE_CODE_RESUME_PROMPT") or CONTINUE


def rest_of_turn(chain: list[Line]) -> Rest:
    """Return the steps of the last prompt that are not done."""
    start = max((place for place, entry in enumerate(chain) if _is_prompt(entry)), default=-1)
    prompts = [_text(chain[start])] if start >= 0 else []
    while start > 0 and _is_prompt(chain[start - 1]):
        start -= 1
        prompts.insert(0, _text(chain[start]))
    turn = chain[start + 1 :]
    calls = _calls(turn)
    results = {
        block["tool_use_id"]: block
        for entry in turn
        for block in _blocks(entry)
        if block.get("type") == "tool_result"
    }
    # The last message with calls that have results; each message is one step.
    messages: dict[str, list[str]] = {}
    for entry in turn:
        for block in _blocks(entry):
            if block.get("type") == "tool_use" and block["id"] in results:
                messages.setdefault(entry["message"].get("id", ""), []).append(block["id"])
    steps = read_plan("\n".join(prompts)).steps
    tools = [place for place, step in enumerate(steps) if step.kind == "tools"]
    after = tools[min(len(messages), len(tools)) - 1] + 1 if messages and tools else 0
    last = list(messages.values())[-1] if messages else []
    reports = [
        (calls[key].tool, bool(results[key].get("is_error")), _result_text(results[key]))
        for key in last
    ]
    return Rest(steps[:after], steps[after:], reports)


def _marked(line: bytes) -> str | None:
    """Return the call that a marker names; None if the line is not a marker."""
    try:
        entry = json.loads(line)
        attachment = entry["attachment"]
        if entry["type"] == "attachment" and attachment["type"] == "hook_deferred_tool":
            return str(attachment["toolUseID"])
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _calls(chain: list[Line]) -> dict[str, Call]:
    return {
        block["id"]: Call(block["name"], block["input"])
        for entry in chain
        if entry["type"] == "assistant"
        for block in _blocks(entry)
        if block.get("type") == "tool_use"
    }


def _is_prompt(entry: Line) -> bool:
    if entry["type"] != "user" or entry.get("isMeta"):
        return False
    blocks = _blocks(entry)
    if any(block.get("type") == "tool_result" for block in blocks):
        return False
    return _text(entry) not in (INTERRUPTED, INTERRUPTED_IN_TOOL)


def _text(entry: Line) -> str:
    return "\n".join(str(block.get("text", "")) for block in _blocks(entry))


def _blocks(entry: Line) -> list[dict[str, Any]]:
    content = entry.get("message", {}).get("content") or []
    return [text_block(content)] if isinstance(content, str) else content


def _result_text(block: dict[str, Any]) -> str:
    content = block.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content)
