"""Lines of the program become updates: the same ones however the lines were cut or told.

The golden updates of all transcripts are written anew, to be read before they are committed, by

    python -m tests.plugins.claudecode.protocol.test_accumulator --write
"""

import asyncio
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.plugins.claudecode.protocol.accumulator import Accumulator
from hubd.plugins.claudecode.protocol.messages import Message, ResultLine, StreamEvent, read_line
from hubd.plugins.claudecode.protocol.updates import (
    BlockDelta,
    BlockFinished,
    BlockStarted,
    MessageFinished,
    MessageStarted,
    OtherLine,
    ToolResult,
    Update,
)
from tests.plugins.claudecode.protocol.test_messages import TRANSCRIPTS

NAMES = sorted(path.parent.name for path in TRANSCRIPTS.glob("*/output.jsonl"))
LINES = {name: (TRANSCRIPTS / name / "output.jsonl").read_bytes().splitlines() for name in NAMES}
MESSAGES = {name: [read_line(line) for line in lines] for name, lines in LINES.items()}

# How the program exited, where it was not 0.
EXIT_STATUS = {
    "connection_cut_then_400": 1,
    "err500": 1,
    "invalid_model": 1,
    "max_turns": 1,
    "no_key": 1,
    "session_id_reuse_error": 1,
    "sigterm": 143,
}


def updates_of(messages: Iterable[Message], exit_status: int | None = 0) -> list[Update]:
    accumulator = Accumulator()
    updates = [update for message in messages for update in accumulator.feed(message)]
    return updates + accumulator.end(exit_status)


def updates_of_transcript(name: str) -> list[Update]:
    return updates_of(MESSAGES[name], EXIT_STATUS.get(name, 0))


def finished(updates: Iterable[Update]) -> list[BlockFinished]:
    return [update for update in updates if isinstance(update, BlockFinished)]


def key(update: BlockStarted | BlockDelta | BlockFinished) -> tuple[str | None, str, int]:
    return update.parent_tool_use_id, update.message_id, update.index


def message_key(update: MessageStarted | MessageFinished) -> tuple[str | None, str]:
    return update.parent_tool_use_id, update.message_id


# ---- properties of all lines ---------------------------------------------------------------


def assert_blocks_are_finished_once(updates: Sequence[Update]) -> None:
    """Every block starts once, then grows, then is finished once, inside a message that began."""
    begun: set[tuple[str | None, str]] = set()
    is_open: dict[tuple[str | None, str, int], bool] = {}
    for update in updates:
        match update:
            case MessageStarted():
                assert message_key(update) not in begun
                begun.add(message_key(update))
            case BlockStarted():
                assert (update.parent_tool_use_id, update.message_id) in begun
                assert key(update) not in is_open
                is_open[key(update)] = True
            case BlockDelta():
                assert is_open[key(update)]
            case BlockFinished():
                assert is_open[key(update)]
                is_open[key(update)] = False
    assert not any(is_open.values())
    ended = {message_key(update) for update in updates if isinstance(update, MessageFinished)}
    assert ended == begun


def assert_deltas_make_up_blocks(updates: Sequence[Update]) -> None:
    """Offsets are exact, and the deltas of a block put together are its content."""
    texts: dict[tuple[str | None, str, int], str] = {}
    for update in updates:
        if isinstance(update, BlockDelta):
            assert update.offset == len(texts.setdefault(key(update), ""))
            assert (update.partial_json is None) == (update.kind != "tool_use")
            texts[key(update)] += (update.text or "") + (update.partial_json or "")
    for block in finished(updates):
        if key(block) not in texts:
            continue
        text = texts[key(block)]
        if block.kind != "tool_use":
            assert block.block["thinking" if block.kind == "thinking" else "text"] == text
        elif "__unparsedToolInput" in block.block["input"]:
            assert block.block["input"]["__unparsedToolInput"]["raw"] == text
        else:
            assert block.block["input"] == json.loads(text)


# ---- real transcripts ----------------------------------------------------------------------


