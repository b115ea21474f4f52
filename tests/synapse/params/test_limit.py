"""The hint about the limits of a drawing says what `--all` would show."""

from typing import Any

import pytest

from synapse.params.limit import limits_hint

INTEGER = {"type": "integer"}
OPTIONAL = {"anyOf": [INTEGER, {"type": "null"}], "default": 20}


def bounded(default: int, maximum: int) -> dict[str, Any]:
    return {**INTEGER, "default": default, "maximum": maximum}


@pytest.mark.parametrize(
    ("properties", "params", "hint"),
    [
        ({}, {}, ""),
        ({"limit": {**INTEGER, "default": 5}}, {}, "--limit 5; --all shows everything"),
        ({"limit": OPTIONAL}, {"limit": 3}, "--limit 3; --all shows everything"),
        ({"limit": bounded(20, 10_000)}, {}, "--limit 20; --all shows up to 10,000"),
        (
            {"limit": bounded(10_000, 10_000), "depth": bounded(200, 1000)},
            {},
            "--limit 10000, --depth 200; --all lifts --depth",
        ),
        (
            {"limit": bounded(20, 100), "depth": bounded(5, 10)},
            {"limit": 100, "depth": 10},
            "--limit 100, --depth 10; the most that one call shows",
        ),
    ],
)
def test_the_hint_promises_no_more_than_all_shows(
    properties: dict[str, Any], params: dict[str, Any], hint: str
) -> None:
    assert limits_hint(params, {"type": "object", "properties": properties}) == hint
