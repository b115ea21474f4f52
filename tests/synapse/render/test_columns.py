"""The columns that an event declares for its list."""

import time
from typing import Any

from hubd.activation import columns
from hubd.wire.summary import TOTALS_KEYWORD
from synapse.render.columns import Columns, declared_columns, field_columns
from synapse.render.tables import MARK, fit, table
from synapse.render.values import Cell, Values

RETURNS = {
    "properties": {
        "type": {"const": "page"},
        "rows": {
            "type": "array",
            **columns(id="{id:.4}", name="{name}", size="{more.size}", changed="{changed_at}"),
        },
    }
}


def texts(rows: list[dict[str, Cell]] | None) -> list[dict[str, str]]:
    """Return the texts of cells."""
    return [{title: cell.text for title, cell in row.items()} for row in rows or []]


def headings(rows: list[dict[str, Any]]) -> list[str]:
    """Return the headings of rows without declared columns."""
    columns_of_rows = field_columns(rows, Values(), ordered=False)
    return [column.heading.lower() for column in columns_of_rows]


def test_rows_have_the_declared_columns_in_order() -> None:
    now = int(time.time())
    rows = [
        {"name": "a", "id": "0123456789", "more": {"size": 3}, "changed_at": now - 200, "x": 1},
        {"id": "ab", "changed_at": None},
    ]
    assert texts(Columns(RETURNS).rows({"type": "page", "rows": rows})) == [
        {"id": "0123", "name": "a", "size": "3 B", "changed": "3m ago"},
        {"id": "ab", "name": "", "size": "", "changed": ""},
    ]
    assert list(RETURNS["properties"]["rows"]["x-columns"][0]) == ["id", "{id:.4}"]


def test_other_events_have_no_columns() -> None:
    assert Columns(RETURNS).rows({"type": "page", "others": []}) is None
    for wrong in ("x", [["a"]], [["a", 1]], {"a": "{a}"}):
        schema = {"properties": {"rows": {"x-columns": wrong}}}
        assert Columns(schema).rows({"rows": [{"a": 1}]}) is None


def test_a_column_without_values_is_left_out() -> None:
    rows = [{"a": Cell("1"), "b": Cell("")}, {"a": Cell(""), "b": Cell("")}]
    assert [column.heading for column in declared_columns(rows)] == ["A"]


def test_names_states_and_texts_come_before_times_objects_and_ids() -> None:
    row = {
        "type": "row",
        "session_id": "x",
        "options": {"a": 1},
        "created_at": 5,
        "count": 2,
        "prompt": "why",
        "status": "running",
        "name": "fix",
        "nothing": None,
    }
    assert headings([row]) == [
        *("name", "status", "prompt", "count", "created", "options", "session id"),
    ]


def test_the_first_id_comes_first_if_rows_have_no_name() -> None:
    assert headings([{"count": 1, "tree_id": "x", "node_id": "y"}]) == [
        *("tree id", "count", "node id"),
    ]


def test_units_in_names_are_dropped_unless_two_columns_would_share_a_heading() -> None:
    assert headings([{"cost_usd": 1.0, "sent_at": 1}]) == ["cost", "sent"]
    assert headings([{"cost_usd": 1.0, "cost": 1}]) == ["cost_usd", "cost"]


def test_columns_without_room_are_counted_and_numbers_are_not_cut() -> None:
    row = {"name": "n" * 30, "prompt": "p" * 90, "size": 123_456_789, "updated_at": 0}
    columns_of_row = field_columns([row], Values(), ordered=False)
    for width in (10, 20, 40, 60, 100, 200):
        lines = [line.plain for line in table(columns_of_row, width)]
        drawn = len(fit(columns_of_row, width))
        assert max(map(len, lines[:2])) <= width
        assert ("more column" in lines[-1]) == (drawn < 4)
        assert ("117.7 MiB" in lines[1]) == (drawn >= 3)


EVENT = {
    "properties": {
        "type": {"const": "hit"},
        "text": {"type": "string", "x-marks": "places"},
        "places": {"type": "array"},
    },
    **columns(when="{at_secs}", text="{text}"),
}


def test_an_event_that_is_a_row_declares_its_columns() -> None:
    hit = {"type": "hit", "text": "a needle", "at_secs": 3, "places": [[2, 8]]}
    assert texts(Columns(EVENT).rows(hit)) == [{"when": "3 s", "text": "a needle"}]
    assert Columns(EVENT).rows({"type": "other", "text": "a needle"}) is None


def test_declared_places_of_a_text_are_marked() -> None:
    def spans(text: str, places: object) -> list[str]:
        rows = Columns(EVENT).rows({"type": "hit", "text": text, "at_secs": 3, "places": places})
        _, line = table(declared_columns(rows or []), 24)
        return [line.plain[span.start : span.end] for span in line.spans if span.style == MARK]

    assert spans("a needle in the hay", [[2, 8], [12, 15]]) == ["needle", "the"]
    # A text is cut in such a way that its first place is visible.
    for before, after in (("x" * 12, "y" * 30), ("x" * 500, ""), ("漢" * 20, "字" * 20)):
        start = len(before) + 1
        assert spans(f"{before} needle{after}", [[start, start + 6]]) == ["needle"]
    # Places outside the text, or of another text, are ignored.
    for places in ([[50, 60]], [["a", 2]], "x", None, [[1]], [2]):
        assert spans("needle", places) == []
    assert spans("a\x1b[31m needle", [[2, 8]]) == []


def test_sums_are_a_last_row_below_several_rows() -> None:
    field = {**columns(label="{label}", cost="{cost}"), TOTALS_KEYWORD: "total"}
    drawn = Columns({"properties": {"type": {"const": "list"}, "rows": field}})

    def cells(*costs: int) -> list[list[str]]:
        rows = [{"label": f"r{cost}", "cost": cost} for cost in costs]
        result = drawn.rows({"type": "list", "rows": rows, "cost": 42, "label": "no sum"})
        assert result is not None
        return [[cell.text for cell in row.values()] for row in result]

    assert cells(1, 2) == [["r1", "1"], ["r2", "2"], ["total", "42"]]
    assert cells(1) == [["r1", "1"]]
