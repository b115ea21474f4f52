"""JSON-RPC 2.0: reading requests and writing replies."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.wire import jsonrpc
from hubd.wire.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Malformed, Request, read_request

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def message(**changes: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "plexus.call", "params": {"a": 1}, **changes}


def test_a_request_is_read_with_all_its_parts() -> None:
    assert read_request(message()) == Request(1, True, "plexus.call", {"a": 1})


@pytest.mark.parametrize("request_id", [0, -7, 1.5, "", "abc", None])
def test_an_id_is_a_string_a_number_or_null_and_wants_a_reply(request_id: Any) -> None:
    request = read_request(message(id=request_id))
    assert request.id == request_id
    assert request.wants_reply


def test_a_message_without_an_id_is_a_notification() -> None:
    notification = message()
    del notification["id"]
    assert not read_request(notification).wants_reply


def test_params_may_be_absent_null_or_positional() -> None:
    without = message()
    del without["params"]
    assert read_request(without).params == {}
    assert read_request(message(params=None)).params == {}
    assert read_request(message(params=[1, "b"])).params == [1, "b"]


@pytest.mark.parametrize(
    ("sent", "reason", "request_id"),
    [
        ([message()], "batches are not supported; send one request a message", None),
        ("hello", "a request is a JSON object", None),
        (None, "a request is a JSON object", None),
        (message(id=True), "'id' must be a string, a number or null", None),
        (message(id=[1]), "'id' must be a string, a number or null", None),
        (message(jsonrpc="1.0"), "'jsonrpc' must be \"2.0\"", 1),
        (message(jsonrpc=2.0), "'jsonrpc' must be \"2.0\"", 1),
        ({"id": 1, "method": "m"}, "'jsonrpc' must be \"2.0\"", 1),
        (message(method=None), "'method' must be a string", 1),
        (message(id="x", method=5), "'method' must be a string", "x"),
        (message(params="p"), "'params' must be an object or an array", 1),
        (message(params=0), "'params' must be an object or an array", 1),
    ],
)
def test_messages_that_are_not_requests_are_refused_with_reason_and_id(
    sent: Any, reason: str, request_id: Any
) -> None:
    with pytest.raises(Malformed) as caught:
        read_request(sent)
    assert (caught.value.code, str(caught.value)) == (INVALID_REQUEST, reason)
    assert caught.value.request_id == request_id


def test_positional_params_take_the_names_in_order() -> None:
    names = ["method", "params"]
    assert read_request(message(params=["echo.once"])).named_params(names) == {
        "method": "echo.once"
    }
    assert read_request(message(params=[])).named_params(names) == {}
    assert read_request(message(params={"x": 1})).named_params(names) == {"x": 1}


@pytest.mark.parametrize(("names", "listed"), [(["method"], "method"), ([], "none")])
def test_too_many_positional_params_are_refused(names: list[str], listed: str) -> None:
    with pytest.raises(Malformed) as caught:
        read_request(message(params=[1, 2])).named_params(names)
    assert str(caught.value) == f"plexus.call: too many positional params ({listed})"
    assert (caught.value.code, caught.value.request_id) == (INVALID_PARAMS, 1)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (jsonrpc.success(1, 7), '{"jsonrpc":"2.0","id":1,"result":7}'),
        (
            jsonrpc.success("x", {"success": True}),
            '{"jsonrpc":"2.0","id":"x","result":{"success":true}}',
        ),
        (
            jsonrpc.failure(None, -32700, "not JSON"),
            '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}',
        ),
        (
            jsonrpc.request(1, "plexus.call", {"method": "echo.once"}),
            '{"jsonrpc":"2.0","id":1,"method":"plexus.call","params":{"method":"echo.once"}}',
        ),
        (
            b'{"type":"done"}'.join(jsonrpc.item_envelope(7)),
            '{"jsonrpc":"2.0","method":"subscription",'
            '"params":{"subscription":7,"result":{"type":"done"}}}',
        ),
    ],
)
def test_frames_have_exactly_the_published_shape(frame: bytes, text: str) -> None:
    assert frame.decode() == text


@given(json_values)
def test_a_frame_is_one_line_and_reads_back_as_what_was_sent(value: Any) -> None:
    frame = jsonrpc.request("1", "m", value)
    assert b"\n" not in frame
    assert json.loads(frame)["params"] == value


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc80é漢"])
def test_text_that_utf8_cannot_carry_is_escaped(text: str) -> None:
    frame = jsonrpc.dump({"text": text})
    assert frame.isascii()
    assert json.loads(frame) == {"text": text}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_carry_never_reaches_a_frame(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        jsonrpc.dump({"percentage": number})
