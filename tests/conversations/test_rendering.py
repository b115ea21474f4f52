"""The text of outputs, documents and binary data for a model."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.conversations.rendering import cut, fenced, render
from tests.sample_plugins.sources import BINARIES, DOCUMENTS, LOGO, MAKE, NOTES, OUTPUTS, PAGE

LIMIT = 1000
hostile = st.text(st.sampled_from("`~\n\r a[]:\u2028\x1b"), max_size=60)


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("output", OUTPUTS["make"], MAKE),
        ("document", DOCUMENTS["notes"], NOTES),
        ("document", DOCUMENTS["page"], PAGE),
        ("document", {"text": "only a text"}, "only a text"),
        ("document", {"path": "/a", "text": ""}, "[document: /a]\n```\n```"),
        ("document", {"url": "x", "fetched_at": 10**30, "text": "t"}, "[document: x]\n```\nt\n```"),
        ("binary", BINARIES["logo"], LOGO),
        ("binary", {"mime_type": "a/b"}, "[binary, a/b]"),
        (
            "output",
            {"command": "a\nb", "exit_code": None, "timed_out": True, "truncated": 5},
            "[output, no exit code, timed out, truncated: a↵b]\n```\n```",
        ),
        (
            "output",
            {"command": "x", "exit_code": 143, "status": "timed_out", "stdout": "a"},
            "[output, exit code 143, timed out: x]\n```\na\n```",
        ),
        (
            "output",
            {"command": "x", "exit_code": 0, "status": "complete"},
            "[output, exit code 0: x]\n```\n```",
        ),
        (
            "document",
            {"url": "http://x", "status": 404, "fetched_at": 0, "text_cut": True, "text": "t"},
            "[document, 1970-01-01, status 404, truncated: http://x]\n```\nt\n```",
        ),
        # Tool results, and data without the fields, are rendered elsewhere.
        ("output", {"output": "text"}, None),
        ("document", {"path": "/a"}, None),
        ("binary", {"name": "x"}, None),
        ("message", {"text": "hi"}, None),
    ],
)
def test_kind_and_fields_decide_the_text(
    kind: str, data: dict[str, Any], expected: str | None
) -> None:
    assert render(kind, data, LIMIT) == expected


@given(hostile)
def test_no_content_can_close_its_fence(text: str) -> None:
    block = fenced(text)
    fence = block[: len(block) - len(block.lstrip("`"))]
    assert block.startswith(f"{fence}\n")
    assert block.endswith(f"\n{fence}")
    inside = block[len(fence) + 1 : -len(fence)]
    assert inside.removesuffix("\n") == text.removesuffix("\n")
    assert fence not in inside


@given(hostile, hostile, hostile)
def test_data_from_outside_never_adds_a_line_to_a_label(name: str, text: str, title: str) -> None:
    output = render("output", {"command": name, "exit_code": 0, "stdout": text}, LIMIT)
    page = render("document", {"url": name, "title": title, "text": text}, LIMIT)
    file = render("document", {"path": name, "digest": title, "text": text}, LIMIT)
    for rendered, labels in ((output, 1), (page, 2 if title else 1), (file, 1)):
        assert rendered is not None
        lines = rendered.split("\n")
        assert all(line.startswith("[") and line.endswith("]") for line in lines[:labels])
        assert len("".join(lines[:labels]).splitlines()) <= 1
        assert "\n".join(lines[labels:]) == fenced(text)


@given(st.text(st.sampled_from("ab\n"), max_size=300), st.integers(1, 100))
def test_a_long_text_loses_its_middle_and_the_cut_is_stated(text: str, limit: int) -> None:
    short = cut(text, limit)
    if len(text) <= limit:
        assert short == text
        return
    stated = re.search(r"\n… cut: (\d+) of (\d+) characters left out\n", short)
    assert stated is not None
    start, end = short[: stated.start()], short[stated.end() :]
    assert text.startswith(start)
    assert text.endswith(end)
    assert len(start) + len(end) <= limit
    assert int(stated[1]) == len(text) - len(start) - len(end)
    assert int(stated[2]) == len(text)


def test_cuts_are_at_line_ends() -> None:
    lines = [f"line {number}" for number in range(1000)]
    start, stated, end = cut("\n".join(lines), 200).partition("\n… cut: ")
    assert stated
    assert start.split("\n") == lines[: len(start.split("\n"))]
    last = end.split("\n")[1:]
    assert last == lines[-len(last) :]


@pytest.mark.parametrize(("out", "error"), [(5000, 10), (10, 5000), (5000, 5000), (400, 400)])
def test_output_and_errors_share_the_limit(out: int, error: int) -> None:
    data = {"command": "x", "exit_code": 1, "stdout": "o" * out, "stderr": "e" * error}
    rendered = render("output", data, LIMIT) or ""
    contents = "".join(re.findall(r"o{4,}|e{9,}", rendered))
    assert len(contents) == min(LIMIT, out + error)
    assert contents.count("e") >= min(error, LIMIT // 2)
    assert contents.count("o") >= min(out, LIMIT // 2)
