"""A tool call as text for a person: readable, faithful and bounded."""

import json
from pathlib import Path
from typing import Any

import pytest

from hubd.plugins.claudecode.approvals.summary import MAX_SUMMARY, decider, summary
from hubd.plugins.loopback.question import describe, editable, edited, user_questions
from hubd.plugins.loopback.tool_text import details
from hubd.wire.terminal import clean

# More than a terminal shows, and what one may be sent.
MAX_TEXT = 40_000


def shown(tool: str, directory: Path | str = "/", **tool_input: Any) -> list[str]:
    """The lines of a question after the first, without their indentation."""
    approval = {"tool_name": tool, "input": tool_input, "working_dir": str(directory)}
    return [line.removeprefix("  ") for line in describe(approval).split("\n")[1:]]


def test_the_first_line_names_the_tool_the_session_and_its_directory() -> None:
    approval = {
        "tool_name": "Bash",
        "input": {"command": "ls"},
        "session_name": "fix",
        "working_dir": "/src",
        "agent_id": "a1",
    }
    assert describe(approval) == ("Bash wants to run in session fix (/src) for subagent a1:\n  ls")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("ls \x1b[2K\x1b[1A", "ls ‹U+001B›[2K‹U+001B›[1A"),
        ("ls\rrm", "ls‹U+000D›rm"),
        ("echo \u202egnp", "echo ‹U+202E›gnp"),
        ("a\x9b2J", "a‹U+009B›2J"),
        ("a\u200bb", "a‹U+200B›b"),
        ("a\u2028b", "a‹U+2028›b"),
        ("a\x00b\x7f", "a‹U+0000›b‹U+007F›"),
    ],
)
def test_characters_that_a_terminal_obeys_or_hides_are_shown(command: str, line: str) -> None:
    first, warning = shown("Bash", command=command)
    assert first == line
    assert "control or invisible characters" in warning
    # The command line would remove the rest.
    assert clean(first) == first
    assert summary({"command": command}) == line
    whole = details({"tool_name": "Bash", "input": {"command": command}})
    assert clean(whole) == whole


def test_ordinary_text_has_no_warning() -> None:
    assert shown("Bash", command="echo 'größe 日本 👩‍💻'\n\tls") == [
        "echo 'größe 日本 👩‍💻'",
        "\tls",
    ]


@pytest.mark.parametrize("text", ["x" * 7_000_000, "x\n" * 2_000_000, "é\n" * 100_000])
def test_a_huge_input_shows_its_beginning_and_its_end(text: str) -> None:
    for tool_input in ({"command": f"{text}; rm -rf ~"}, {"odd": [f"{text}; rm -rf ~"]}):
        lines = shown("Bash", **tool_input)
        assert len("\n".join(lines)) < MAX_TEXT
        assert "rm -rf ~" in lines[-1]
        assert any(" more lines" in line or " more characters" in line for line in lines)
        assert len(summary(tool_input)) <= MAX_SUMMARY
        assert len(details({"tool_name": "Bash", "input": tool_input})) < MAX_TEXT


def test_options_of_a_command_are_shown_but_not_the_agents_own_words() -> None:
    lines = shown("Bash", command="make", run_in_background=True, description="Harmless.")
    assert lines == ["make", "run_in_background: true"]


def test_an_edit_is_a_diff() -> None:
    lines = shown("Edit", file_path="a.py", old_string="x = 1\ny = 2", new_string="x = 1\ny = 3")
    assert lines == ["a.py", "@@ -1,2 +1,2 @@", " x = 1", "-y = 2", "+y = 3"]


def test_a_change_of_the_last_newline_is_shown(tmp_path: Path) -> None:
    def edit(old: str, new: str) -> list[str]:
        return shown("Edit", file_path="note", old_string=old, new_string=new)[1:]

    end = r"\ No newline at end of text"
    assert edit("x\ny", "x\ny\n") == ["@@ -1,2 +1,2 @@", " x", "-y", end, "+y"]
    assert edit("x\n", "x") == ["@@ -1 +1 @@", "-x", "+x", end]
    assert edit("x\n", "") == ["@@ -1 +0,0 @@", "-x"]
    (tmp_path / "note").write_text("x\n")
    lines = shown("Write", tmp_path, file_path="note", content="x")
    assert lines[2:] == ["-x", "+x", r"\ No newline at end of file"]


