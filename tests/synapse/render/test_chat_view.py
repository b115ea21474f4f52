"""A chat at a terminal: its Markdown, tools, thinking, denials and end."""

import io
import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions
from rich.text import Text

from synapse.render.chat.events import read
from synapse.render.chat.lines import prompt_lines
from synapse.render.chat.markdown_stream import MAX_BLOCK, MAX_MARKDOWN, MarkdownStream
from synapse.render.chat.region import Region
from tests.screen import screen
from tests.synapse.support import at_terminal, has_colour, synapse

PROMPT = """\
think: First the tests.
run: seq 9
run: echo problem; exit 3
write: note.txt one\\ntwo
say: Done. The bug was in `add`: it **added** one too many.
"""
SECOND_ROW = "  **added** one too many."
MARKDOWN = """\
# Title
Some *text* with `code`, [a link](http://example.org/page) and a word
on the next line.

1. one
2. two
   - nested, with many words that do not fit on a line of the terminal

> quoted

```python
def f(x):
\treturn x
```

| name | size |
|------|------|
| a    | 1    |

The end."""


@pytest.fixture(scope="module")
def home(cli_home: Path) -> Path:
    return cli_home


def drawn(text: str, columns: int) -> list[str]:
    """Return the lines on the screen, with the same digits in all times."""
    lines = [re.sub(r"\d+\.\d s", "0.0 s", line) for line in screen(text, columns)]
    # Thinking that took no time is shown without it.
    return [line.replace("thought for 0.0 s", "thought") for line in lines]


def stream_lines(text: str, *, pieces: int, columns: int = 60) -> list[str]:
    """Return the lines of a Markdown text that comes in pieces."""
    console = Console(width=columns, force_terminal=True, highlight=False)
    stream = MarkdownStream(console)
    lines = []
    for start in range(0, len(text), pieces):
        lines += stream.add(text[start : start + pieces])
        stream.unfinished()
    text = "\n".join(line.plain for line in (*lines, *stream.finish()))
    return [line.rstrip() for line in text.split("\n")]


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_a_chat_shows_its_prompt_thinking_tools_text_and_end(
    home: Path, tmp_path: Path, columns: int
) -> None:
    name = f"view{columns}"
    words = ("--model", "offline", "--allowed-tools", "Bash", "--allowed-tools", "Write")
    status, text = at_terminal(
        *("claudecode", "chat", "--name", name, *words, "--prompt", PROMPT),
        *("--working-dir", str(tmp_path)),
        home=home,
        columns=columns,
    )
    lines = drawn(text, columns)
    assert status == 0
    said = "  say: Done. The bug was in `add`: it **added** one too many."
    answer = "Done. The bug was in add: it added one too many."
    expected = [
        "> think: First the tests.",
        "  run: seq 9",
        "  run: echo problem; exit 3",
        "  write: note.txt one\\ntwo",
        *([said] if columns > 40 else ["  say: Done. The bug was in `add`: it", SECOND_ROW]),
        "✻ thought",
        "⏺ Bash  seq 9",
        "  ⎿ 1",
        "    2",
        "    3",
        "    … +6 lines",
        "⏺ Bash  echo problem; exit 3",
        "  ⎿ Exit code 3",
        "    problem",
    ]
    assert lines[: len(expected)] == expected
    end = re.sub("[0-9,]+ (in|out)", r"9 \1", " ".join(lines[len(expected) :]))
    assert f"{answer if columns > 40 else answer[:36]}" in end
    assert end.endswith(f"✓ 0.0 s · 9 in / 9 out · {name} ")
    assert max(map(cell_len, lines)) <= columns
    # A failure is red.
    assert "\x1b[31m  ⎿ Exit code 3" in text


