"""Values as people read them, by the names and types of their fields."""

import time
from typing import Any

import pytest

from synapse.render.values import Values, duration, heading, money, relative, size_text

NODE = "01a1ed22-63b4-7aec-aefe-c7b0a6ee8ba2"
TREE = "58c49c3d-60b6-4c0e-9299-52d55269183e"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("count", 3, "3"),
        ("done", True, "yes"),
        ("cost_usd", 0.1234, "$0.12"),
        ("cost_usd", 0.0012, "$0.0012"),
        ("size", 1536, "1.5 KiB"),
        ("sent_bytes", 12, "12 B"),
        ("size", 1.5, "1.5"),
        ("input_tokens", 60332, "60,332"),
        ("duration_ms", 8400, "8.4 s"),
        ("uptime_seconds", 200, "3m 20s"),
        ("status", "running", "● running"),
        ("state", "awaiting_permission", "? approval"),
        ("status", "complete", "✓ complete"),
        ("status", "failed", "✗ failed"),
        ("status", "unheard of", "unheard of"),
        ("mood", "running", "running"),
        ("tree_id", TREE, "58c49c3d"),
        ("node_id", NODE, "a6ee8ba2"),
        ("head", {"tree_id": TREE, "node_id": NODE}, "a6ee8ba2 in tree 58c49c3d"),
        ("tags", ["a", 1], "a, 1"),
        ("text", "two\nlines\tand\x1b[31m more", "two lines and more"),
        ("nothing", None, ""),
        ("created_at", 2**60, str(2**60)),
    ],
)
def test_the_name_and_the_type_of_a_field_decide_its_form(name: str, value: Any, text: str) -> None:
    assert Values().cell(name, value).text == text


def test_times_are_relative_or_exact() -> None:
    moment = int(time.time()) - 200
    assert Values().cell("created_at", moment).text == "3m ago"
    assert Values(exact_times=True).cell("created_at", moment).text == time.strftime(
        "%Y-%m-%d %H:%M:%S", time.localtime(moment)
    )
    assert Values().full("created_at", moment).text.endswith(" (3m ago)")


def test_a_declared_date_is_a_time_under_any_name() -> None:
    returns = {"$defs": {"Row": {"properties": {"due": {"type": "string", "format": "date-time"}}}}}
    assert Values(returns).cell("due", "2001-01-01T00:00:00+00:00").text.endswith("d ago")
    assert Values(returns).cell("due", "soon").text == "soon"


def test_a_record_has_whole_ids_and_all_lines_of_a_text() -> None:
    assert Values().full("tree_id", TREE).text == TREE
    assert Values().full("text", "two\nlines").text == "two\nlines"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "now"), (59, "59s ago"), (3600, "1h ago"), (200_000, "2d ago"), (-120, "in 2m")],
)
def test_a_relative_time(seconds: float, text: str) -> None:
    assert relative(seconds) == text


def test_units() -> None:
    durations = [0, 0.24, 8.42, 59, 60, 7500, 100_000]
    assert list(map(duration, durations)) == [
        *("0 s", "240 ms", "8.4 s", "59 s", "1m", "2h 5m", "1d 3h")
    ]
    assert list(map(size_text, [0, 1023, 2**20, 2**70])) == [
        *("0 B", "1023 B", "1.0 MiB", "1048576.0 PiB")
    ]
    assert list(map(money, [0, 1234.5, -0.5])) == ["$0.00", "$1,234.50", "-$0.50"]
    assert [heading(name) for name in ("cost_usd", "created_at", "at", "tool_name")] == [
        *("cost", "created", "at", "tool name")
    ]
