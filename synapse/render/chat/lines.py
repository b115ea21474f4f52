"""The lines of a chat that are not text: prompts, tools, results, decisions, the end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from hubd.wire.summary import principal
from hubd.wire.terminal import clean, one_line
from hubd.wire.text import shorten

if TYPE_CHECKING:
    from rich.console import Console

    from synapse.render.chat.events import Part

# The first lines of a tool result, and of a prompt as it is drawn.
RESULT_LINES = 3
PROMPT_LINES = 10
# The characters of an input that are read; the line is cut to the width of the terminal.
MAX_INPUT = 2000
# The characters of a tool's name.
MAX_NAME = 200
# The number of characters from which the rest of a long text is counted, not cleaned.
MAX_TEXT = 20_000


def prompt_lines(text: str, console: Console, mark: str = "") -> list[Text]:
    """Return a prompt, folded; `mark` is the short id of its node."""
    written = text.strip("\n").split("\n", PROMPT_LINES)
    # The mark is at the right of the first line, and no word may be lost to it.
    width = console.width - 2 - (cell_len(mark) + 2 if mark else 0)
    rows: list[Text] = []
    for line in written[:PROMPT_LINES]:
        plain = clean(shorten(line, MAX_INPUT).expandtabs(4))
        rows += Text(plain).wrap(console, max(width, 1)) or [Text()]
    more = max(len(rows) - PROMPT_LINES, 0)
    more += sum(rest.count("\n") + 1 for rest in written[PROMPT_LINES:])
    lines = []
    for number, row in enumerate(rows[:PROMPT_LINES]):
        row.rstrip()
        lines.append(Text.assemble("  " if number else "> ", row, style="bold"))
    if mark:
        lines[0].append(f"  {mark}", style="not bold dim")
    return [*lines, Text(f"  {_count(more)}", style="dim")] if more else lines


def thinking_line(seconds: float | None) -> Text:
    """Return the line in the place of a block of thinking."""
    words = f"thought for {duration(seconds)}" if seconds and seconds >= 0.1 else "thought"
    return Text(f"✻ {words}", style="dim")


def tool_line(name: str, tool_input: Any, width: int, *, is_nested: bool = False) -> Text:
    """Return a tool call: its name, and the part of its input that tells most."""
    indent = "  " if is_nested else ""
    name = one_line(name[:MAX_NAME]) or "tool"
    text = one_line(_input_text(tool_input).replace("\n", " ↵ "))
    extra = _written_lines(tool_input)
    room = width - len(extra)
    line = Text.assemble(indent, ("⏺ ", "green"), (name, "bold"), f"  {text}" if text else "")
    line.truncate(max(room, 1), overflow="ellipsis")
    return line.append(extra, style="dim")


def result_lines(part: Part, width: int, *, name: str = "") -> list[Text]:
    """Return the first lines of a tool's result; `name` if it does not follow its call."""
    style = "red" if part.event.get("is_error") else "dim"
    indent = "    " if part.is_nested else "  "
    length = part.event.get("truncated")
    first, *others, more = _first_lines(
        part.text.rstrip("\n"), RESULT_LINES, is_cut=isinstance(length, int)
    )
    first = first or ("failed" if part.event.get("is_error") else "no output")
    title = f"{one_line(name)}: " if name else ""
    lines = [Text(cut(f"{indent}⎿ {title}{first}", width), style=style)]
    lines += [Text(cut(f"{indent}  {line}", width), style=style) for line in others]
    return [*lines, Text(f"{indent}  {more}", style="dim")] if more else lines


def denial_line(tool: str, reason: str) -> Text:
    """Return the text about a tool call that was denied."""
    why = f": {one_line(reason[:MAX_INPUT])}" if reason else ""
    return Text(f"⚠ {one_line(tool) or 'A tool call'} was denied{why}", style="yellow")


def failure_lines(message: str) -> Text:
    """Return the end of a chat that failed."""
    text = message.strip()
    more = len(text) - MAX_TEXT
    if more > 0:
        text = f"{text[:MAX_TEXT]}… {more:,} more characters"
    return Text.assemble(("✗ ", "bold red"), (clean(text) or "failed", "red"))


def end_line(part: Part, seconds: float | None, label: str) -> Text:
    """Return the end of a chat: its time, tokens, costs and label, as far as the event has them."""
    result, usage = part.object("result"), part.object("usage")
    milliseconds = _number(result.get("duration_ms"))
    if milliseconds is not None:
        seconds = milliseconds / 1000
    cost = _number(result.get("total_cost_usd", part.event.get("cost_usd")))
    parts = [
        "" if seconds is None else duration(seconds),
        _tokens(usage),
        f"${cost:.4f}" if cost else "",
        one_line(label),
    ]
    return Text.assemble(("✓ ", "bold green"), (" · ".join(filter(None, parts)) or "done", "dim"))


def folded(text: Text, console: Console) -> list[Text]:
    """Return a text in lines that fit the terminal, those after the first one indented."""
    if "\n" not in text.plain and text.cell_len <= console.width:
        return [text]
    pieces = [*text.wrap(console, max(console.width - 2, 1))]
    for piece in pieces:
        piece.rstrip()
    return [pieces[0], *(Text.assemble("  ", piece) for piece in pieces[1:])]


def duration(seconds: float) -> str:
    """Return a time such as `8.4 s` or `2 min 5 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def cut(line: str, width: int) -> str:
    """Return one line of text, cut to a width in columns; a cut line ends with `…`."""
    line = clean(line[:MAX_INPUT].expandtabs(4)).replace("\n", " ")
    text = Text(line)
    text.truncate(max(width, 1), overflow="ellipsis")
    return text.plain


def _first_lines(text: str, count: int, *, is_cut: bool = False) -> list[str]:
    """Return the first lines of a text, at least one, and a line that counts the others."""
    lines = text[:MAX_TEXT].split("\n")
    total = text.count("\n") + 1
    more = total - count
    rest = _count(more) if more > 0 else ""
    if is_cut:
        rest = f"{rest or '…'} and more"
    return [*lines[:count], rest]


def _count(more: int) -> str:
    """Return the line that counts the lines that are left out."""
    return "… +1 line" if more == 1 else f"… +{more:,} lines"


def _input_text(tool_input: Any) -> str:
    """Return the part of an input that tells most."""
    if not isinstance(tool_input, dict):
        return "" if tool_input is None else str(tool_input)[:MAX_INPUT]
    text = principal(tool_input)
    if text is None and tool_input:
        text = json.dumps(tool_input, ensure_ascii=False)
    return (text or "").strip()[:MAX_INPUT]


def _written_lines(tool_input: Any) -> str:
    """Return the number of lines that a call writes; empty for other calls."""
    content = tool_input.get("content") if isinstance(tool_input, dict) else None
    if not isinstance(content, str) or "\n" not in content:
        return ""
    count = content.removesuffix("\n").count("\n") + 1
    return f"  ({count:,} lines)"


def _tokens(usage: dict[str, Any]) -> str:
    """Return the tokens of a turn; those that came from a cache count too."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    read = [number for name in names if (number := _number(usage.get(name))) is not None]
    written = _number(usage.get("output_tokens"))
    if not read or written is None:
        return ""
    return f"{sum(read):,.0f} in / {written:,.0f} out"


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None
