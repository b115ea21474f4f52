"""The directives in a prompt, one a line: how they are read."""

import json
import re
from typing import Any, Final, NamedTuple

# Every directive with its argument and its effect; --help prints this table.
DIRECTIVES: Final = {
    "think": ("TEXT", "a thinking block, with a signature"),
    "say": ("TEXT", "a text block with exactly this text"),
    "repeat": ("N TEXT", "a text block of N deltas, each of them TEXT"),
    "run": ("COMMAND", "a Bash call that really runs in the working directory"),
    "write": ("PATH TEXT", "a Write call that really writes; \\n is a line break"),
    "read": ("PATH", "a Read call that really reads"),
    "big": ("BYTES", "a call whose result has this size"),
    "subagent": (
        "TEXT",
        "a Task call; its agent runs TEXT if it is a tool, or answers it",
    ),
    "ask": (
        "QUESTION | A | B",
        "an AskUserQuestion call with these options; needs --permission-prompt-tool",
    ),
    "plan": ("TEXT", "an ExitPlanMode call with this plan; needs --permission-prompt-tool"),
    "parallel": ("", "the lines after it that start with '- ' are tool calls of one message"),
    "slow": ("SECONDS", "the rest of the turn is spread over this time"),
    "error": ("TEXT", "the turn ends as after an error of the API"),
    "crash": ("STATUS", "the program exits at once, in the middle of a block, without a result"),
    "hang": ("", "nothing more happens until an interrupt or a signal"),
    "broken": ("", "a line that is not JSON, and one of an unknown type"),
}

TOOLS: Final = ("run", "write", "read", "big", "subagent", "ask", "plan")

# Larger numbers are refused, because they would fill the disk.
MOST_BYTES: Final = 64 * 1024 * 1024
MOST_REPEATS: Final = 1_000_000

_LINE: Final = re.compile(rf"\s*({'|'.join(DIRECTIVES)}):(?:\s+(.*))?$")


class Call(NamedTuple):
    """A tool and its input."""

    tool: str
    input: dict[str, Any]


class Step(NamedTuple):
    """One step of a turn. `kind` is a directive, or `tools` for all tool calls."""

    kind: str
    text: str = ""
    number: float = 0.0
    calls: tuple[Call, ...] = ()


class Plan(NamedTuple):
    """The steps of a prompt."""

    # The lines without directives.
    plain: str
    steps: list[Step]


class _BadArgument(Exception):
    """The argument does not fit the directive."""


def read_plan(prompt: str) -> Plan:
    """Read a prompt. A wrong directive becomes a text that names the problem."""
    plain: list[str] = []
    steps: list[Step] = []
    lines = prompt.splitlines()
    while lines:
        line = lines.pop(0)
        match = _LINE.match(line)
        if match is None:
            plain.append(line)
            continue
        name, argument = match[1], (match[2] or "").strip()
        grouped: list[str] = []
        if name == "parallel":
            while lines and lines[0].lstrip().startswith("- "):
                grouped.append(lines.pop(0).lstrip()[2:])
        try:
            steps.append(_parallel(grouped) if name == "parallel" else _step(name, argument))
        except _BadArgument as problem:
            steps.append(Step("say", f"offline agent: cannot follow {line.strip()!r}: {problem}"))
    return Plan("\n".join(plain).strip(), steps)


def read_call(text: str) -> Call | None:
    """Return the tool call of a line, or None if the line has no valid one."""
    match = _LINE.match(text)
    if match is None or match[1] not in TOOLS:
        return None
    try:
        return _call(match[1], (match[2] or "").strip())
    except _BadArgument:
        return None


def _step(name: str, argument: str) -> Step:
    if name in TOOLS:
        return Step("tools", calls=(_call(name, argument),))
    if name == "slow":
        return Step(name, number=_number(argument, 3600))
    if name == "crash":
        return Step(name, number=int(_number(argument or "1", 255)))
    if name == "repeat":
        count, _, text = argument.partition(" ")
        if not text or int(_number(count, MOST_REPEATS)) < 1:
            raise _BadArgument("it needs a number of times and a text")
        return Step(name, text, int(count))
    if name in ("say", "think", "error") and not argument:
        raise _BadArgument("it needs a text")
    return Step(name, argument)


def _parallel(lines: list[str]) -> Step:
    calls = [read_call(line) for line in lines]
    valid = tuple(call for call in calls if call is not None)
    if not valid or len(valid) < len(calls):
        raise _BadArgument("it needs tools below it, each on a line that starts with '- '")
    return Step("tools", calls=valid)


def _call(name: str, argument: str) -> Call:
    if not argument:
        raise _BadArgument("it needs an argument")
    if name == "run":
        return Call("Bash", {"command": argument, "description": "Run a command as asked"})
    if name == "write":
        path, _, text = argument.replace("\\n", "\n").partition(" ")
        return Call("Write", {"file_path": path, "content": text})
    if name == "read":
        return Call("Read", {"file_path": argument})
    if name == "big":
        return Call("Big", {"bytes": int(_number(argument, MOST_BYTES))})
    if name == "ask":
        return Call("AskUserQuestion", {"questions": [_question(argument)]})
    if name == "plan":
        return Call("ExitPlanMode", {"plan": argument.replace("\\n", "\n")})
    kind = {"subagent_type": "general-purpose", "run_in_background": False}
    return Call("Task", {"description": argument[:40], "prompt": argument, **kind})


def _question(argument: str) -> dict[str, Any]:
    question, *labels = (part.strip() for part in argument.split("|"))
    if not question or len(labels) < 2 or not all(labels):
        raise _BadArgument("it needs a question and two options, with '|' between them")
    options = [{"label": label, "description": label} for label in labels]
    rest = {"header": question[:12], "multiSelect": False, "options": options}
    return {"question": question, **rest}


def _number(text: str, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _BadArgument(f"{text!r} is not a number") from None
    if not 0 <= number <= most:
        raise _BadArgument(f"a number from 0 to {most:g} is needed")
    return number


def help_text(program: str) -> str:
    """Return the output of --help."""
    rows = [
        f"  {f'{name}: {argument}'.rstrip():<22} {effect}"
        for name, (argument, effect) in DIRECTIVES.items()
    ]
    example = json.dumps(
        {"type": "user", "message": {"role": "user", "content": "say: hello\nrun: ls"}}
    )
    return f"""\
Usage: {program} -p [flags of claude] [prompt]

An agent without a language model. It has the stream-json protocol of claude, runs real tools, asks
for the same permissions and writes the same kind of session files (in the hub's data directory, or
below --session-directory). It follows the directives in the prompt.

Directives, one a line, in order; all other lines are text, which the agent repeats:
{chr(10).join(rows)}

With --input-format stream-json it reads one message a line from its standard input:
  {example}
and the control_request lines interrupt, set_permission_mode, mcp_status and initialize. It supports
--allowedTools, --disallowedTools, --permission-mode, --permission-prompt-tool=stdio, --settings
(its permissions and UserPromptSubmit hooks), --session-id, --resume, --resume-session-at,
--fork-session, --max-turns, --include-partial-messages and --replay-user-messages. It accepts
--model, but its model is always offline. It reports only the length of --system-prompt and
--append-system-prompt. It does not use the servers of --mcp-config. Other flags are named on stderr
and ignored.

With --resume it first carries out the tool call that a hook_deferred_tool entry of the session file
names, if the call has no result yet, and then continues its turn. It asks for permission again.

Unlike claude, it asks before every command, even one that only reads. All processes of a command
end with the command, even those in the background.
"""
