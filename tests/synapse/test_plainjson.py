"""The fast path's writer says what `json` says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.plainjson import dumps, quote

NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text()),
    lambda below: st.one_of(st.lists(below), st.dictionaries(st.text(), below)),
    max_leaves=30,
)
HALF_PAIRS = st.text(st.characters(categories=["Cs", "Cc", "Lu"]))


@given(st.one_of(VALUES, HALF_PAIRS))
def test_it_writes_what_json_writes_in_its_compact_form(value: Any) -> None:
    assert dumps(value) == json.dumps(value, separators=(",", ":"))


@given(VALUES)
def test_what_it_writes_is_read_back_by_json(value: Any) -> None:
    found = json.loads(dumps(value))
    assert found == value
    assert repr(found) == repr(value)  # tells 1, 1.0 and True apart


@given(st.text())
def test_a_text_is_quoted_on_one_line_of_ascii(text: str) -> None:
    assert quote(text).isascii()
    assert quote(text).isprintable()
    assert json.loads(quote(text)) == text


@pytest.mark.parametrize(
    "value", ["é\n" * 2_500_000, [0] * 100_000, {str(n): n for n in range(9999)}]
)
def test_large_values_are_written_whole(value: Any) -> None:
    assert json.loads(dumps(value)) == value
