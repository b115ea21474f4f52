"""What a prompt asks the offline agent to do: directives, one a line, read without doing any."""

import json
import re
from typing import Any, Final, NamedTuple

# Every directive with its argument and what it does; --help prints this table.
DIRECTIVES: Final = {
    "think": ("TEXT", "a thinking block, with a signature"),
    "say": ("TEXT", "a text block that says exactly this"),
    "repeat": ("N TEXT", "a text block of N deltas, each of them TEXT"),
    "run": ("COMMAND", "a Bash call that really runs in the working directory"),
    "write": ("PATH TEXT", "a Write call that really writes; \\n in TEXT is a line break"),
    "read": ("PATH", "a Read call that really reads"),
    "big": ("BYTES", "a call whose result has this size"),
    "subagent": ("TEXT", "a Task call; its agent follows TEXT if that is a tool, or answers it"),
    "parallel": ("", "the lines after it that start with '- ' are tool calls of one message"),
    "slow": ("SECONDS", "what follows is spread over this time"),
    "error": ("TEXT", "the turn ends as it does when the API answers with an error"),
    "crash": ("STATUS", "the program exits at once, in the middle of a block, without a result"),
    "hang": ("", "nothing more happens until an interrupt or a signal"),
    "broken": ("", "a line that is not JSON, and one of a type that nobody knows"),
}

TOOLS: Final = ("run", "write", "read", "big", "subagent")

# Above this a directive is refused: it would be an accident, and fill a disk.
MOST_BYTES: Final = 64 * 1024 * 1024
MOST_REPEATS: Final = 1_000_000

_LINE: Final = re.compile(rf"\s*({'|'.join(DIRECTIVES)}):(?:\s+(.*))?$")


class Call(NamedTuple):
    """A tool and what it is called with."""

    tool: str
    input: dict[str, Any]


class Step(NamedTuple):
    """One thing to do; `kind` is a directive, with all tools under `tools`."""

    kind: str
    text: str = ""
    number: float = 0.0
    calls: tuple[Call, ...] = ()


class Plan(NamedTuple):
    """A prompt, taken apart."""

    # The lines that are no directives.
    plain: str
    steps: list[Step]


class _Misfit(Exception):
    """The argument does not fit the directive."""


def read_plan(prompt: str) -> Plan:
    """Take a prompt apart. A directive that cannot be followed becomes words that say so."""
    plain: list[str] = []
    steps: list[Step] = []
    lines = prompt.splitlines()
    while lines:
        line = lines.pop(0)
        found = _LINE.match(line)
        if found is None:
            plain.append(line)
            continue
        name, argument = found[1], (found[2] or "").strip()
        together: list[str] = []
        if name == "parallel":
            while lines and lines[0].lstrip().startswith("- "):
                together.append(lines.pop(0).lstrip()[2:])
        try:
            steps.append(_parallel(together) if name == "parallel" else _step(name, argument))
        except _Misfit as problem:
            steps.append(Step("say", f"offline agent: cannot follow {line.strip()!r}: {problem}"))
    return Plan("\n".join(plain).strip(), steps)


def read_call(text: str) -> Call | None:
    """The tool call that a line asks for, if it asks for one that fits."""
    found = _LINE.match(text)
    if found is None or found[1] not in TOOLS:
        return None
    try:
        return _call(found[1], (found[2] or "").strip())
    except _Misfit:
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
            raise _Misfit("it needs a number of times and a text")
        return Step(name, text, int(count))
    if name in ("say", "think", "error") and not argument:
        raise _Misfit("it needs a text")
    return Step(name, argument)


def _parallel(lines: list[str]) -> Step:
    calls = [read_call(line) for line in lines]
    good = tuple(call for call in calls if call is not None)
    if not good or len(good) < len(calls):
        raise _Misfit("it needs tools below it, each on a line that starts with '- '")
    return Step("tools", calls=good)


def _call(name: str, argument: str) -> Call:
    if not argument:
        raise _Misfit("it needs an argument")
    if name == "run":
        return Call("Bash", {"command": argument, "description": "Run a command as asked"})
    if name == "write":
        path, _, text = argument.partition(" ")
        return Call("Write", {"file_path": path, "content": text.replace("\\n", "\n")})
    if name == "read":
        return Call("Read", {"file_path": argument})
    if name == "big":
        return Call("Big", {"bytes": int(_number(argument, MOST_BYTES))})
    kind = {"subagent_type": "general-purpose", "run_in_background": False}
    return Call("Task", {"description": argument[:40], "prompt": argument, **kind})


def _number(text: str, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _Misfit(f"{text!r} is not a number") from None
    if not 0 <= number <= most:
        raise _Misfit(f"a number from 0 to {most:g} is needed")
    return number


def help_text(program: str) -> str:
    """What --help prints."""
    rows = [
        f"  {f'{name}: {argument}'.rstrip():<20} {what}"
        for name, (argument, what) in DIRECTIVES.items()
    ]
    example = json.dumps(
        {"type": "user", "message": {"role": "user", "content": "say: hello\nrun: ls"}}
    )
    return f"""\
Usage: {program} -p [flags of claude] [prompt]

An agent without a language model: it speaks the stream-json of claude, runs real tools, asks the
same permissions and keeps session files of the same kind (in the hub's data directory, or below
--session-directory), and it does what the prompt's lines tell it.

Directives, one a line, followed in order; all other lines are the prompt, which it repeats:
{chr(10).join(rows)}

With --input-format stream-json it takes one message a line on its standard input:
  {example}
and the control_request lines interrupt, set_permission_mode, mcp_status and initialize. It obeys
--allowedTools, --disallowedTools, --permission-mode, --permission-prompt-tool (stdio, or
mcp__SERVER__TOOL with --mcp-config), --settings (its permissions), --session-id, --resume,
--resume-session-at, --fork-session, --max-turns, --include-partial-messages and
--replay-user-messages. It takes --model, but is always called offline; of --system-prompt and
--append-system-prompt it tells the length. All other flags are named on stderr and ignored.

It asks before every command, also one that only reads, which claude would not ask for; and a
command's processes end with the command, also those that it put into the background.
"""
