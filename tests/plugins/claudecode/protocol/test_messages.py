"""Lines of the program become messages, and no line whatsoever raises."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.plugins.claudecode.protocol.messages import (
    AssistantLine,
    Broken,
    ControlRequest,
    ControlResponse,
    Init,
    Message,
    Other,
    ResultLine,
    StreamEvent,
    UserLine,
    output_text,
    read_line,
)

TRANSCRIPTS = Path(__file__).parent / "transcripts"
REAL_LINES = sorted(
    {line for path in TRANSCRIPTS.glob("*/output.jsonl") for line in path.read_bytes().splitlines()}
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def read(**fields: Any) -> Message:
    return read_line(json.dumps(fields).encode())


def real(name: str, kind: str) -> Message:
    """The first message of a type in a transcript."""
    for line in (TRANSCRIPTS / name / "output.jsonl").read_bytes().splitlines():
        message = read_line(line)
        if type(message).__name__ == kind:
            return message
    raise AssertionError(f"{name} has no {kind}")


def test_an_init_line_names_session_model_directory_and_tools() -> None:
    init = real("plain", "Init")
    assert isinstance(init, Init)
    assert init.session_id == "e46109ca-cd52-4414-a6b0-936290e1d99c"
    assert (init.model, init.cwd) == ("claude-opus-5-5", "/home/user/project")
    assert init.tools[:2] == ("Task", "Bash")
    assert init.raw["permissionMode"] == "default"


def test_a_stream_event_names_its_message() -> None:
    lines = (TRANSCRIPTS / "plain/output.jsonl").read_bytes().splitlines()
    events = [message for line in lines if isinstance(message := read_line(line), StreamEvent)]
    assert [event.event_type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert {event.message_id for event in events} == {"msg_066830b23343405f87eb3516"}


def test_an_assistant_line_has_its_blocks_unchanged() -> None:
    line = real("thinking", "AssistantLine")
    assert isinstance(line, AssistantLine)
    assert line.blocks == (
        {
            "type": "thinking",
            "thinking": "Let me think. Two plus two is four.",
            "signature": "RmFrZVNpZ25hdHVyZQ==",
        },
    )
    assert line.message_id == "msg_a67454d5b0b446c8ba5f8350"
    assert line.uuid == line.raw["uuid"]
    assert (line.stop_reason, line.aborted) == (None, False)


def test_a_block_that_was_interrupted_is_marked() -> None:
    line = real("sigint", "AssistantLine")
    assert isinstance(line, AssistantLine)
    assert line.aborted


def test_content_that_is_a_plain_string_is_one_text_block() -> None:
    piece = read(type="user", message={"role": "user", "content": "hi"})
    assert isinstance(piece, UserLine)
    assert piece.blocks == ({"type": "text", "text": "hi"},)


def test_an_assistant_message_without_an_id_gets_the_id_of_its_line() -> None:
    content = [{"type": "text", "text": "hi"}]
    line = read(type="assistant", uuid="u-1", message={"content": content})
    assert isinstance(line, AssistantLine)
    assert line.message_id == "u-1"


def test_a_line_of_a_subagent_names_the_call_that_started_it() -> None:
    lines = (TRANSCRIPTS / "subagents/output.jsonl").read_bytes().splitlines()
    parents = {
        message.parent_tool_use_id
        for line in lines
        if isinstance(message := read_line(line), AssistantLine | UserLine)
    }
    assert parents == {
        None,
        "toolu_ec5051d385a245aaba486373",
        "toolu_39a8afa47d494a71a637f1d5",
    }


def test_an_api_error_is_a_result_of_subtype_success_that_is_an_error() -> None:
    result = real("err500", "ResultLine")
    assert isinstance(result, ResultLine)
    assert (result.subtype, result.is_error, result.api_error_status) == ("success", True, 500)
    assert result.terminal_reason == "api_error"
    assert result.result is not None
    assert result.result.startswith("API Error: 500")


def test_the_type_of_a_line_need_not_be_its_first_key() -> None:
    line = (TRANSCRIPTS / "plain/output.jsonl").read_bytes().splitlines()[-1]
    assert not line.startswith(b'{"type"')
    assert isinstance(read_line(line), ResultLine)


def test_a_result_with_fields_of_other_types_is_still_a_result() -> None:
    result = read(type="result", total_cost_usd=True, num_turns=1.5, usage=[], is_error="no")
    assert isinstance(result, ResultLine)
    assert (result.cost_usd, result.num_turns, result.usage) == (None, None, {})
    assert not result.is_error


def test_a_cost_that_is_too_large_is_ignored() -> None:
    result = read_line(b'{"type":"result","total_cost_usd":1' + b"0" * 400 + b"}")
    assert isinstance(result, ResultLine)
    assert result.cost_usd is None


def test_an_approval_request_has_its_id_and_content() -> None:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}}
    asked = read(type="control_request", request_id="r", request=request)
    assert isinstance(asked, ControlRequest)
    assert (asked.request_id, asked.subtype, asked.request) == ("r", "can_use_tool", request)


def test_the_answer_to_an_interrupt_has_the_id_of_the_request() -> None:
    answer = real("control_interrupt", "ControlResponse")
    assert isinstance(answer, ControlResponse)
    assert (answer.request_id, answer.subtype) == ("r-int", "success")


@pytest.mark.parametrize(
    ("fields", "event_type"),
    [
        ({"type": "system", "subtype": "api_retry", "attempt": 1}, "system/api_retry"),
        ({"type": "control_cancel_request", "request_id": "r"}, "control_cancel_request"),
        ({"type": "tomorrow", "subtype": 3}, "tomorrow"),
        ({"type": ["list"]}, "unknown"),
        ({}, "unknown"),
        ({"type": "assistant", "message": {"id": "m", "content": [1]}}, "assistant"),
        ({"type": "assistant", "message": {"id": "m", "content": []}}, "assistant"),
        ({"type": "assistant", "message": {"content": [{"type": "text"}]}}, "assistant"),
        ({"type": "user", "message": None}, "user"),
        ({"type": "stream_event", "event": {"type": None}}, "stream_event"),
        ({"type": "system", "subtype": "init", "session_id": 7}, "system/init"),
        ({"type": "control_request", "request": {"subtype": "x"}}, "control_request"),
    ],
)
def test_unknown_and_misshapen_lines_are_kept_complete(
    fields: dict[str, Any], event_type: str
) -> None:
    assert read(**fields) == Other(event_type, fields)


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"Error: out of memory", b'{"type":"assi', b"[1]", b"3", b"NaN", b"null"]
)
def test_a_line_that_is_not_an_object_is_broken_and_quoted(line: bytes) -> None:
    broken = read_line(line)
    assert isinstance(broken, Broken)
    assert broken.reason.endswith(repr(line.decode()))


def test_a_long_broken_line_is_quoted_only_in_part() -> None:
    broken = read_line("é".encode() * 100_000)
    assert isinstance(broken, Broken)
    assert "é" * 200 in broken.reason
    assert "é" * 201 not in broken.reason


def test_nesting_too_deep_for_the_rest_of_the_hub_is_broken() -> None:
    assert isinstance(read_line(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), Broken)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (rb'{"a":"cut \ud83d"}', "cut \ufffd"),
        (rb'{"a":"\ude00 \ud83d\ude00 \uD83D\uD83D\uDE00"}', "\ufffd 😀 \ufffd😀"),
        (rb'{"a":"\\ud83d \ud83d \\\ud83d \\\\ud83d"}', "\\ud83d \ufffd \\\ufffd \\\\ud83d"),
        (b'{"a":"\xff\\ud800"}', "\ufffd\ufffd"),
    ],
)
def test_half_a_surrogate_pair_is_replaced_and_the_line_is_kept(line: bytes, text: str) -> None:
    assert read_line(line) == Other("unknown", {"a": text})


@given(st.text(), st.integers(0xD800, 0xDFFF), st.text())
def test_messages_contain_no_lone_surrogates(before: str, half: int, after: str) -> None:
    message = read_line(json.dumps({"a": before + chr(half) + after}).encode())
    assert message == Other("unknown", {"a": f"{before}\ufffd{after}"})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("plain", "plain"),
        ([], ""),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        (
            [
                {"type": "text", "text": "see"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "AAECAw=="},
                },
            ],
            "see\n[image image/png, 4 bytes]",
        ),
        ([{"type": "tool_reference", "tool_name": "x"}], "[tool_reference]"),
        ([{"type": "text", "text": 1}], "[text]"),
        (["loose", 3, {}], "loose\n3\n{}"),
        ({"a": 1}, '{"a":1}'),
    ],
)
def test_each_content_of_a_tool_result_has_a_text_form(content: object, text: str) -> None:
    assert output_text(content) == text


@given(json_values)
def test_every_tool_result_has_a_text_form(content: object) -> None:
    assert isinstance(output_text(content), str)


@given(st.binary())
def test_arbitrary_bytes_raise_no_exception(line: bytes) -> None:
    message = read_line(line)
    assert message.reason if isinstance(message, Broken) else isinstance(message.raw, dict)


@given(json_values)
def test_any_json_is_kept_complete_or_is_broken(value: object) -> None:
    message = read_line(json.dumps(value).encode())
    if isinstance(value, dict):
        assert not isinstance(message, Broken)
        assert message.raw == value
    else:
        assert isinstance(message, Broken)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def damaged(data: st.DataObject, line: bytes) -> dict[str, Any]:
    """A real line with one field, at any depth, removed or replaced."""
    raw: dict[str, Any] = copy.deepcopy(json.loads(line))
    # Lists of names fill half of an init line and nothing reads them by position.
    interesting = [place for place in places(raw) if not isinstance(place[0], list)]
    container, key = data.draw(st.sampled_from(interesting))
    if data.draw(st.booleans()):
        del container[key]
    else:
        container[key] = data.draw(json_values)
    return raw


@given(st.data(), st.sampled_from(REAL_LINES))
def test_a_real_line_with_a_changed_field_is_kept_complete(
    data: st.DataObject, line: bytes
) -> None:
    raw = damaged(data, line)
    message = read_line(json.dumps(raw).encode())
    assert not isinstance(message, Broken)
    assert message.raw == raw
    # Each message can be stored.
    json.dumps(message._asdict())


def test_every_recorded_line_has_a_known_type() -> None:
    kinds = {type(read_line(line)) for line in REAL_LINES}
    understood = {Init, StreamEvent, AssistantLine, UserLine, ResultLine, ControlResponse}
    assert kinds == understood | {Other}
    others = {
        message.event_type for line in REAL_LINES if isinstance(message := read_line(line), Other)
    }
    assert {kind for kind in others if not kind.startswith("system/")} == set()
    assert "system/init" not in others
