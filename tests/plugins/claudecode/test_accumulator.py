"""Lines of the program become facts: the same ones however the lines were cut or told.

The golden facts of all transcripts are written anew, to be read before they are committed, by

    python -m tests.plugins.claudecode.test_accumulator --write
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
from hubd.plugins.claudecode.protocol.facts import (
    BlockDelta,
    BlockFinished,
    BlockStarted,
    Fact,
    MessageFinished,
    MessageStarted,
    Passed,
    ToolResult,
    TurnResult,
)
from hubd.plugins.claudecode.protocol.messages import Message, StreamEvent, read_line
from tests.plugins.claudecode.test_messages import TRANSCRIPTS

NAMES = sorted(path.stem for path in TRANSCRIPTS.glob("*.jsonl"))
LINES = {name: (TRANSCRIPTS / f"{name}.jsonl").read_bytes().splitlines() for name in NAMES}
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


def facts_of(messages: Iterable[Message], exit_status: int | None = 0) -> list[Fact]:
    accumulator = Accumulator()
    facts = [fact for message in messages for fact in accumulator.feed(message)]
    return facts + accumulator.end(exit_status)


def facts_of_transcript(name: str) -> list[Fact]:
    return facts_of(MESSAGES[name], EXIT_STATUS.get(name, 0))


def finished(facts: Iterable[Fact]) -> list[BlockFinished]:
    return [fact for fact in facts if isinstance(fact, BlockFinished)]


def key(fact: BlockStarted | BlockDelta | BlockFinished) -> tuple[str | None, str, int]:
    return fact.parent_tool_use_id, fact.message_id, fact.index


def message_key(fact: MessageStarted | MessageFinished) -> tuple[str | None, str]:
    return fact.parent_tool_use_id, fact.message_id


# ---- what holds for any lines at all -------------------------------------------------------


def assert_blocks_are_finished_once(facts: Sequence[Fact]) -> None:
    """Every block starts once, then grows, then is finished once, inside a message that began."""
    begun: set[tuple[str | None, str]] = set()
    is_open: dict[tuple[str | None, str, int], bool] = {}
    for fact in facts:
        match fact:
            case MessageStarted():
                assert message_key(fact) not in begun
                begun.add(message_key(fact))
            case BlockStarted():
                assert (fact.parent_tool_use_id, fact.message_id) in begun
                assert key(fact) not in is_open
                is_open[key(fact)] = True
            case BlockDelta():
                assert is_open[key(fact)]
            case BlockFinished():
                assert is_open[key(fact)]
                is_open[key(fact)] = False
    assert not any(is_open.values())
    ended = {message_key(fact) for fact in facts if isinstance(fact, MessageFinished)}
    assert ended == begun


def assert_deltas_make_up_blocks(facts: Sequence[Fact]) -> None:
    """Offsets are exact, and the deltas of a block put together are its content."""
    texts: dict[tuple[str | None, str, int], str] = {}
    for fact in facts:
        if isinstance(fact, BlockDelta):
            assert fact.offset == len(texts.setdefault(key(fact), ""))
            assert (fact.partial_json is None) == (fact.kind != "tool_use")
            texts[key(fact)] += (fact.text or "") + (fact.partial_json or "")
    for block in finished(facts):
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
    """The facts of a transcript as JSON, one a line; a whole line of it is named by its number."""
    numbers = {id(message.raw): number for number, message in enumerate(raws(name), 1)}

    def plain(fact: Fact) -> dict[str, Any]:
        fields = asdict(fact)
        raw = getattr(fact, "raw", None)
        if raw is not None:
            fields["raw"] = f"line {numbers[id(raw)]}"
        return {"fact": type(fact).__name__, **fields}

    lines = [json.dumps(plain(fact), ensure_ascii=False) for fact in facts_of_transcript(name)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def raws(name: str) -> list[Any]:
    return list(MESSAGES[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_transcript_gives_exactly_its_golden_facts(name: str) -> None:
    assert golden(name) == (TRANSCRIPTS / f"{name}.facts.json").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_deltas_of_a_transcript_make_up_its_blocks(name: str) -> None:
    facts = facts_of_transcript(name)
    assert_blocks_are_finished_once(facts)
    assert_deltas_make_up_blocks(facts)


@pytest.mark.parametrize("name", NAMES)
def test_every_line_but_those_of_the_stream_is_whole_in_a_fact(name: str) -> None:
    held = [getattr(fact, "raw", None) for fact in facts_of_transcript(name)]
    for message in raws(name):
        if not isinstance(message, StreamEvent):
            assert any(raw is message.raw for raw in held)


@pytest.mark.parametrize("name", NAMES)
def test_no_stream_event_of_a_transcript_is_passed_on_unused(name: str) -> None:
    passed = [fact.event_type for fact in facts_of_transcript(name) if isinstance(fact, Passed)]
    assert not [event_type for event_type in passed if event_type.startswith("stream_event")]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_stops_after_any_line_leaves_every_block_finished_once(name: str) -> None:
    for count in range(len(MESSAGES[name])):
        facts = facts_of(MESSAGES[name][:count], exit_status=-9)
        assert_blocks_are_finished_once(facts)
        assert_deltas_make_up_blocks(facts)


@pytest.mark.parametrize("name", NAMES)
def test_facts_come_as_soon_as_their_lines(name: str) -> None:
    """The end adds nothing but the ends of what is open; no earlier fact depends on it."""
    whole = facts_of_transcript(name)
    for count in range(len(MESSAGES[name])):
        accumulator = Accumulator()
        early = [fact for one in MESSAGES[name][:count] for fact in accumulator.feed(one)]
        assert early == whole[: len(early)]
        assert {type(fact) for fact in accumulator.end(None)} <= {BlockFinished, MessageFinished}
        assert accumulator.end(None) == []


@given(st.sampled_from(NAMES), st.lists(st.integers(1, 4000), min_size=1))
async def test_how_the_bytes_arrive_makes_no_difference(name: str, sizes: list[int]) -> None:
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
    assert facts_of(messages, EXIT_STATUS.get(name, 0)) == facts_of_transcript(name)


# ---- what the transcripts were recorded for ------------------------------------------------


def test_the_exact_block_with_its_signature_is_that_of_the_whole_line() -> None:
    thinking, text = finished(facts_of_transcript("thinking"))
    assert thinking.block == {
        "type": "thinking",
        "thinking": "Let me think. Two plus two is four.",
        "signature": "RmFrZVNpZ25hdHVyZQ==",
    }
    assert (thinking.kind, thinking.index, thinking.complete) == ("thinking", 0, True)
    assert (text.kind, text.index, text.block["text"]) == ("content", 1, "The answer is 4.")


def test_a_message_has_its_final_usage_and_the_native_ids_of_all_its_lines() -> None:
    ended = [fact for fact in facts_of_transcript("thinking") if isinstance(fact, MessageFinished)]
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
    facts = facts_of_transcript("parallel_auto")
    calls = [block.block["id"] for block in finished(facts) if block.kind == "tool_use"]
    results = [fact for fact in facts if isinstance(fact, ToolResult)]
    assert [result.output_text for result in results] == ["two", "one"]
    assert [result.tool_use_id for result in results] == calls[::-1]


def test_a_denied_tool_has_an_error_for_a_result() -> None:
    [result] = [fact for fact in facts_of_transcript("permit_deny") if isinstance(fact, ToolResult)]
    assert (result.is_error, result.output_text) == (True, "denied by policy")


def test_an_image_stays_in_the_block_and_is_named_in_the_text() -> None:
    facts = facts_of_transcript("image_result")
    [result] = [fact for fact in facts if isinstance(fact, ToolResult)]
    assert result.output_text == "[image image/png, 73 bytes]"
    assert result.block["content"][0]["source"]["data"].startswith("iVBORw0KGgo")


def test_a_tool_result_that_comes_before_its_message_is_over_does_not_end_it() -> None:
    facts = facts_of_transcript("tool_input_not_json")
    kinds = [type(fact) for fact in facts]
    assert kinds.index(ToolResult) < kinds.index(MessageFinished)
    [ended, _] = [fact for fact in facts if isinstance(fact, MessageFinished)]
    assert (ended.stop_reason, ended.complete) == ("tool_use", True)


@pytest.mark.parametrize("name", ["sigint", "control_interrupt", "sigint_in_text"])
def test_an_interrupted_text_is_kept_and_marked(name: str) -> None:
    facts = facts_of_transcript(name)
    cut = [block for block in finished(facts) if not block.complete]
    assert len(cut) == 1
    assert cut[0].block["text"] in (
        "word0 word1 word2 word3 word4 word5 word6 word7 word8 wo",
        "this answer will be cut in t",
    )
    ended = next(fact for fact in facts if isinstance(fact, MessageFinished))
    assert (ended.stop_reason, ended.complete) == (None, False)


def test_thinking_and_tool_input_that_were_interrupted_are_kept_though_nobody_gave_them_whole() -> (
    None
):
    [thinking] = finished(facts_of_transcript("sigint_in_thinking"))
    assert thinking.block == {
        "type": "thinking",
        "thinking": "thinking about it for",
        "signature": "",
    }
    assert (thinking.complete, thinking.raw) == (False, None)
    text, call = finished(facts_of_transcript("sigint_in_tool_input"))
    assert (text.complete, call.complete) == (True, False)
    assert call.block["input"] == {"__unparsedToolInput": {"raw": '{"command": "e'}}
    assert call.block["name"] == "Bash"


@pytest.mark.parametrize("name", ["api_error_midstream", "connection_cut", "sigterm"])
def test_text_that_the_api_or_a_signal_cut_off_is_kept_and_marked(name: str) -> None:
    facts = facts_of_transcript(name)
    [cut] = [block for block in finished(facts) if not block.complete]
    assert cut.block["text"] in ("this answer is cut in", "this answer will be cut in t")
    ended = [fact for fact in facts if isinstance(fact, MessageFinished)]
    assert [fact.complete for fact in ended] == [False, True][: len(ended)]


def test_an_empty_text_block_is_complete_though_the_program_never_gives_it_whole() -> None:
    blocks = finished(facts_of_transcript("odd_blocks"))
    assert [(block.kind, block.complete, block.raw is None) for block in blocks] == [
        ("other", True, False),
        ("content", True, True),
        ("thinking", True, False),
        ("content", True, False),
    ]


def test_messages_of_subagents_carry_the_call_that_started_them() -> None:
    for name in ("subagents", "subagents_no_partial"):
        facts = facts_of_transcript(name)
        tasks = {b.block["id"] for b in finished(facts) if b.block.get("name") == "Task"}
        begun = [fact for fact in facts if isinstance(fact, MessageStarted)]
        assert {fact.parent_tool_use_id for fact in begun} == {None, *tasks}
        for task in tasks:
            end_of_agent = next(
                place
                for place, fact in enumerate(facts)
                if isinstance(fact, MessageFinished) and fact.parent_tool_use_id == task
            )
            handed_back = next(
                place
                for place, fact in enumerate(facts)
                if isinstance(fact, ToolResult) and fact.tool_use_id == task
            )
            assert end_of_agent < handed_back


def test_a_background_subagent_speaks_after_its_call_was_answered() -> None:
    facts = facts_of_transcript("subagent_background")
    order = [
        (type(fact), getattr(fact, "parent_tool_use_id", None) is not None)
        for fact in facts
        if isinstance(fact, ToolResult | MessageFinished | TurnResult)
    ]
    assert order == [
        (ToolResult, False),
        (MessageFinished, False),
        (MessageFinished, False),
        (ToolResult, True),
        (MessageFinished, True),
        (MessageFinished, True),
        (MessageFinished, False),
        (TurnResult, False),
        (TurnResult, False),
    ]


@pytest.mark.parametrize("pair", ["plain", "odd_blocks", "sigint_in_text"])
def test_blocks_are_the_same_with_and_without_partial_messages(pair: str) -> None:
    other = {"sigint_in_text": "sigint_no_partial"}.get(pair, f"{pair}_no_partial")
    streamed, whole = finished(facts_of_transcript(pair)), finished(facts_of_transcript(other))
    # The program leaves empty text blocks out of its whole lines.
    kept = [block for block in streamed if block.raw is not None]
    assert [(b.kind, b.block, b.complete) for b in kept] == [
        (b.kind, b.block, b.complete) for b in whole
    ]


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.plugins.claudecode.test_accumulator --write")
    for each in NAMES:
        (TRANSCRIPTS / f"{each}.facts.json").write_text(golden(each))
