"""Events of a chat: fields that are left out, and the one-line text of each event."""

from typing import Any, get_args

import pytest

from hubd.plugins.claudecode import chat_events as events
from hubd.plugins.claudecode.chat_events import BLOCK_EVENTS, AnyChatEvent, ChatEvent
from hubd.wire.summary import event_line

AT: dict[str, str] = {"tree_id": "t", "node_id": "n"}
BLOCK: dict[str, Any] = {"block_index": 0, "message_id": "m"}


def test_fields_with_their_default_are_left_out() -> None:
    event = events.Content.fields(
        text="hi", **BLOCK, position=AT, parent_tool_use_id=None, complete=True
    )
    assert event == {"type": "content", "text": "hi", **BLOCK, "position": AT}


def test_required_fields_are_kept_even_if_they_are_none() -> None:
    event = events.Complete.fields(new_head=AT, claude_session_id=None, usage={}, result=None)
    assert event == {"type": "complete", "new_head": AT, "claude_session_id": None, "usage": {}}


def test_values_of_unexpected_types_are_kept() -> None:
    assert events.ToolUse.fields(tool_name=5, input=[1])["tool_name"] == 5


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            events.Start.fields(id="s", turn_position=AT, engine="offline"),
            "turn started on offline",
        ),
        (events.ToolUse.fields(tool_name="Bash", input={"a": 1}, **BLOCK), 'Bash {"a":1}'),
        (events.ToolResult.fields(output="two\nlines", is_error=False), "result: two lines"),
        (events.Error.fields(message="it failed", code="failed"), "error: it failed"),
        (events.Complete.fields(new_head=AT), "turn complete, head at n"),
        (events.Passthrough.fields(event_type="system/hook", data={}), "system/hook"),
        (events.UserMessage.fields(position=AT), "user_message"),
    ],
)
def test_events_declare_their_line(event: dict[str, Any], line: str) -> None:
    templates = {kind.tag: kind.summary_template for kind in get_args(AnyChatEvent)}
    assert event_line(event, templates[event["type"]]) == line


def test_every_event_about_a_block_is_part_of_the_schema() -> None:
    kinds: set[type[ChatEvent]] = set(get_args(AnyChatEvent))
    for block in BLOCK_EVENTS.values():
        assert kinds >= {block.durable, block.start, block.delta, block.end}
        assert block.delta_field in block.delta.model_fields
