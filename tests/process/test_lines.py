"""Lines from bytes, however they are cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hubd.process.lines import LineSplitter


@given(
    lines=st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line)),
    cuts=st.lists(st.integers(0, 400)),
    limit=st.integers(0, 40),
)
def test_lines_are_the_same_however_they_arrive(
    lines: list[bytes], cuts: list[int], limit: int
) -> None:
    data = b"\n".join(lines)
    reported: list[int] = []
    splitter = LineSplitter(limit, reported.append)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    collected: list[bytes] = []
    for begin, end in pairwise(edges):
        collected += splitter.feed(data[begin:end])
    collected += splitter.finish()
    assert collected == [line for line in lines if len(line) <= limit and line.strip()]
    assert reported == [len(line) for line in lines if len(line) > limit]
