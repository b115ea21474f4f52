"""The JSON that is written without importing `json`."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.wire.envelope import dumps, quote

NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text()),
    lambda below: st.one_of(st.lists(below), st.dictionaries(st.text(), below)),
    max_leaves=30,
)
HALF_PAIRS = st.text(st.characters(categories=["Cs", "Cc", "Lu"]))


@given(st.one_of(VALUES, HALF_PAIRS))
def test_dumps_writes_the_same_text_as_compact_json(value: Any) -> None:
    assert dumps(value) == json.dumps(value, separators=(",", ":"))


@given(VALUES)
def test_json_reads_the_same_value_back(value: Any) -> None:
    read_back = json.loads(dumps(value))
    assert read_back == value
    assert repr(read_back) == repr(value)  # 1, 1.0 and True are equal, but not the same.


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
