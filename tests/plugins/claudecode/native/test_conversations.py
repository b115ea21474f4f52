"""The conversation of a session file: messages, branches, and notes about problems."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import NotFound
from hubd.plugins.claudecode.native import (
    NativeHistory,
    NativeMessage,
    conversation,
    leaves,
    read_history,
)
from tests.plugins.claudecode.native.native_content import (
    RECORDED,
    attachment,
    call,
    entry,
    history_of,
    mark,
    result,
    text,
)


def recorded(name: str) -> NativeHistory:
    return read_history(RECORDED / f"{name}.jsonl")


def words(messages: list[NativeMessage]) -> list[str]:
    """Return messages in short: the role, and the types of blocks or the text."""
    return [
        f"{message.role}: "
        + " ".join(block.get("text") or block["type"] for block in message.content)
        for message in messages
    ]


def texts_of(history: NativeHistory, leaf: str | None = None) -> list[str]:
    return words(conversation(history, leaf).messages)


def test_attachments_keep_the_chain_and_are_not_shown() -> None:
    history = history_of(
        entry("a", None, "question"),
        attachment("x", "a"),
        attachment("y", "x"),
        entry("b", "y", [text("answer")], id="msg_1"),
        attachment("z", "b"),
    )
    parsed = conversation(history)
    assert words(parsed.messages) == ["user: question", "assistant: answer"]
    assert [message.parent_uuid for message in parsed.messages] == [None, "a"]
    assert (parsed.leaf, parsed.notes) == ("b", [])


def test_meta_entries_and_subagents_keep_the_chain_and_are_not_shown() -> None:
    history = history_of(
        entry("a", None, "question"),
        entry("m", "a", "a caveat", isMeta=True),
        entry("b", "m", [text("answer")], id="msg_1"),
        entry("s", "b", [text("said by a subagent")], id="msg_2", isSidechain=True),
    )
    assert texts_of(history) == ["user: question", "assistant: answer"]
    assert [leaf.uuid for leaf in leaves(history)] == ["b"]


def test_the_blocks_of_a_message_are_joined_in_order() -> None:
    history = history_of(
        entry("a", None, "go"),
        entry("b", "a", [text("one")], id="msg_1"),
        entry("c", "b", [text("two")], id="msg_1"),
        entry("d", "c", [text("three")], id="msg_2"),
    )
    [_, first, second] = conversation(history).messages
    assert (first.content, first.uuids) == ([text("one"), text("two")], ("b", "c"))
    assert (first.message_id, first.model) == ("msg_1", "claude-opus-5-5")
    assert (second.content, second.parent_uuid) == ([text("three")], "c")


def test_parallel_calls_and_results_beside_the_chain_are_included() -> None:
    history = recorded("parallel")
    _, calls, results, *later = conversation(history).messages
    keys = [block["id"] for block in calls.content]
    # The first call took longest; claude sends the results in the order in which they came.
    assert [block["tool_use_id"] for block in results.content] == keys[::-1]
    assert (len(calls.uuids), len(results.uuids)) == (3, 3)
    assert words(later) == [
        "assistant: done",
        "user: SAY[branch]",
        "assistant: branch",
        "user: SAY[after branch]",
        "assistant: after branch",
    ]


def test_results_between_the_blocks_of_a_message_come_after_it() -> None:
    messages = conversation(recorded("interleaved")).messages
    assert words(messages)[1:4] == [
        "assistant: x tool_use tool_use tool_use",
        "user: tool_result tool_result tool_result",
        "assistant: done",
    ]
    calls = [block["id"] for block in messages[1].content[1:]]
    assert [block["tool_use_id"] for block in messages[2].content] == calls


def test_a_branch_is_defined_by_its_leaf() -> None:
    history = recorded("parallel")
    newer, older = leaves(history)
    assert texts_of(history, newer.uuid) == texts_of(history)
    assert texts_of(history, older.uuid)[-3:] == [
        "assistant: done",
        "user: SAY[second]",
        "assistant: second",
    ]


def test_a_leaf_in_the_middle_ends_the_conversation_there() -> None:
    history = recorded("parallel")
    whole = conversation(history).messages
    for number, message in enumerate(whole):
        assert conversation(history, message.uuids[-1]).messages[:number] == whole[:number]
    ends_there = [m for m in whole if conversation(history, m.uuids[-1]).messages[-1] == m]
    assert ends_there == whole


def test_a_result_belongs_to_its_branch() -> None:
    history = history_of(
        entry("a", None, "go"),
        entry("b", "a", [call("1")], id="msg_1"),
        entry("c", "b", [result("1", "first")]),
        entry("d", "b", [result("1", "second")]),
        entry("e", "d", [text("done")], id="msg_2"),
    )
    [_, _, results, _] = conversation(history).messages
    assert results.content == [result("1", "second")]
    assert [leaf.uuid for leaf in leaves(history)] == ["e", "c"]


def test_a_call_beside_the_chain_is_answered_once() -> None:
    history = history_of(
        entry("a", None, "go"),
        entry("b", "a", [call("1")], id="msg_1"),
        entry("c", "b", [call("2")], id="msg_1"),
        entry("d", "c", [result("2", "first")]),
        entry("e", "c", [result("2", "second")]),
        entry("f", "b", [result("1")]),
        entry("g", "f", [text("done")], id="msg_2"),
    )
    [_, _, results, _] = conversation(history).messages
    assert results.content == [result("2", "first"), result("1")]
    assert [leaf.uuid for leaf in leaves(history)] == ["g", "e"]


def test_the_same_message_on_two_branches_is_two_messages() -> None:
    history = history_of(
        entry("a", None, "go"),
        entry("b", "a", [text("one")], id="msg_1"),
        entry("c", None, "go on"),
        entry("d", "c", [text("two")], id="msg_1"),
    )
    assert texts_of(history) == ["user: go on", "assistant: two"]
    assert texts_of(history, "b") == ["user: go", "assistant: one"]


def test_a_summary_replaces_messages_and_keeps_preserved_ones() -> None:
    history = recorded("compacted")
    parsed = conversation(history)
    visible = words(parsed.messages)
    assert visible[0].startswith("user: This session is being continued")
    # Kept word for word, and sent by claude at this place.
    assert visible[1] == "assistant: two"
    assert visible[-2:] == ["user: SAY[three]", "assistant: three"]
    assert parsed.summarised is not None
    assert texts_of(history, parsed.summarised) == [
        "user: SAY[one]",
        "assistant: one",
        "user: SAY[two]",
        "assistant: two",
    ]
    assert [leaf.uuid for leaf in leaves(history)] == [parsed.leaf]


def summary(uuid: str, summarised: str, *kept: str) -> dict[str, Any]:
    fields = {"subtype": "compact_boundary", "logicalParentUuid": summarised}
    updates = {"preservedMessages": {"anchorUuid": f"{uuid}-text", "uuids": list(kept)}}
    return {**attachment(uuid, None), "type": "system", **fields, "compactMetadata": updates}


def test_preserved_messages_appear_once_and_missing_ones_are_noted() -> None:
    history = history_of(
        entry("a", None, "long ago"),
        entry("b", "a", [text("just now")], id="msg_1"),
        attachment("x", "b"),
        summary("s", "x", "b", "gone", "c"),
        entry("s-text", "s", "in short"),
        entry("c", "s-text", "go on"),
    )
    parsed = conversation(history)
    assert words(parsed.messages) == ["user: in short", "assistant: just now", "user: go on"]
    assert parsed.notes == ["the summary keeps entry gone, which is missing from the file"]
    assert parsed.summarised == "x"


def test_summarised_messages_are_not_a_branch() -> None:
    lines = [
        entry("a", None, "long ago"),
        attachment("x", "a"),
        summary("s", "x"),
        entry("s-text", "s", "in short"),
    ]
    assert [leaf.uuid for leaf in leaves(history_of(*lines))] == ["s-text"]
    assert texts_of(history_of(*lines), "x") == ["user: long ago"]


def test_messages_about_failed_requests_are_marked() -> None:
    messages = conversation(recorded("failed")).messages
    assert [message.is_api_error for message in messages] == [False, True, False, False]
    assert messages[1].model == "<synthetic>"


def test_a_missing_parent_ends_the_path_with_a_note() -> None:
    history = history_of(entry("b", "gone", "question"), entry("c", "b", [text("a")], id="msg_1"))
    parsed = conversation(history)
    assert words(parsed.messages) == ["user: question", "assistant: a"]
    assert parsed.notes == ["entry b follows gone, which is missing from the file"]


def test_a_circle_of_parents_ends_the_path_with_a_note() -> None:
    history = history_of(entry("a", "b", "question"), entry("b", "a", [text("hm")], id="msg_1"))
    parsed = conversation(history)
    assert words(parsed.messages) == ["user: question", "assistant: hm"]
    assert parsed.notes == ["entry a follows b, which follows it"]
    assert [leaf.uuid for leaf in leaves(history)] == ["b"]


def test_entries_after_one_in_the_middle_are_not_a_branch() -> None:
    history = history_of(
        entry("a", None, "question"), entry("b", "a", "and more"), attachment("x", "a")
    )
    assert [leaf.uuid for leaf in leaves(history)] == ["b"]


def test_a_file_without_messages_has_an_empty_conversation() -> None:
    assert conversation(history_of(attachment("a", None))).messages == []
    assert leaves(NativeHistory()) == []


def test_an_unknown_leaf_is_not_found() -> None:
    with pytest.raises(NotFound, match="the session has no entry nowhere"):
        conversation(recorded("failed"), "nowhere")


UUIDS = st.sampled_from("abcdefgh")
BLOCKS = st.sampled_from([text("t"), call("1"), call("2"), result("1"), result("2")])
ENTRIES = st.builds(
    entry,
    UUIDS,
    st.none() | UUIDS,
    st.lists(
        st.sampled_from([text("t"), call("1"), call("2"), result("1"), result("2")]), max_size=2
    ),
    isMeta=st.booleans(),
    isSidechain=st.booleans(),
) | st.builds(
    entry, UUIDS, st.none() | UUIDS, st.just([text("t"), call("1")]), id=st.sampled_from(["m", "n"])
)
ANYTHING = st.lists(
    ENTRIES
    | st.builds(attachment, UUIDS, st.none() | UUIDS)
    | st.builds(mark, st.none() | UUIDS, explicit=st.booleans()),
    max_size=10,
)


@given(ANYTHING)
def test_every_visible_entry_appears_at_most_once(
    lines: list[dict[str, Any]],
) -> None:
    history = history_of(*lines)
    visible = {each.uuid for each in history.entries if each.is_shown}
    ends = [leaf.uuid for leaf in leaves(history)]
    assert len(set(ends)) == len(ends)
    for leaf in [None, *ends]:
        parsed = conversation(history, leaf)
        uuids = [uuid for message in parsed.messages for uuid in message.uuids]
        assert len(set(uuids)) == len(uuids)
        assert set(uuids) <= visible
        assert leaf is None or leaf in uuids
        for before, after in pairwise(parsed.messages):
            assert after.parent_uuid == before.uuids[-1]


@given(ANYTHING)
def test_if_parents_come_first_every_visible_entry_is_on_a_branch(
    lines: list[dict[str, Any]],
) -> None:
    existing: set[str] = set()
    ordered = []
    for line in lines:
        if line.get("parentUuid") in {None, *existing} and line.get("uuid") not in existing:
            ordered.append(line)
            existing.add(line.get("uuid", ""))
    history = history_of(*ordered)
    messages = {
        uuid
        for leaf in leaves(history)
        for message in conversation(history, leaf.uuid).messages
        for uuid in message.uuids
    }
    assert messages == {each.uuid for each in history.entries if each.is_shown}
