"""The limits of a message before it is parsed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.wire import limits
from hubd.wire.limits import LARGE_BYTES, MAX_DIGITS, MAX_MESSAGE_MIB, MIB, RPC_COUNTS, excess

LIMIT = MAX_MESSAGE_MIB * MIB
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def of_length(text: str) -> bytes:
    """As many repetitions of a text as a message has room for."""
    return (text * (LIMIT // len(text.encode()))).encode()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        pytest.param(b"[" + b"[]," * 100_001 + b"0]", "100,000 arrays and objects", id="arrays"),
        pytest.param(b"[" + b"{}," * 100_001 + b"0]", "100,000 arrays and objects", id="objects"),
        pytest.param(of_length("["), "100,000 arrays and objects", id="open brackets"),
        pytest.param(b"[" + b"0," * 200_001 + b"0]", "200,000 values", id="values"),
        pytest.param(b"{" + b'"a":0,' * 100_001 + b'"b":0}', "100,000 keys", id="keys"),
        pytest.param(
            b"[" + b"[]," * 40_000 + b'{"a":0},' * 55_000 + b"0," * 90_000 + b"0]",
            "together",
            id="all of them",
        ),
        pytest.param(b"[" + b"9" * LARGE_BYTES + b"]", "a number with", id="digits"),
        pytest.param(of_length('",,",'), "200,000 strings", id="strings of commas"),
    ],
)
def test_a_message_that_would_take_long_to_parse_is_refused_with_the_reason(
    message: bytes, reason: str
) -> None:
    assert reason in (excess(message) or "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Hello, [world]: {a} and (b). ", id="prose"),
        pytest.param('{"a": [1, 2, "b\\\\c"]}', id="JSON"),
        pytest.param("[[[[{{{{,,,,::::", id="structure"),
        pytest.param("1234567890", id="digits"),
        pytest.param('\\"', id="quotes and backslashes"),
        pytest.param("ü,[", id="not ASCII"),
    ],
)
def test_a_string_may_contain_anything_up_to_the_size_of_a_message(text: str) -> None:
    message = json.dumps({"x": text * (LIMIT // len(json.dumps(text)))}, ensure_ascii=False)
    assert LARGE_BYTES < len(message.encode()) <= LIMIT
    assert excess(message.encode()) is None


def test_a_message_just_within_the_limits_is_accepted() -> None:
    containers, values, keys = RPC_COUNTS
    assert excess(b"[" + b"[]," * (containers - 1) + b"0]") is None
    assert excess(b"[" + b"0," * values + b"0]") is None
    assert excess(b"{" + b'"a":0,' * (keys - 1) + b'"b":0}') is None
    assert excess(b"[" + b",".join([b"9" * (MAX_DIGITS - 1)] * 200) + b"]") is None


@given(st.lists(JSON, max_size=8), st.integers(1, 40))
def test_only_characters_outside_of_strings_count(values: list[object], chunk: int) -> None:
    message = json.dumps(values, ensure_ascii=False).encode()
    counted = limits.Counts(
        containers=_count(values, lambda value: isinstance(value, list | dict)),
        values=_count(values, lambda value: max(0, len(value) - 1)),
        keys=_count(values, lambda value: len(value) if isinstance(value, dict) else 0),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_CHUNK", chunk)
        patch.setattr(limits, "MAX_SHARES", 3)
        assert limits._count_outside_strings(message, counted) is None
        for place, count in enumerate(counted):
            if count:
                one_less = counted._replace(**{limits.Counts._fields[place]: count - 1})
                assert limits._count_outside_strings(message, one_less) is not None


def _count(value: object, measure) -> int:  # type: ignore[no-untyped-def]
    if not isinstance(value, list | dict):
        return 0
    below = value.values() if isinstance(value, dict) else value
    return int(measure(value)) + sum(_count(part, measure) for part in below)