def test_a_chat_that_is_replayed_looks_the_same(home: Path) -> None:
    chat = ("claudecode", "chat", "--name", "replayed", "--model", "offline")
    status, text = at_terminal(*chat, "--prompt", "think: Hm.\nsay: An *answer*.", home=home)
    replay = at_terminal("claudecode", "follow", "--name", "replayed", home=home)
    assert (status, replay[0]) == (0, 0)
    assert drawn(replay[1], 80) == drawn(text, 80)
    assert "An answer." in drawn(text, 80)


def test_thinking_is_shown_on_request(home: Path) -> None:
    assert "Hmm" not in at_terminal("cli", "talk", home=home)[1]
    assert drawn(at_terminal("cli", "talk", "--thinking", home=home)[1], 80)[0] == "Hmm"


def test_the_chat_of_any_plugin_has_the_view(home: Path) -> None:
    status, text = at_terminal("cli", "talk", home=home)
    assert status == 0
    assert drawn(text, 80) == [
        "✻ thought",
        "The first block.",
        "⏺ Bash",
        "  from a subagent",
        "  ⎿ from a tool",
        "The second.",
        "· note a note",
        "✓ 0.0 s",
        "",
    ]


def test_a_cone_chat_has_the_view(home: Path) -> None:
    synapse("cone", "create", "--name", "viewed", "--model-id", "offline", home=home)
    status, text = at_terminal("cone", "chat", "--name", "viewed", "--prompt", "Hi!", home=home)
    lines = drawn(text, 80)
    assert (status, lines[0]) == (0, "> Hi!")
    assert lines[-2].startswith("✓ 0.0 s")


@pytest.mark.parametrize(
    ("end", "status", "line"),
    [
        ("denied", 8, "⚠ Bash was denied"),
        ("refused by the agent", 8, "⚠ Write was denied"),
        ("error", 1, "✗ the model gave up"),
    ],
)
def test_a_failure_is_reported_once(home: Path, end: str, status: int, line: str) -> None:
    result, text = at_terminal("cli", "chat", "--end", end, home=home)
    lines = drawn(text, 80)
    assert (result, line in lines) == (status, True)
    assert "synapse:" not in text


def test_advice_about_a_denied_tool_follows_its_denial(home: Path) -> None:
    _, text = at_terminal("cli", "chat", "--end", "refused with advice", home=home)
    lines = drawn(text, 80)
    start = lines.index("⚠ Write was denied")
    assert lines[start - 1].startswith("✓ ")
    assert lines[start + 1 :] == ["  Write was not allowed. Allow it with --write.", ""]


def test_a_dumb_terminal_gets_the_same_lines_without_sequences(home: Path) -> None:
    _, text = at_terminal("cli", "talk", home=home, TERM="dumb")
    assert "\x1b" not in text
    assert drawn(text, 80) == drawn(at_terminal("cli", "talk", home=home)[1], 80)


def test_a_chat_without_colours_has_none(home: Path) -> None:
    assert has_colour(at_terminal("cli", "talk", home=home)[1])
    assert not has_colour(at_terminal("cli", "talk", home=home, NO_COLOR="1")[1])


@pytest.mark.parametrize("columns", [30, 60, 100])
def test_markdown_is_the_same_however_it_is_cut(columns: int) -> None:
    whole = stream_lines(MARKDOWN, pieces=len(MARKDOWN), columns=columns)
    for pieces in (1, 7):
        assert stream_lines(MARKDOWN, pieces=pieces, columns=columns) == whole
    assert max(map(cell_len, whole)) <= columns