def test_several_edits_are_several_diffs() -> None:
    edits = [
        {"old_string": "a", "new_string": "b"},
        {"old_string": "c", "new_string": "", "replace_all": True},
    ]
    assert shown("MultiEdit", file_path="a.py", edits=edits) == [
        *("a.py", "@@ -1 +1 @@", "-a", "+b"),
        *("(every occurrence)", "@@ -1 +0,0 @@", "-c"),
    ]


def test_a_written_file_is_compared_with_the_present_one(tmp_path: Path) -> None:
    def write(content: str) -> list[str]:
        return shown("Write", tmp_path, file_path="note", content=content)

    assert write("a\nb\n") == ["note", "(a new file)", "+a", "+b"]
    (tmp_path / "note").write_text("a\nc\n")
    assert write("a\nb\n") == ["note", "@@ -1,2 +1,2 @@", " a", "-c", "+b"]
    assert write("a\nc\n") == ["note", "(no change)"]
    (tmp_path / "note").write_bytes(b"\xff\xfe")
    assert write("a")[1].startswith("(it exists; its present content can't be shown")
    (tmp_path / "note").write_text("line\n" * 100_000)
    assert "too large" in write("a")[1]


def test_large_texts_are_not_compared() -> None:
    old, new = ("\n".join(f"{side}{n}" for n in range(5000)) for side in "ab")
    lines = shown("Edit", file_path="f", old_string=old, new_string=new)
    assert lines[1] == "(5,000 lines become 5,000 lines)"


def test_a_notebook_and_an_unknown_tool_show_their_fields() -> None:
    lines = shown("NotebookEdit", notebook_path="n.ipynb", cell_id="c1", new_source="a\nb")
    assert lines == ["n.ipynb", "+a", "+b", 'cell_id: "c1"']
    assert shown("mcp__x__y", owner="me", body={"a": [1]}) == ['owner: "me"', 'body: {"a": [1]}']


def test_a_plan_may_be_empty() -> None:
    assert shown("ExitPlanMode", plan="1. Look\n2. Fix") == ["1. Look", "2. Fix"]
    approval = {"tool_name": "ExitPlanMode", "input": {}, "session_name": "s"}
    assert describe(approval) == "ExitPlanMode wants to leave plan mode in session s?"


@pytest.mark.parametrize(
    ("tool_input", "field"),
    [({"command": "ls -l", "timeout": 1}, "command"), ({"path": "é"}, None), ({}, None)],
)
def test_an_edit_without_a_change_is_the_same_input(
    tool_input: dict[str, Any], field: str | None
) -> None:
    part = editable(tool_input)
    assert part.field == field
    assert edited(tool_input, *part) == tool_input


def test_invisible_characters_are_edited_as_escapes() -> None:
    part = editable({"command": "ls \u202e\x1b"})
    assert part.field is None
    assert part.text.isascii()
    assert json.loads(part.text) == {"command": "ls \u202e\x1b"}
    for wrong in ("[1]", "{", '"x"'):
        with pytest.raises(ValueError, match=r"."):
            edited({}, None, wrong)


def test_the_questions_of_an_agent() -> None:
    [first, second] = user_questions(
        {
            "questions": [
                {
                    "question": "Which?",
                    "header": "Layout",
                    "multiSelect": True,
                    "options": [
                        {"label": "Grid", "description": "wide", "preview": "+-+\n| |"},
                        {"label": "List", "description": "List"},
                        "broken",
                    ],
                },
                {"question": "Name?"},
                7,
            ]
        }
    )
    assert [option.description for option in first.options] == ["wide\n+-+\n| |", None, None, None]
    assert [option.key for option in first.options] == [None, None, "o", "n"]
    assert first.answer(["1", "2"]) == "Grid, List"
    assert (second.text, second.options) == ("Name?", [])
    assert user_questions({}) == user_questions({"questions": "x"}) == []


def test_the_decider_in_words() -> None:
    words = [decider(by) for by in ("person", "session:0123456789", "rule:abcdef0123", "deadline")]
    assert words == ["a person", "the agent of session 01234567", "rule abcdef01", "the deadline"]
