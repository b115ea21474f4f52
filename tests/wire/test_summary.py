"""An event in one line, by the template that its schema carries."""

from typing import Any

import pytest

from hubd.wire.summary import BadTemplate, event_line, field_names, fill

FIELDS: dict[str, Any] = {
    "text": "one\n  two",
    "done": True,
    "missing": None,
    "tags": ["a", "ä"],
    "server": {"port": 80, "name": None},
    "share": 0.256,
}


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("{text}", "one two"),
        ("{done}", "true"),
        ("[{missing}]", "[]"),
        ("{tags}", '["a","ä"]'),
        ("{server.port}", "80"),
        ("{server[port]}", "80"),
        ("{server.name}.", "."),
        ("{share:.0%}", "26%"),
        ("{text!r}", '"one\\n two"'),
        ("{text!s:>10}", "one two"),
        ("{{{done}}}", "{true}"),
    ],
)
def test_a_template_is_filled_with_values_as_json_has_them(template: str, line: str) -> None:
    assert fill(template, FIELDS) == line


def test_a_summary_is_cut_at_its_length() -> None:
    assert fill("{text}", {"text": "x" * 300}) == "x" * 199 + "…"
    assert fill("{text}", {"text": "x" * 300}, length=3) == "xx…"


@pytest.mark.parametrize("template", ["{other}", "{}", "{server.host}", "{done:.2f}", "{text"])
def test_a_template_that_does_not_fit_the_fields_is_refused(template: str) -> None:
    with pytest.raises(BadTemplate):
        fill(template, FIELDS)


def test_an_event_with_a_template_is_shown_by_it() -> None:
    assert event_line({"type": "moved", "text": "x", "count": 3}, "{count} moved") == "3 moved"


def test_an_event_without_a_field_of_its_template_is_shown_by_its_text() -> None:
    assert event_line({"type": "moved", "text": "x"}, "{count} moved") == "x"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "said", "text": "t", "message": "m"}, "m"),
        ({"type": "said", "message": " \n ", "text": "t\nu"}, "t u"),
        ({"type": "said", "text": 3, "output": "o"}, "o"),
        ({"type": "said", "count": 3}, "said"),
        ({}, ""),
    ],
)
def test_an_event_without_a_template_is_shown_by_its_text_or_type(
    event: dict[str, Any], line: str
) -> None:
    assert event_line(event) == line


def test_a_huge_text_is_cut_before_it_is_folded() -> None:
    assert event_line({"text": "ab " * 1_000_000}, length=5) == "ab a…"


def test_the_names_of_a_template_are_its_fields_and_its_dates() -> None:
    names, dates = field_names("{a.b} {c[d]:%H:%M} {{x}} {e!r}")
    assert names == {"a", "c", "e"}
    assert dates == {"c"}
