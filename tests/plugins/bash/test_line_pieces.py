"""Lines of bounded size: every byte once, however it arrives."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hubd.plugins.bash.line_pieces import LinePieces, Piece
from hubd.wire.escaped_bytes import escape, unescape

DATA = st.lists(st.sampled_from([b"\n", b"a", b"\xc3\xa9", "😀".encode(), b"\xff", b"\0\r"])).map(
    b"".join
)


def pieces_of(data: bytes, cuts: list[int], limit: int) -> list[Piece]:
    splitter = LinePieces(limit)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [piece for begin, end in pairwise(edges) for piece in splitter.feed(data[begin:end])]
    return [*pieces, *splitter.finish()]


@given(data=DATA, cuts=st.lists(st.integers(0, 60)), limit=st.integers(4, 9))
def test_pieces_hold_every_byte_and_do_not_depend_on_the_chunks(
    data: bytes, cuts: list[int], limit: int
) -> None:
    pieces = pieces_of(data, cuts, limit)
    assert b"".join(piece.data + (b"" if piece.partial else b"\n") for piece in pieces) == data
    assert pieces == pieces_of(data, [], limit)
    assert all(len(piece.data) <= limit and b"\n" not in piece.data for piece in pieces)


@given(text=st.text(max_size=60), limit=st.integers(4, 9))
def test_a_cut_does_not_divide_a_character(text: str, limit: int) -> None:
    for piece in pieces_of(text.encode(), [], limit):
        piece.data.decode()


@given(
    data=st.binary() | DATA | st.lists(st.sampled_from([b"\\", b"\\x41", b"\xff"])).map(b"".join)
)
def test_escaped_text_gives_the_exact_bytes_back(data: bytes) -> None:
    text, escaped = escape(data)
    assert (unescape(text) if escaped else text.encode()) == data
