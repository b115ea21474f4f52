"""Text frames are read exactly as the protocol of `websockets` reads them."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, OPEN, SERVER, Protocol

from hubd.rpc.frames import MAX_SHORT_BYTES, Splitter, add_text_frame

MAX_SIZE = 100_000
EDGES = (0, 1, 125, 126, 127, MAX_SHORT_BYTES, MAX_SHORT_BYTES + 1, MAX_SIZE, MAX_SIZE + 1)

Read = list[tuple[Opcode, bytes, bool]]

payloads = st.binary(max_size=300) | st.sampled_from(EDGES).map(lambda size: b"x" * size)
text = payloads.map(lambda data: [Frame(Opcode.TEXT, data)])
control = st.builds(
    lambda opcode, data: [Frame(opcode, data)],
    st.sampled_from((Opcode.PING, Opcode.PONG)),
    st.binary(max_size=125),
)
fragmented = st.builds(
    lambda first, between, last: [
        Frame(Opcode.TEXT, first, fin=False),
        *between,
        Frame(Opcode.CONT, last),
    ],
    st.binary(max_size=20),
    st.just([]) | control,
    st.binary(max_size=20),
)
# Not all of these are allowed, and not where they are.
anything = st.builds(
    lambda opcode, data, fin: [Frame(opcode, data, fin)],
    st.sampled_from((Opcode.TEXT, Opcode.CONT, Opcode.BINARY)),
    st.binary(max_size=20),
    st.booleans(),
)
well_formed = st.lists(text | control | fragmented, max_size=8)
conversations = well_formed | st.lists(text | control | fragmented | anything, max_size=8)


def sent(frames: Sequence[Sequence[Frame]]) -> bytes:
    """All of them as a client sends them."""
    return b"".join(frame.serialize(mask=True) for group in frames for frame in group)


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Data as it may arrive, cut anywhere."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


def events(protocol: Protocol) -> Read:
    """Return the messages that a protocol has read."""
    found = [event for event in protocol.events_received() if isinstance(event, Frame)]
    return [(frame.opcode, bytes(frame.data), frame.fin) for frame in found]


def read_by_protocol(data: bytes) -> tuple[Read, str]:
    """Return the messages, and the error, if all bytes pass through the protocol."""
    protocol = Protocol(SERVER, state=OPEN, max_size=MAX_SIZE)
    protocol.receive_data(data)
    return events(protocol), str(protocol.parser_exc)


def read_the_short_way(arriving: Sequence[bytes]) -> tuple[Read, str, int]:
    """The same with a splitter in front, and how many messages did not need the protocol."""
    # Without a limit, because the protocol refuses long frames too, and in its own words.
    splitter = Splitter(max_bytes=2**64)
    protocol = Protocol(SERVER, state=OPEN, max_size=MAX_SIZE)
    read: Read = []
    short = 0
    for data in arriving:
        for piece, is_message in splitter.split(data):
            if not is_message:
                protocol.receive_data(piece)
                read += events(protocol)
            elif protocol.state is OPEN:
                read.append((Opcode.TEXT, piece, True))
                short += 1
    return read, str(protocol.parser_exc), short


@given(conversations, st.lists(st.integers(0, 10**6), max_size=20))
def test_frames_cut_anywhere_are_read_as_the_protocol_reads_them(
    frames: list[list[Frame]], cuts: list[int]
) -> None:
    data = sent(frames)
    assert read_the_short_way(pieces(data, cuts))[:2] == read_by_protocol(data)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
@example(b"\x00\x7f\x01", [])
@example(b"\x81\x7f\x01", [])
def test_bytes_that_are_not_frames_fail_as_in_the_protocol(data: bytes, cuts: list[int]) -> None:
    # Enough for a header that is begun: only whole headers are handed over.
    data += bytes(14)
    assert read_the_short_way(pieces(data, cuts))[:2] == read_by_protocol(data)


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_plain_messages_bypass_the_protocol(messages: list[bytes]) -> None:
    data = sent([[Frame(Opcode.TEXT, message)] for message in messages])
    assert read_the_short_way([data])[2] == len(messages)


def test_a_message_that_arrives_byte_by_byte_is_complete_at_its_last_byte() -> None:
    data = Frame(Opcode.TEXT, b"hello").serialize(mask=True)
    splitter = Splitter()
    found = [list(splitter.split(bytes([byte]))) for byte in data]
    assert found == [[]] * (len(data) - 1) + [[(b"hello", True)]]


def test_a_long_message_is_passed_on_in_pieces_and_not_kept() -> None:
    data = Frame(Opcode.TEXT, b"x" * (MAX_SHORT_BYTES + 1)).serialize(mask=True)
    splitter = Splitter()
    assert list(splitter.split(data[:1000])) == [(data[:1000], False)]
    assert list(splitter.split(data[1000:])) == [(data[1000:], False)]


@pytest.mark.parametrize("size", EDGES)
def test_a_client_reads_the_frames_of_the_server(size: int) -> None:
    message = b"y" * size
    client = Protocol(CLIENT, state=OPEN, max_size=None)
    frames: list[bytes] = []
    size_of_frame = add_text_frame(frames, message)
    assert size_of_frame == len(b"".join(frames))
    client.receive_data(b"".join(frames))
    assert events(client) == [(Opcode.TEXT, message, True)]


@given(
    st.binary(max_size=200)
    | text.map(lambda group: group[0].serialize(mask=True))
    | st.binary(max_size=300).map(lambda data: b"\x81\xff" + len(data).to_bytes(8) + data),
    st.binary(max_size=3),
)
def test_one_whole_frame_is_read_as_its_parts_are(data: bytes, more: bytes) -> None:
    for received in (data, data + more, data[:-1]):
        message = Splitter(MAX_SIZE).whole(received)
        if message is not None:
            assert list(Splitter(MAX_SIZE).split(received)) == [(message, True)]


def test_the_rest_of_an_incomplete_frame_is_not_a_whole_frame() -> None:
    frame = Frame(Opcode.TEXT, b"a message").serialize(mask=True)
    splitter = Splitter()
    assert splitter.whole(frame) == b"a message"
    assert list(splitter.split(frame[:3])) == []
    assert splitter.whole(frame) is None
