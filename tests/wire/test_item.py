"""Stream items: each has exactly the JSON shape of the protocol, with any text."""

import json
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.wire.item import (
    EXIT_CODES,
    Data,
    Done,
    Error,
    Guidance,
    Item,
    Progress,
    Request,
    Stamp,
)

META = b'{"provenance":["plexus","arbor"],"plexus_hash":"0123456789abcdef","timestamp":1767000000}'
META_OBJECT = json.loads(META)
CONFIRM = {"type": "confirm", "message": "Sure?", "default": False}

HOSTILE = 'say "hi"\\\n\r\t\x00\x1b[31m\u2028\u2029</script>é😀\ud800'
any_text = st.text(st.characters(exclude_categories=()))


def read(item: Item) -> Any:
    """The item as a strict reader of one line would see it."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    encoded = item.encode()
    assert b"\n" not in encoded
    return json.loads(encoded.decode(), parse_constant=refuse)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (
            Data(META, "arbor.tree_get", b'{"type":"tree_data"}'),
            {
                "type": "data",
                "metadata": META_OBJECT,
                "content_type": "arbor.tree_get",
                "content": {"type": "tree_data"},
            },
        ),
        (
            Progress(META, "half way", 12.5),
            {
                "type": "progress",
                "metadata": META_OBJECT,
                "message": "half way",
                "percentage": 12.5,
            },
        ),
        (
            Progress(META, "busy"),
            {"type": "progress", "metadata": META_OBJECT, "message": "busy"},
        ),
        (
            Guidance(META, "method_not_found", "Did you mean tree_render?", ["tree_render"]),
            {
                "type": "guidance",
                "metadata": META_OBJECT,
                "error_type": "method_not_found",
                "suggestion": "Did you mean tree_render?",
                "available": ["tree_render"],
            },
        ),
        (
            Error(META, "no such method", "method_not_found"),
            {
                "type": "error",
                "metadata": META_OBJECT,
                "message": "no such method",
                "code": "method_not_found",
                "recoverable": False,
            },
        ),
        (
            Request(META, "r-1", CONFIRM, 30_000),
            {
                "type": "request",
                # Not in the published shape, but the hash is on every item.
                "metadata": META_OBJECT,
                "requestId": "r-1",
                "requestData": CONFIRM,
                "timeoutMs": 30_000,
            },
        ),
        (Done(META), {"type": "done", "metadata": META_OBJECT}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "",
)
def test_an_item_has_exactly_the_published_members_in_order(
    item: Item, expected: dict[str, Any]
) -> None:
    shape = read(item)
    assert shape == expected
    assert list(shape) == list(expected)


def test_an_error_reports_whether_a_retry_may_help() -> None:
    assert read(Error(META, "busy", "overloaded", recoverable=True))["recoverable"] is True


def hostile_items(text: str) -> list[tuple[Item, str]]:
    """Every item that carries free text, and the member that holds it."""
    return [
        (Progress(META, text, 0), "message"),
        (Guidance(META, text, "", []), "error_type"),
        (Guidance(META, "internal", text, []), "suggestion"),
        (Error(META, text, "internal"), "message"),
        (Request(META, text, {}, 1), "requestId"),
    ]


def as_utf16(text: str) -> str:
    """Two surrogates side by side are one character once they were JSON."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@pytest.mark.parametrize("index", range(len(hostile_items(""))))
@given(text=any_text | st.just(HOSTILE))
def test_hostile_text_is_still_valid_json_on_one_line(index: int, text: str) -> None:
    item, member = hostile_items(text)[index]
    assert read(item)[member] == as_utf16(text)


def test_hostile_text_survives_inside_lists_and_requests() -> None:
    assert read(Guidance(META, "internal", "", [HOSTILE, "b"]))["available"] == [HOSTILE, "b"]
    asked = {"type": "prompt", "message": HOSTILE, HOSTILE: [HOSTILE]}
    assert read(Request(META, "1", asked, 1))["requestData"] == asked


def test_the_content_of_data_items_is_not_changed() -> None:
    content = '{"b": 1.0,  "a":"é\\u00e9"}'.encode()
    assert Data(META, "x.y", content).encode().endswith(b'"content":' + content + b"}")


def test_a_stamp_has_the_provenance_and_the_time_in_whole_seconds() -> None:
    metadata = json.loads(Stamp(("plexus", "arbor", "tree_get"), "0123456789abcdef").metadata())
    timestamp = metadata.pop("timestamp")
    assert metadata == {
        "provenance": ["plexus", "arbor", "tree_get"],
        "plexus_hash": "0123456789abcdef",
    }
    assert type(timestamp) is int


@given(any_text)
def test_a_stamp_accepts_any_method_name(name: str) -> None:
    metadata = Stamp(("plexus", name), "0123456789abcdef").metadata()
    assert read(Done(metadata))["metadata"]["provenance"] == ["plexus", as_utf16(name)]


def test_the_error_codes_and_their_exit_statuses_are_a_closed_set() -> None:
    table = {
        1: "handle_not_supported execution_error cancelled internal",
        2: "invalid_method invalid_params handle_invalid ambiguous",
        3: "activation_not_found method_not_found not_found handle_target_missing cursor_expired",
        4: "permission_denied unauthenticated",
        5: "unavailable overloaded",
        6: "timeout",
        7: "conflict",
        9: "version_unsupported",
    }
    assert {code: status for status, codes in table.items() for code in codes.split()} == EXIT_CODES