def test_markdown_is_drawn_for_a_terminal() -> None:
    assert stream_lines(MARKDOWN, pieces=50) == [
        "Title",
        "",
        "Some text with code, a link (http://example.org/page) and a",
        "word",
        "on the next line.",
        "",
        "1. one",
        "2. two",
        "   • nested, with many words that do not fit on a line of",
        "     the terminal",
        "",
        "│ quoted",
        "",
        "  def f(x):",
        "      return x",
        "",
        "name   size",
        "───────────",
        "a      1",
        "",
        "The end.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "x" * (MAX_MARKDOWN * 20),
        "![" * (MAX_BLOCK // 4),
        "\n".join("> " * depth + "- a" for depth in range(100)),
        "*a _b " * (MAX_BLOCK // 6),
        "|" * MAX_BLOCK + "\n" + "|-" * MAX_BLOCK,
        "```\n" + "code\n" * MAX_BLOCK,
    ],
    ids=["line", "images", "nesting", "emphasis", "table", "code"],
)
def test_hostile_markdown_ends_and_fits(text: str) -> None:
    lines = stream_lines(text, pieces=MAX_BLOCK // 2)
    # Only text behind the limit is left to the terminal to wrap.
    before = lines[: (MAX_MARKDOWN - MAX_BLOCK) // 60]
    assert all(cell_len(line) <= 60 for line in before)
    if "```" in text:
        assert lines.count("  code") + lines.count("code") == MAX_BLOCK


@pytest.mark.parametrize(
    "text", ["&#x202e;gpj", "\x1b]0;title\x07x", "a\u200bb", "[a](javascript:\x1b[2J)", "\x9b31m"]
)
def test_markdown_lets_no_control_through(text: str) -> None:
    for line in stream_lines(text, pieces=1):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u200b]", line)


def test_events_have_their_meaning() -> None:
    for event, kind, phase in (
        ({"type": "user_message", "prompt": "a"}, "prompt", ""),
        ({"type": "content_delta", "text": "a", "offset": 0}, "text", "delta"),
        ({"type": "chat_content", "content": "a", "offset": 3}, "text", "delta"),
        ({"type": "content", "text": "a"}, "text", ""),
        ({"type": "thinking_start"}, "thinking", "start"),
        ({"type": "tool_use_delta", "partial_json": "{", "offset": 0}, "tool", "delta"),
        ({"type": "tool_result", "output": "a"}, "result", ""),
        ({"type": "chat_complete"}, "end", ""),
        ({"type": "error", "message": "a"}, "failure", ""),
        ({"type": "passthrough", "data": {}}, "", ""),
    ):
        part = read(event)
        assert (part.kind, part.phase) == (kind, phase), event
        logged = read({"seq": 0, "timestamp": 7, "event": event})
        assert (logged.kind, logged.recorded_at) == (kind, 7)


def test_a_block_that_is_taller_than_the_screen_is_complete_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setenv("TERM", "xterm")
    console = Console(width=20, height=6, force_terminal=True, highlight=False)
    region = Region(console)
    lines = [Text(f"line {number}") for number in range(20)]
    for count in range(20):
        region.update([], lines[:count])
        # No more than the screen can change: the cursor would stop at its top.
        assert all(int(up) < 6 for up in re.findall(r"\x1b\[(\d+)A", output.getvalue()))
    region.update(lines, [Text("next")])
    expected = [*(line.plain for line in lines), "next", ""]
    assert screen(output.getvalue(), 20) == expected
    # A line that did not change is not written again.
    output.truncate(0)
    region.update([], [Text("next"), Text("last")])
    assert "next" not in output.getvalue()


def test_a_terminal_that_became_narrower_is_erased_completely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setenv("TERM", "xterm")
    console = Console(width=40, height=20, force_terminal=True, highlight=False)
    region = Region(console)
    region.update([], [Text("x" * 40)])
    console.size = ConsoleDimensions(10, 20)
    region.update([], [Text("short")])
    assert "\x1b[4A" in output.getvalue()


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_the_id_beside_a_prompt_takes_no_word_of_it(columns: int) -> None:
    prompt = "The prompt goes on and on so that it has to be folded at the end of the line"
    console = Console(width=columns, force_terminal=True, highlight=False)
    first, *others = prompt_lines(prompt, console, "6012")
    assert first.plain.endswith("  6012")
    assert all(cell_len(line.plain) <= columns for line in (first, *others))
    words = first.plain.removesuffix("6012").removeprefix("> ").split()
    assert [*words, *(word for line in others for word in line.plain.split())] == prompt.split()
