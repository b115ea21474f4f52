"""Made-up messages, streamed and whole, in any pieces, broken off anywhere, damaged anyhow."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.plugins.claudecode.protocol.accumulator import Accumulator
from hubd.plugins.claudecode.protocol.messages import Broken, Message, StreamEvent, read_line
from hubd.plugins.claudecode.protocol.updates import (
    BlockDelta,
    BlockFinished,
    BlockStarted,
    MessageFinished,
    MessageStarted,
    OtherLine,
    ToolResult,
    UnreadableLine,
    Update,
)
from tests.plugins.claudecode.protocol.test_accumulator import (
    LINES,
    NAMES,
    assert_blocks_are_finished_once,
    assert_deltas_make_up_blocks,
    finished,
    updates_of,
)
from tests.plugins.claudecode.protocol.test_messages import damaged, json_values

Block = dict[str, Any]

texts = st.text(min_size=1, max_size=20)
blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    st.builds(
        lambda text, signature: {"type": "thinking", "thinking": text, "signature": signature},
        st.text(max_size=20),
        texts,
    ),
    st.builds(
        lambda number, given: {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "Bash",
            "input": given,
        },
        st.integers(0, 10**9),
        st.dictionaries(st.text(max_size=5), json_values, max_size=3),
    ),
    st.builds(lambda text: {"type": "redacted_thinking", "data": text}, texts),
)
messages_of_blocks = st.lists(blocks, min_size=1, max_size=5)


def line(**fields: Any) -> Message:
    return read_line(json.dumps(fields).encode())


def stream(message_id: str, parent: str | None, **event: Any) -> Message:
    return line(
        type="stream_event", event=event, parent_tool_use_id=parent, api_message_id=message_id
    )


def whole_line(
    content: Sequence[Block], number: int, message_id: str = "m", parent: str | None = None
) -> Message:
    message = {"id": message_id, "model": "x", "content": content, "usage": {"output_tokens": 1}}
    uuid = f"{message_id}-{number}"
    return line(type="assistant", message=message, parent_tool_use_id=parent, uuid=uuid)


def pieces(data: st.DataObject, text: str) -> list[str]:
    """A text cut into pieces, of which some may be empty."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def deltas(data: st.DataObject, block: Block) -> list[Block]:
    match block["type"]:
        case "text":
            return [{"type": "text_delta", "text": cut} for cut in pieces(data, block["text"])]
        case "thinking":
            cuts = pieces(data, block["thinking"])
            return [
                *({"type": "thinking_delta", "thinking": cut} for cut in cuts),
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "tool_use":
            ascii_only = data.draw(st.booleans())
            cuts = pieces(data, json.dumps(block["input"], ensure_ascii=ascii_only))
            return [{"type": "input_json_delta", "partial_json": cut} for cut in cuts]
    return []


# Fields that a block of the stream does not have at its start.
EMPTY: dict[str, Block] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


def streamed(
    data: st.DataObject,
    content: Sequence[Block],
    *,
    message_id: str = "m",
    parent: str | None = None,
    whole: bool = True,
) -> list[Message]:
    """A message as it comes with partial messages on; without whole lines if so wanted."""
    start = {"id": message_id, "model": "x", "content": [], "usage": {"output_tokens": 1}}
    lines = [stream(message_id, parent, type="message_start", message=start)]
    for index, block in enumerate(content):
        empty = EMPTY.get(block["type"], {})
        lines.append(
            stream(
                message_id,
                parent,
                type="content_block_start",
                index=index,
                content_block={**block, **empty},
            )
        )
        lines += [
            stream(message_id, parent, type="content_block_delta", index=index, delta=delta)
            for delta in deltas(data, block)
        ]
        if whole:
            lines.append(whole_line([block], index, message_id, parent))
        lines.append(stream(message_id, parent, type="content_block_stop", index=index))
    stop = {"stop_reason": "end_turn"}
    usage = {"output_tokens": 1}
    lines.append(stream(message_id, parent, type="message_delta", delta=stop, usage=usage))
    lines.append(stream(message_id, parent, type="message_stop"))
    return lines


def without_deltas(updates: Iterable[Update]) -> list[Update]:
    return [update for update in updates if not isinstance(update, BlockDelta)]


def without_stop_reason(updates: Iterable[Update]) -> list[Update]:
    """Only `message_delta` tells the stop reason, and only the stream has it."""
    return [
        replace(update, stop_reason=None) if isinstance(update, MessageFinished) else update
        for update in updates
    ]


@given(st.data(), messages_of_blocks)
def test_streamed_and_complete_lines_give_the_same_updates_except_deltas(
    data: st.DataObject, content: list[Block]
) -> None:
    partial = updates_of(streamed(data, content))
    whole = updates_of(whole_line([block], number) for number, block in enumerate(content))
    assert_deltas_make_up_blocks(partial)
    assert without_stop_reason(without_deltas(partial)) == whole
    assert [block.block for block in finished(whole)] == content


@given(messages_of_blocks)
def test_several_blocks_in_one_line_give_the_same_updates(content: list[Block]) -> None:
    together = finished(updates_of([whole_line(content, 0)]))
    apart = finished(updates_of(whole_line([block], n) for n, block in enumerate(content)))
    assert [replace(block, raw=None) for block in together] == [
        replace(block, raw=None) for block in apart
    ]


@given(st.data(), messages_of_blocks)
def test_a_stream_without_complete_lines_gives_the_same_blocks(
    data: st.DataObject, content: list[Block]
) -> None:
    updates = updates_of(streamed(data, content, whole=False))
    assert_blocks_are_finished_once(updates)
    assert_deltas_make_up_blocks(updates)
    assert [(block.block, block.complete) for block in finished(updates)] == [
        (block, True) for block in content
    ]


@given(st.data(), messages_of_blocks)
def test_a_stream_that_stops_anywhere_keeps_its_text(
    data: st.DataObject, content: list[Block]
) -> None:
    lines = streamed(data, content, whole=data.draw(st.booleans()))
    count = data.draw(st.integers(0, len(lines)))
    updates = updates_of(lines[:count], exit_status=-9)
    assert_blocks_are_finished_once(updates)
    assert_deltas_make_up_blocks(updates)
    ended = [update for update in updates if isinstance(update, MessageFinished)]
    # From the stop reason on, the message is whole.
    assert [update.complete for update in ended] == ([count >= len(lines) - 1] if count else [])


@given(st.data(), st.lists(messages_of_blocks, min_size=1, max_size=3))
def test_messages_of_parallel_agents_are_separate(
    data: st.DataObject, contents: list[list[Block]]
) -> None:
    # All have the same message id, so that only the agent tells them apart.
    lanes = [
        streamed(data, content, parent=None if number == 0 else f"agent-{number}")
        for number, content in enumerate(contents)
    ]
    turns = data.draw(
        st.permutations([number for number, lines in enumerate(lanes) for _ in lines])
    )
    waiting = [iter(lines) for lines in lanes]
    mixed = updates_of(next(waiting[number]) for number in turns)
    for number, lines in enumerate(lanes):
        parent = None if number == 0 else f"agent-{number}"
        mine = [update for update in mixed if getattr(update, "parent_tool_use_id", "?") == parent]
        assert mine == updates_of(lines)


@given(st.data(), st.sampled_from([name for name in NAMES if LINES[name]]))
def test_damaged_repeated_and_lost_lines_keep_the_guarantees(
    data: st.DataObject, name: str
) -> None:
    lines = list(LINES[name])
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["damage", "repeat", "lose", "move", "break"])):
            case "damage":
                try:
                    lines[place] = json.dumps(damaged(data, lines[place])).encode()
                except ValueError:
                    continue
            case "repeat":
                lines.insert(data.draw(st.integers(0, len(lines))), lines[place])
            case "lose" if len(lines) > 1:
                del lines[place]
            case "move":
                lines.insert(data.draw(st.integers(0, len(lines) - 1)), lines.pop(place))
            case "break":
                lines[place] = lines[place][: len(lines[place]) // 2]
    messages = [read_line(one) for one in lines]
    updates = updates_of(messages, exit_status=data.draw(st.sampled_from([None, 0, 1, -9])))
    assert_blocks_are_finished_once(updates)
    raws = Counter(id(getattr(update, "raw", None)) for update in updates)
    for message in messages:
        if not isinstance(message, StreamEvent | Broken):
            assert raws[id(message.raw)]


# ---- single rules --------------------------------------------------------------------------


def begun(message_id: str = "m", **block: Any) -> list[Message]:
    start = {"id": message_id, "model": "x"}
    return [
        stream(message_id, None, type="message_start", message=start),
        stream(message_id, None, type="content_block_start", index=0, content_block=block),
    ]


def delta(**fields: Any) -> Message:
    return stream("m", None, type="content_block_delta", index=0, delta=fields)


def test_a_new_message_cuts_off_the_one_before() -> None:
    piece = delta(type="text_delta", text="so far")
    updates = updates_of([*begun(type="text", text=""), piece, *begun("m2", type="text", text="")])
    cut = finished(updates)[0]
    assert (cut.message_id, cut.block["text"], cut.complete) == ("m", "so far", False)
    kinds = [type(update) for update in updates]
    assert kinds.index(MessageFinished) < kinds.index(MessageStarted, 1)


def test_a_restarted_stream_with_the_same_id_continues_with_new_blocks() -> None:
    piece = delta(type="text_delta", text="first")
    updates = updates_of([*begun(type="text", text=""), piece, *begun(type="text", text=""), piece])
    assert_blocks_are_finished_once(updates)
    assert [(b.index, b.block["text"]) for b in finished(updates)] == [(0, "first"), (1, "first")]


def test_the_blocks_of_a_restarted_stream_are_cut_off_at_once() -> None:
    again = begun(type="text", text="")[0]
    accumulator = Accumulator()
    for message in begun(type="text", text="so far"):
        accumulator.feed(message)
    [cut] = accumulator.feed(again)
    assert isinstance(cut, BlockFinished)
    assert (cut.block["text"], cut.complete) == ("so far", False)


def test_a_delta_after_the_end_of_its_block_is_an_other_line() -> None:
    stop = stream("m", None, type="content_block_stop", index=0)
    updates = updates_of(
        [*begun(type="text", text=""), stop, delta(type="text_delta", text="late")]
    )
    assert [update.event_type for update in updates if isinstance(update, OtherLine)] == [
        "stream_event/content_block_delta"
    ]
    assert finished(updates)[0].block["text"] == ""


def test_a_complete_call_is_matched_to_the_open_call_with_its_id() -> None:
    first: Block = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    second: Block = {**first, "id": "t2"}
    start = stream("m", None, type="content_block_start", index=1, content_block=second)
    whole = {**second, "input": {"command": "ls"}}
    updates = updates_of([*begun(**first), start, whole_line([whole], 0)])
    assert [(b.index, b.block, b.complete) for b in finished(updates)] == [
        (1, whole, True),
        (0, first, False),
    ]


def test_a_streamed_message_without_a_stop_reason_is_incomplete() -> None:
    text = {"type": "text", "text": "x"}
    over = line(type="result", subtype="success", is_error=False)
    updates = updates_of([*begun(**text), whole_line([text], 0), over])
    [ended] = [update for update in updates if isinstance(update, MessageFinished)]
    assert ([block.complete for block in finished(updates)], ended.complete) == ([True], False)


def test_the_result_of_its_call_ends_the_message_of_a_subagent() -> None:
    piece = whole_line([{"type": "text", "text": "x"}], 0, parent="t")
    result = {"type": "tool_result", "tool_use_id": "t", "content": "done"}
    updates = updates_of([piece, line(type="user", message={"content": [result]})])
    assert [type(update) for update in updates][-2:] == [MessageFinished, ToolResult]


def test_only_the_last_block_of_an_interrupted_line_is_cut_off() -> None:
    content = [{"type": "text", "text": "whole"}, {"type": "text", "text": "cu"}]
    cut = line(type="assistant", message={"id": "m", "content": content}, aborted=True)
    assert [block.complete for block in finished(updates_of([cut]))] == [True, False]


def test_text_in_the_start_of_a_block_is_its_first_delta() -> None:
    updates = updates_of([*begun(type="text", text="ab"), delta(type="text_delta", text="c")])
    grown = [update for update in updates if isinstance(update, BlockDelta)]
    assert [(update.offset, update.text) for update in grown] == [(0, "ab"), (2, "c")]
    assert finished(updates)[0].block["text"] == "abc"


def test_an_empty_delta_gives_no_update() -> None:
    call: Block = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    updates = updates_of([*begun(**call), delta(type="input_json_delta", partial_json="")])
    assert not [update for update in updates if isinstance(update, BlockDelta | OtherLine)]
    assert finished(updates)[0].block == call


@pytest.mark.parametrize("text", ['{"a":', "[1]", '"x"', "{'a': 1}", '{"a": NaN}'])
def test_tool_input_that_is_not_a_json_object_is_kept_as_text(text: str) -> None:
    call: Block = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    updates = updates_of([*begun(**call), delta(type="input_json_delta", partial_json=text)])
    assert finished(updates)[0].block["input"] == {"__unparsedToolInput": {"raw": text}}


def test_citations_are_kept_with_their_text() -> None:
    citation = {"type": "char_location", "cited_text": "x"}
    piece = delta(type="citations_delta", citation=citation)
    updates = updates_of([*begun(type="text", text="", citations=[]), piece, piece])
    assert finished(updates)[0].block["citations"] == [citation, citation]


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "tomorrow_delta", "text": "x"},
        {"type": "text_delta", "text": 1},
        {"type": "input_json_delta", "partial_json": "{}"},
        {},
    ],
)
def test_an_unknown_or_unfitting_delta_is_an_other_line(fields: Block) -> None:
    strange = delta(**fields)
    assert isinstance(strange, StreamEvent)
    updates = updates_of([*begun(type="text", text=""), strange])
    assert OtherLine("stream_event/content_block_delta", strange.raw) in updates


