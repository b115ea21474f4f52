"""The session: what each message asks for, and that no message can harm it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hubd.rpc.session import Action, Answer, Cancel, Reply, Session, Start
from hubd.wire.jsonrpc import TooLarge

PARSE, REQUEST, PARAMS = -32700, -32600, -32602
DEEP = b"[" * 250 + b"]" * 250
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
METHODS = st.sampled_from(
    ["plexus.call", "plexus.cancel", "plexus.respond", "plexus.schema", "_info", "echo.once", ""]
)


@pytest.fixture
def session() -> Session:
    """A new client's session."""
    return Session("plexus")


def message(method: object, params: object = None, **more: Any) -> bytes:
    """A request with id 1."""
    fields = {"jsonrpc": "2.0", "id": 1, "method": method, **more}
    return json.dumps(fields if params is None else {**fields, "params": params}).encode()


def notification(method: str, params: object) -> bytes:
    """A request that wants no reply."""
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def started(action: Action | None) -> Start:
    assert isinstance(action, Start), action
    return action


def strictly(frame: bytes) -> Any:
    """A frame as a strict JSON parser reads it."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(frame.decode(), parse_constant=refuse)


@pytest.mark.parametrize(
    ("sent", "code", "request_id"),
    [
        pytest.param(b"", PARSE, None, id="nothing"),
        pytest.param(b"{", PARSE, None, id="half an object"),
        pytest.param(b"hello", PARSE, None, id="no JSON"),
        pytest.param(b"{'id':1}", PARSE, None, id="single quotes"),
        pytest.param(message("a.b") + b"{}", PARSE, None, id="two messages at once"),
        pytest.param(b"\xff\xfe", PARSE, None, id="no text"),
        pytest.param(message("a.b").replace(b"a.b", b"a.\xff"), PARSE, None, id="invalid UTF-8"),
        pytest.param(message("a.\ud800"), PARSE, None, id="lone surrogate"),
        pytest.param(message("a.b", {"x": float("nan")}), PARSE, None, id="NaN"),
        pytest.param(message("a.b", {"x": float("inf")}), PARSE, None, id="Infinity"),
        pytest.param(b'{"jsonrpc":"2.0","id":' + b"1" * 5000 + b"}", PARSE, None, id="huge id"),
        pytest.param(b"[]", REQUEST, None, id="empty batch"),
        pytest.param(b"[" + message("a.b") + b"]", REQUEST, None, id="batch"),
        pytest.param(b"7", REQUEST, None, id="number"),
        pytest.param(b'"a.b"', REQUEST, None, id="string"),
        pytest.param(b"null", REQUEST, None, id="null"),
        pytest.param(b"{}", REQUEST, None, id="empty object"),
        pytest.param(message("a.b", jsonrpc="1.0"), REQUEST, 1, id="jsonrpc 1.0"),
        pytest.param(message("a.b", jsonrpc=2.0), REQUEST, 1, id="jsonrpc a number"),
        pytest.param(b'{"id":"x","method":"a.b"}', REQUEST, "x", id="no jsonrpc"),
        pytest.param(message("a.b", id=True), REQUEST, None, id="boolean id"),
        pytest.param(message("a.b", id=[1]), REQUEST, None, id="array id"),
        pytest.param(message("a.b", id={"a": 1}), REQUEST, None, id="object id"),
        pytest.param(b'{"jsonrpc":"2.0","id":1}', REQUEST, 1, id="no method"),
        pytest.param(message(5), REQUEST, 1, id="number as method"),
        pytest.param(message(None), REQUEST, 1, id="null as method"),
        pytest.param(message(["a.b"]), REQUEST, 1, id="array as method"),
        pytest.param(message("a.b", 5), REQUEST, 1, id="number as params"),
        pytest.param(message("a.b", "x"), REQUEST, 1, id="string as params"),
        pytest.param(message("a.b", False), REQUEST, 1, id="boolean as params"),
        pytest.param(message("plexus.hash", [1]), PARAMS, 1, id="one position too many"),
        pytest.param(message("plexus.call", [1, 2, 3, 4]), PARAMS, 1, id="many positions"),
        pytest.param(message("plexus.cancel"), PARAMS, 1, id="cancel without subscription"),
        pytest.param(message("plexus.cancel", ["1"]), PARAMS, 1, id="cancel by string"),
        pytest.param(message("plexus.cancel", [True]), PARAMS, 1, id="cancel by boolean"),
        pytest.param(message("plexus.cancel", [1.5]), PARAMS, 1, id="cancel by fraction"),
        pytest.param(message("plexus.respond", {}), PARAMS, 1, id="respond with nothing"),
        pytest.param(message("plexus.respond", ["r"]), PARAMS, 1, id="respond without data"),
        pytest.param(message("plexus.respond", [7, {}]), PARAMS, 1, id="respond to a number"),
    ],
)
def test_malformed_json_rpc_is_answered_with_its_code_and_the_id_where_it_is_known(
    session: Session, sent: bytes, code: int, request_id: object
) -> None:
    action = session.receive(sent)
    assert isinstance(action, Reply)
    answer = strictly(action.frame)
    assert answer["error"].pop("message")
    assert answer == {"jsonrpc": "2.0", "id": request_id, "error": {"code": code}}


@pytest.mark.parametrize("sent", [DEEP, message("a.b").replace(b'"a.b"', DEEP)])
def test_a_message_that_is_nested_too_deep_is_too_large(session: Session, sent: bytes) -> None:
    with pytest.raises(TooLarge, match="message too large: it is nested deeper than 200 levels"):
        session.receive(sent)


def test_malformed_messages_use_up_no_subscription(session: Session) -> None:
    session.receive(b"nonsense")
    session.receive(message("plexus.hash", [1, 2]))
    assert started(session.receive(message("a.b"))).subscription == 1


@pytest.mark.parametrize("request_id", [1, -3, 1.5, "a", "", "ü\u2028", None, 10**30])
def test_the_reply_carries_the_id_and_the_next_subscription(
    session: Session, request_id: object
) -> None:
    for expected in (1, 2, 3):
        start = started(session.receive(message("echo.once", id=request_id)))
        assert start.subscription == expected
        assert strictly(start.reply) == {"jsonrpc": "2.0", "id": request_id, "result": expected}


def test_a_reply_to_a_huge_numeric_id_is_valid_json(
    session: Session,
) -> None:
    action = session.receive(message("echo.once", id=7).replace(b"7", b"1e999"))
    assert isinstance(action, Start | Reply)
    strictly(action.reply if isinstance(action, Start) else action.frame)


def test_each_session_counts_its_own_subscriptions(session: Session) -> None:
    session.receive(message("a.b"))
    assert started(Session("plexus").receive(message("a.b"))).subscription == 1


@pytest.mark.parametrize(
    ("method", "params", "expected", "context"),
    [
        ("echo.once", {"message": "hi"}, {"message": "hi"}, None),
        ("echo.once", None, {}, None),
        ("echo.once", [], {}, None),
        ("_info", None, {}, None),
        ("solar.earth.luna.info", {}, {}, None),
        ("plexus.schema", ["echo.once"], {"method": "echo.once"}, None),
        ("plexus.hash", [], {}, None),
        ("plexus.call", ["a.b", {"x": 1}], {"method": "a.b", "params": {"x": 1}}, None),
        ("plexus.call", ["a.b", {}, {"cwd": "/"}], {"method": "a.b", "params": {}}, {"cwd": "/"}),
        ("plexus.call", {"method": "a.b", "context": {"env": {}}}, {"method": "a.b"}, {"env": {}}),
        ("plexus.call", {}, {}, None),
        # Only `call` has a context beside its params; elsewhere the word is a parameter.
        ("echo.once", {"context": {"cwd": "/"}}, {"context": {"cwd": "/"}}, None),
        # Another root's words are ordinary method paths here.
        ("hub.cancel", {"subscription": 1}, {"subscription": 1}, None),
        ("hub.call", {"context": 1}, {"context": 1}, None),
    ],
)
def test_a_request_starts_the_method_it_names(
    session: Session, method: str, params: object, expected: Mapping[str, Any], context: object
) -> None:
    start = started(session.receive(message(method, params)))
    assert (start.method, start.params, start.context) == (method, expected, context)


def test_the_methods_of_a_connection_follow_the_name_of_the_hub() -> None:
    session = Session("hub")
    assert isinstance(session.receive(message("hub.cancel", [4])), Cancel)
    assert isinstance(session.receive(message("hub.respond", ["r", {}])), Answer)
    start = started(
        session.receive(message("hub.call", {"method": "a.b", "context": {"cwd": "/"}}))
    )
    assert (start.params, start.context) == ({"method": "a.b"}, {"cwd": "/"})
    assert started(session.receive(message("plexus.cancel", {"subscription": 4}))).method


@pytest.mark.parametrize(
    "params",
    [
        {"request_id": "r", "response_data": {"type": "cancelled"}},
        {"request_id": "r", "response": {"type": "cancelled"}},
        ["r", {"type": "cancelled"}],
    ],
)
def test_an_answer_is_read_from_every_published_form(session: Session, params: object) -> None:
    action = session.receive(message("plexus.respond", params))
    assert isinstance(action, Answer)
    assert (action.request_id, action.data) == ("r", {"type": "cancelled"})
    assert (action.request.id, action.request.wants_reply) == (1, True)


@pytest.mark.parametrize("params", [{"subscription": 7}, [7]])
def test_a_cancel_names_its_subscription(session: Session, params: object) -> None:
    action = session.receive(message("plexus.cancel", params))
    assert isinstance(action, Cancel)
    assert (action.subscription, action.request.id) == (7, 1)


def test_a_notification_starts_nothing_but_may_cancel_and_answer(session: Session) -> None:
    assert session.receive(notification("echo.once", {"message": "hi"})) is None
    cancel = session.receive(notification("plexus.cancel", [1]))
    answer = session.receive(notification("plexus.respond", ["r", {}]))
    assert isinstance(cancel, Cancel)
    assert isinstance(answer, Answer)
    assert not cancel.request.wants_reply
    assert not answer.request.wants_reply
    assert started(session.receive(message("a.b"))).subscription == 1


@pytest.mark.parametrize("method", ["plexus.cancel", "plexus.respond", "plexus.call", "a.b"])
def test_a_notification_with_wrong_params_is_not_answered(session: Session, method: str) -> None:
    assert session.receive(notification(method, [None, None, None, None])) is None


@given(st.binary() | st.text().map(str.encode))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    action = Session("plexus").receive(data)
    if isinstance(action, Reply):
        assert strictly(action.frame)["error"]["code"] in (PARSE, REQUEST, PARAMS)


@given(JSON, JSON, METHODS | JSON)
@example(1, {"method": {}, "context": "\x00"}, "plexus.call")
def test_arbitrary_json_never_raises_and_replies_are_json(
    request_id: object, params: object, method: object
) -> None:
    sent = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    for value in (sent, params):
        action = Session("plexus").receive(json.dumps(value).encode())
        if isinstance(action, Reply | Start):
            answer = strictly(action.frame if isinstance(action, Reply) else action.reply)
            assert ("result" in answer) != ("error" in answer)
