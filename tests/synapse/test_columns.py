"""The columns that an event declares for its list."""

import time

import pytest

from hubd.activation import columns
from synapse.render.columns import Columns, relative, without_empty

RETURNS = {
    "properties": {
        "type": {"const": "page"},
        "rows": {
            "type": "array",
            **columns(id="{id:.4}", name="{name}", size="{more.size}", changed="{changed_at}"),
        },
    }
}


def test_rows_have_the_declared_columns_in_order() -> None:
    now = int(time.time())
    rows = [
        {"name": "a", "id": "0123456789", "more": {"size": 3}, "changed_at": now - 200, "x": 1},
        {"id": "ab", "changed_at": None},
    ]
    assert Columns(RETURNS).rows({"type": "page", "rows": rows}) == [
        {"id": "0123", "name": "a", "size": "3", "changed": "3m ago"},
        {"id": "ab", "name": "", "size": "", "changed": ""},
    ]
    assert list(RETURNS["properties"]["rows"]["x-columns"][0]) == ["id", "{id:.4}"]


def test_other_events_have_no_columns() -> None:
    assert Columns(RETURNS).rows({"type": "page", "others": []}) is None
    for wrong in ("x", [["a"]], [["a", 1]], {"a": "{a}"}):
        schema = {"properties": {"rows": {"x-columns": wrong}}}
        assert Columns(schema).rows({"rows": [{"a": 1}]}) is None


def test_a_column_without_values_is_left_out() -> None:
    assert without_empty([{"a": "1", "b": ""}, {"a": "", "b": ""}]) == [{"a": "1"}, {"a": ""}]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "now"), (59, "59s ago"), (3600, "1h ago"), (200_000, "2d ago"), (-120, "in 2m")],
)
def test_a_relative_time(seconds: float, text: str) -> None:
    assert relative(seconds) == text