def golden(name: str) -> str:
    """Return the updates of a transcript as JSON, one a line; whole lines are named by number."""
    numbers = {id(message.raw): number for number, message in enumerate(raws(name), 1)}

    def plain(update: Update) -> dict[str, Any]:
        fields = update._asdict() if isinstance(update, ResultLine) else asdict(update)
        raw = getattr(update, "raw", None)
        if raw is not None:
            fields["raw"] = f"line {numbers[id(raw)]}"
        return {"update": type(update).__name__, **fields}

    lines = [
        json.dumps(plain(update), ensure_ascii=False) for update in updates_of_transcript(name)
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def raws(name: str) -> list[Any]:
    return list(MESSAGES[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_transcript_gives_exactly_its_golden_updates(name: str) -> None:
    assert golden(name) == (TRANSCRIPTS / name / "updates.json").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_deltas_of_a_transcript_make_up_its_blocks(name: str) -> None:
    updates = updates_of_transcript(name)
    assert_blocks_are_finished_once(updates)
    assert_deltas_make_up_blocks(updates)


@pytest.mark.parametrize("name", NAMES)
def test_every_line_except_stream_events_is_complete_in_an_update(name: str) -> None:
    lines_of_updates = [getattr(update, "raw", None) for update in updates_of_transcript(name)]
    for message in raws(name):
        if not isinstance(message, StreamEvent):
            assert any(raw is message.raw for raw in lines_of_updates)


@pytest.mark.parametrize("name", NAMES)
def test_every_stream_event_of_a_transcript_is_used(name: str) -> None:
    passed = [
        update.event_type for update in updates_of_transcript(name) if isinstance(update, OtherLine)
    ]
    assert not [event_type for event_type in passed if event_type.startswith("stream_event")]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_stops_after_any_line_leaves_every_block_finished_once(name: str) -> None:
    for count in range(len(MESSAGES[name])):
        updates = updates_of(MESSAGES[name][:count], exit_status=-9)
        assert_blocks_are_finished_once(updates)
        assert_deltas_make_up_blocks(updates)


@pytest.mark.parametrize("name", NAMES)
def test_updates_come_with_their_lines(name: str) -> None:
    """The end adds only the ends of open messages; no earlier update depends on it."""
    whole = updates_of_transcript(name)
    for count in range(len(MESSAGES[name])):
        accumulator = Accumulator()
        early = [update for one in MESSAGES[name][:count] for update in accumulator.feed(one)]
        assert early == whole[: len(early)]
        assert {type(update) for update in accumulator.end(None)} <= {
            BlockFinished,
            MessageFinished,
        }
        assert accumulator.end(None) == []


@given(st.sampled_from(NAMES), st.lists(st.integers(1, 4000), min_size=1))
async def test_updates_do_not_depend_on_chunks(name: str, sizes: list[int]) -> None:
    rest, reader = b"\n".join([*LINES[name], b""]), asyncio.StreamReader(limit=2**20)
    for size in itertools.cycle(sizes):
        if not rest:
            break
        reader.feed_data(rest[:size])
        rest = rest[size:]
    reader.feed_eof()
    messages = []
    while line := await reader.readline():
        messages.append(read_line(line))
    assert updates_of(messages, EXIT_STATUS.get(name, 0)) == updates_of_transcript(name)


# ---- the scenarios of the transcripts ------------------------------------------------------


def test_a_block_is_that_of_the_complete_line_with_its_signature() -> None:
    thinking, text = finished(updates_of_transcript("thinking"))
    assert thinking.block == {
        "type": "thinking",
        "thinking": "Let me think. Two plus two is four.",
        "signature": "RmFrZVNpZ25hdHVyZQ==",
    }
    assert (thinking.kind, thinking.index, thinking.complete) == ("thinking", 0, True)
    assert (text.kind, text.index, text.block["text"]) == ("content", 1, "The answer is 4.")


def test_a_message_has_its_final_usage_and_the_native_ids_of_all_its_lines() -> None:
    ended = [
        update
        for update in updates_of_transcript("thinking")
        if isinstance(update, MessageFinished)
    ]
    assert len(ended) == 1
    assert ended[0].usage == {
        "input_tokens": 10,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 7,
    }
    assert (ended[0].stop_reason, ended[0].complete) == ("end_turn", True)
    assert [uuid[:8] for uuid in ended[0].uuids] == ["59c25b45", "9e0f519c"]


def test_parallel_tool_results_are_matched_by_id_in_the_order_they_come() -> None:
    updates = updates_of_transcript("parallel_auto")
    calls = [block.block["id"] for block in finished(updates) if block.kind == "tool_use"]
    results = [update for update in updates if isinstance(update, ToolResult)]
    assert [result.output_text for result in results] == ["two", "one"]
    assert [result.tool_use_id for result in results] == calls[::-1]


def test_the_result_of_a_denied_tool_is_an_error() -> None:
    [result] = [
        update for update in updates_of_transcript("permit_deny") if isinstance(update, ToolResult)
    ]
    assert (result.is_error, result.output_text) == (True, "denied by policy")


def test_an_image_stays_in_the_block_and_is_named_in_the_text() -> None:
    updates = updates_of_transcript("image_result")
    [result] = [update for update in updates if isinstance(update, ToolResult)]
    assert result.output_text == "[image image/png, 73 bytes]"
    assert result.block["content"][0]["source"]["data"].startswith("iVBORw0KGgo")


def test_an_early_tool_result_does_not_end_its_message() -> None:
    updates = updates_of_transcript("tool_input_not_json")
    kinds = [type(update) for update in updates]
    assert kinds.index(ToolResult) < kinds.index(MessageFinished)
    [ended, _] = [update for update in updates if isinstance(update, MessageFinished)]
    assert (ended.stop_reason, ended.complete) == ("tool_use", True)


@pytest.mark.parametrize("name", ["sigint", "control_interrupt", "sigint_in_text"])
def test_interrupted_text_is_kept_as_incomplete(name: str) -> None:
    updates = updates_of_transcript(name)
    cut = [block for block in finished(updates) if not block.complete]
    assert len(cut) == 1
    assert cut[0].block["text"] in (
        "word0 word1 word2 word3 word4 word5 word6 word7 word8 wo",
        "this answer will be cut in t",
    )
    ended = next(update for update in updates if isinstance(update, MessageFinished))
    assert (ended.stop_reason, ended.complete) == (None, False)


def test_interrupted_thinking_and_tool_input_are_built_from_deltas() -> None:
    [thinking] = finished(updates_of_transcript("sigint_in_thinking"))
    assert thinking.block == {
        "type": "thinking",
        "thinking": "thinking about it for",
        "signature": "",
    }
    assert (thinking.complete, thinking.raw) == (False, None)
    text, call = finished(updates_of_transcript("sigint_in_tool_input"))
    assert (text.complete, call.complete) == (True, False)
    assert call.block["input"] == {"__unparsedToolInput": {"raw": '{"command": "e'}}
    assert call.block["name"] == "Bash"


@pytest.mark.parametrize("name", ["api_error_midstream", "connection_cut", "sigterm"])
def test_text_cut_off_by_the_api_or_a_signal_is_kept_as_incomplete(name: str) -> None:
    updates = updates_of_transcript(name)
    [cut] = [block for block in finished(updates) if not block.complete]
    assert cut.block["text"] in ("this answer is cut in", "this answer will be cut in t")
    ended = [update for update in updates if isinstance(update, MessageFinished)]
    assert [update.complete for update in ended] == [False, True][: len(ended)]


def test_an_empty_text_block_is_complete_without_a_complete_line() -> None:
    blocks = finished(updates_of_transcript("odd_blocks"))
    assert [(block.kind, block.complete, block.raw is None) for block in blocks] == [
        ("other", True, False),
        ("content", True, True),
        ("thinking", True, False),
        ("content", True, False),
    ]


def test_messages_of_subagents_carry_the_call_that_started_them() -> None:
    for name in ("subagents", "subagents_no_partial"):
        updates = updates_of_transcript(name)
        tasks = {b.block["id"] for b in finished(updates) if b.block.get("name") == "Task"}
        begun = [update for update in updates if isinstance(update, MessageStarted)]
        assert {update.parent_tool_use_id for update in begun} == {None, *tasks}
        for task in tasks:
            end_of_agent = next(
                place
                for place, update in enumerate(updates)
                if isinstance(update, MessageFinished) and update.parent_tool_use_id == task
            )
            handed_back = next(
                place
                for place, update in enumerate(updates)
                if isinstance(update, ToolResult) and update.tool_use_id == task
            )
            assert end_of_agent < handed_back


def test_a_background_subagent_has_messages_after_its_call_was_answered() -> None:
    updates = updates_of_transcript("subagent_background")
    order = [
        (type(update), getattr(update, "parent_tool_use_id", None) is not None)
        for update in updates
        if isinstance(update, ToolResult | MessageFinished | ResultLine)
    ]
    assert order == [
        (ToolResult, False),
        (MessageFinished, False),
        (MessageFinished, False),
        (ToolResult, True),
        (MessageFinished, True),
        (MessageFinished, True),
        (MessageFinished, False),
        (ResultLine, False),
        (ResultLine, False),
    ]


@pytest.mark.parametrize("pair", ["plain", "odd_blocks", "sigint_in_text"])
def test_blocks_are_the_same_with_and_without_partial_messages(pair: str) -> None:
    other = {"sigint_in_text": "sigint_no_partial"}.get(pair, f"{pair}_no_partial")
    streamed, whole = finished(updates_of_transcript(pair)), finished(updates_of_transcript(other))
    # The program leaves empty text blocks out of its whole lines.
    kept = [block for block in streamed if block.raw is not None]
    assert [(b.kind, b.block, b.complete) for b in kept] == [
        (b.kind, b.block, b.complete) for b in whole
    ]


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.plugins.claudecode.protocol.test_accumulator --write")
    for each in NAMES:
        (TRANSCRIPTS / each / "updates.json").write_text(golden(each))