def test_stream_events_without_a_message_are_other_lines() -> None:
    lost = [
        stream("m", None, type="content_block_stop", index=0),
        stream("other", None, type="message_stop"),
        stream("m", None, type="ping"),
        line(type="stream_event", event={"type": "message_start"}),
    ]
    assert [type(update) for update in updates_of(lost)] == [OtherLine] * 4
    open_message = begun(type="text", text="")
    updates = updates_of([*open_message, lost[1], lost[2]])
    assert [update.event_type for update in updates if isinstance(update, OtherLine)] == [
        "stream_event/message_stop",
        "stream_event/ping",
    ]


def test_a_call_of_a_server_tool_is_a_tool_use_and_keeps_its_type() -> None:
    call: Block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    updates = updates_of([*begun(**call), delta(type="input_json_delta", partial_json='{"q":1}')])
    [start] = [update for update in updates if isinstance(update, BlockStarted)]
    assert (start.kind, start.tool_use_id, start.tool_name) == (
        "tool_use",
        "srvtoolu_1",
        "web_search",
    )
    assert finished(updates)[0].block == {**call, "input": {"q": 1}}


def test_a_user_line_with_more_than_results_is_also_an_other_line() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "done"}
    text = {"type": "text", "text": "and another thing"}
    mixed = line(type="user", message={"content": [result, text]}, uuid="u")
    assert [type(update) for update in updates_of([mixed])] == [ToolResult, OtherLine]
    pure = line(type="user", message={"content": [result]}, uuid="u")
    assert [type(update) for update in updates_of([pure])] == [ToolResult]


