"""Canonical JSON and the hashes over it: the same everywhere, different when anything differs."""

import hashlib
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.wire.schema import HANDLE_FORMAT, canonical_json, content_hash
from tests.support import environment

WORDS = ("tree_get", "tree_list", "node_get", "é", "漢", "", "Z", "a.b", "10", "9")

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def reversed_keys(value: Any) -> Any:
    """The same JSON value, its objects built in the opposite order."""
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [reversed_keys(entry) for entry in value]
    return value


def test_canonical_json_is_sorted_compact_utf8() -> None:
    value = {"b": [1, 2.5, None, True], "a": {"é": "\n", "Z": {}}}
    expected = '{"a":{"Z":{},"é":"\\n"},"b":[1,2.5,null,true]}'
    assert canonical_json(value) == expected.encode()


@given(json_values)
def test_canonical_json_is_json_of_the_same_value(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


@given(json_values)
def test_the_order_of_keys_does_not_matter_at_any_depth(value: Any) -> None:
    assert canonical_json(reversed_keys(value)) == canonical_json(value)
    assert content_hash(reversed_keys(value)) == content_hash(value)


@given(json_values)
def test_a_hash_is_the_first_16_hex_digits_of_sha256(value: Any) -> None:
    assert content_hash(value) == hashlib.sha256(canonical_json(value)).hexdigest()[:16]


def test_a_known_value_has_a_known_hash() -> None:
    digest = hashlib.sha256(b'{"a":1,"b":2}').hexdigest()
    assert content_hash({"b": 2, "a": 1}) == digest[:16]
    assert len(content_hash({})) == 16


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ([1, 2], [2, 1]),
        ({}, []),
        ("1", 1),
        (1, True),
        (None, "null"),
        (["ab"], ["a", "b"]),
    ],
)
def test_different_values_have_different_hashes(one: object, other: object) -> None:
    assert content_hash(one) != content_hash(other)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        content_hash({"x": number})


def test_another_process_with_another_hash_seed_gets_the_same_hash() -> None:
    program = (
        "from hubd.wire.schema import content_hash\n"
        f"order = list(set({WORDS!r}))\n"
        "print(ascii(order), content_hash({word: len(word) for word in order}))"
    )
    orders, hashes = set(), set()
    for seed in ("1", "2", "3"):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env=environment(PYTHONHASHSEED=seed),
        )
        order, _, digest = ran.stdout.strip().rpartition(" ")
        orders.add(order)
        hashes.add(digest)
    assert len(orders) > 1
    assert hashes == {content_hash({word: len(word) for word in WORDS})}


def test_the_format_of_a_handle_is_the_published_one() -> None:
    assert HANDLE_FORMAT == "plexus-handle"
