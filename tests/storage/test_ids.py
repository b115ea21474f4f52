"""Ids: their form, their order, and their abbreviations."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import RFC_4122, UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hubd.storage import ids

# A moment of 2023, in nanoseconds.
MOMENT = 1_700_000_000_000_000_000

uuids = st.uuids(version=4)


class Clock:
    """Shows one time after the other, and the last one for ever."""

    def __init__(self, *times: int) -> None:
        self._times = list(times)

    def time_ns(self) -> int:
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


@contextmanager
def clock(*times: int) -> Iterator[None]:
    """Ids are made at these times, as in a process that has not made any before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids, "time", Clock(*times))
        patch.setattr(ids, "_last_tick", 0)
        yield


@given(st.lists(st.integers(0, 2**62), min_size=2, max_size=50))
@example([MOMENT + 1, MOMENT])
def test_later_ids_sort_later_even_if_the_clock_is_set_back(times: list[int]) -> None:
    with clock(*times):
        new_ids = [ids.uuid7() for _ in times]
    assert new_ids == sorted(new_ids)
    assert len(set(new_ids)) == len(new_ids)


def test_ids_of_the_same_nanosecond_sort_by_creation() -> None:
    with clock(MOMENT):
        new_ids = [ids.uuid7() for _ in range(10_000)]
    assert new_ids == sorted(set(new_ids))
    # The place for a fraction of a millisecond has 12 bits.
    assert int.from_bytes(new_ids[-1][:6]) - int.from_bytes(new_ids[0][:6]) == 10_000 // 4096


def test_a_version_7_id_contains_its_millisecond() -> None:
    with clock(MOMENT + 5_000_000):
        new_id = UUID(bytes=ids.uuid7())
    assert new_id.int >> 80 == MOMENT // 1_000_000 + 5


@pytest.mark.parametrize(("make", "version"), [(ids.uuid4, 4), (ids.uuid7, 7)])
def test_ids_are_unique_uuids_of_their_version(make: type[bytes], version: int) -> None:
    new_ids = [UUID(bytes=make()) for _ in range(1000)]
    assert {(entry.version, entry.variant) for entry in new_ids} == {(version, RFC_4122)}
    assert len(set(new_ids)) == len(new_ids)


@given(st.binary(min_size=16, max_size=16))
def test_an_id_is_written_as_the_uuid_module_writes_it(value: bytes) -> None:
    assert ids.text(value) == str(UUID(bytes=value))


@given(uuids)
def test_a_prefix_of_eight_or_more_digits_spans_exactly_its_ids(
    wanted: UUID,
) -> None:
    for written in (str(wanted), wanted.hex):
        for end in range(len(written) + 1):
            start = written[:end]
            digits = start.replace("-", "")
            span = ids.span(start)
            if len(digits) < ids.MIN_PREFIX:
                assert span is None
                continue
            assert span is not None
            low, high = span
            assert low.hex() == digits + "0" * (32 - len(digits))
            assert high.hex() == digits + "f" * (32 - len(digits))
            assert low <= wanted.bytes <= high
            assert ids.span(f" {start.upper()}\n") == span


@given(uuids)
def test_a_whole_id_spans_itself_alone(wanted: UUID) -> None:
    assert ids.span(str(wanted)) == (wanted.bytes, wanted.bytes)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "1234567",
        "1234567-",
        "-12345678",
        "1234-5678",
        "12345678--1234",
        "12345678-123-4",
        "1234567g",
        "١٢٣٤٥٦٧٨",  # digits, but not these
        "12345678 ".ljust(12, "9"),
        "0" * 33,
        "00000000-0000-0000-0000-0000000000000",
        "urn:uuid:00000000-0000-0000-0000-000000000000",
        "%",
    ],
)
def test_text_that_is_not_a_prefix_of_an_id_is_refused(written: str) -> None:
    assert ids.span(written) is None


@given(uuids)
def test_four_or_more_last_digits_are_read_as_they_are(wanted: UUID) -> None:
    for written in (str(wanted), wanted.hex):
        for start in range(len(written) + 1):
            end = written[start:]
            digits = end.replace("-", "")
            expected = digits if len(digits) >= ids.MIN_ENDING and end[0] != "-" else None
            assert ids.ending(end) == expected
            assert ids.ending(f" {end.upper()}\n") == expected


@pytest.mark.parametrize(
    "written",
    [
        "",
        "123",
        "-1234",
        "1234-",
        "12-34",
        "1-23456789012",
        "12345-1234-123456789012",
        "0-12345678-1234-1234-1234-123456789012",
        "12345678--1234-1234-123456789012",
        "123g",
        "١٢٣٤",  # digits, but not these
        "0" * 33,
        "%",
    ],
)
def test_strings_that_are_not_the_end_of_an_id_are_refused(written: str) -> None:
    assert ids.ending(written) is None