def test_a_message_that_grows_after_its_end_is_finished_again_and_starts_once() -> None:
    text = {"type": "text", "text": "x"}
    updates = updates_of([whole_line([text], 0), whole_line([text], 0, "n"), whole_line([text], 1)])
    assert_blocks_are_finished_once(updates)
    ended = [update for update in updates if isinstance(update, MessageFinished)]
    assert [(update.message_id, update.uuids) for update in ended] == [
        ("m", ("m-0",)),
        ("n", ("n-0",)),
        ("m", ("m-0", "m-1")),
    ]


@pytest.mark.parametrize(("exit_status", "complete"), [(0, True), (143, False), (None, False)])
def test_a_message_in_complete_lines_is_complete_only_after_exit_status_0(
    exit_status: int | None, complete: bool
) -> None:
    updates = updates_of([whole_line([{"type": "text", "text": "x"}], 0)], exit_status)
    [ended] = [update for update in updates if isinstance(update, MessageFinished)]
    assert ended.complete is complete


def test_usage_counts_never_decrease() -> None:
    start = {"id": "m", "usage": {"input_tokens": 10, "output_tokens": 1, "tier": "a"}}
    usage = {"input_tokens": 0, "output_tokens": 7, "tier": None}
    stop = {"stop_reason": "end_turn"}
    updates = updates_of(
        [
            stream("m", None, type="message_start", message=start),
            stream("m", None, type="message_delta", delta=stop, usage=usage),
        ]
    )
    [ended] = [update for update in updates if isinstance(update, MessageFinished)]
    assert ended.usage == {"input_tokens": 10, "output_tokens": 7, "tier": "a"}


def test_unreadable_lines_are_counted_and_reported() -> None:
    accumulator = Accumulator()
    updates = [update for text in (b"oops", b"[]") for update in accumulator.feed(read_line(text))]
    assert [type(update) for update in updates] == [UnreadableLine, UnreadableLine]
    assert accumulator.skipped == 2


def test_an_approval_request_is_an_other_line_with_its_type() -> None:
    request = {"subtype": "can_use_tool", "tool_name": "Bash"}
    asked = line(type="control_request", request_id="r", request=request)
    [update] = updates_of([asked])
    assert isinstance(update, OtherLine)
    assert (update.event_type, update.raw["request"]) == ("control_request/can_use_tool", request)
