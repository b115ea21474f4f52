"""The grammar of handles: every valid handle can be written and read back."""

from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.wire.handle import InvalidHandle, WireHandle, from_json, parse, plugin_id

names = st.from_regex(r"[A-Za-z0-9._-]+", fullmatch=True)
awkward = st.text(st.sampled_from("%:@\x00\n\x1b\x1f \x7f\x80\x9f\xa0é漢😀4Ff"))
meta_values = st.lists(st.text() | awkward).map(tuple)
handles = st.builds(WireHandle, names, names, names, meta_values)
any_text = st.text(st.characters(exclude_categories=()))


def escaped(value: str) -> str:
    """The rule for escapes, written out character by character."""
    return "".join(
        "".join(f"%{byte:02X}" for byte in char.encode())
        if char in "%:" or ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F
        else char
        for char in value
    )


@given(handles)
def test_every_handle_reads_back_as_itself(handle: WireHandle) -> None:
    assert parse(str(handle)) == handle


@given(handles)
def test_only_the_separator_the_escape_and_control_characters_are_escaped(
    handle: WireHandle,
) -> None:
    head, *values = f"{handle.plugin}@{handle.version}::{handle.method}", *handle.meta
    assert str(handle) == ":".join([head, *map(escaped, values)])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("", ""),
        ("msg-1", "msg-1"),
        ("100%", "100%25"),
        ("a:b", "a%3Ab"),
        ("\x00\n\x1f", "%00%0A%1F"),
        (" ~", " ~"),
        ("\x7f", "%7F"),
        ("\x80\x9f", "%C2%80%C2%9F"),
        ("\xa0é漢😀", "\xa0é漢😀"),
        ("a@b/c?d#e+f", "a@b/c?d#e+f"),
    ],
)
def test_a_value_is_written_with_upper_case_escapes_of_its_utf8_bytes(
    value: str, written: str
) -> None:
    handle = WireHandle("cone", "1.0.0", "chat", (value,))
    assert str(handle) == f"cone@1.0.0::chat:{written}"
    assert parse(str(handle)) == handle


def test_no_meta_and_one_empty_value_are_two_handles() -> None:
    assert parse("a@1::m") == WireHandle("a", "1", "m")
    assert parse("a@1::m:") == WireHandle("a", "1", "m", ("",))
    assert parse("a@1::m") != parse("a@1::m:")


def test_needless_and_lower_case_escapes_are_read_and_written_canonically() -> None:
    assert parse("a@1::m:%61%3a%c3%a9").meta == ("a:é",)
    assert str(parse("a@1::m:%61%3a%c3%a9")) == "a@1::m:a%3Aé"


@given(handles)
def test_handles_of_equal_parts_are_equal_and_hash_alike(handle: WireHandle) -> None:
    twin = WireHandle(handle.plugin, handle.version, handle.method, tuple(handle.meta))
    assert twin == handle
    assert len({twin, handle}) == 1


@pytest.mark.parametrize(
    "other", ["b@1::m:x:y", "a@2::m:x:y", "a@1::n:x:y", "a@1::m:y:x", "a@1::m:x", "a@1::m:x:y:"]
)
def test_every_part_and_the_order_of_the_meta_values_matter(other: str) -> None:
    assert parse(other) != parse("a@1::m:x:y")


@given(handles)
def test_the_string_and_both_named_object_forms_are_the_same_handle(handle: WireHandle) -> None:
    rest = {"version": handle.version, "method": handle.method, "meta": list(handle.meta)}
    assert from_json(str(handle)) == handle
    assert from_json({"plugin": handle.plugin, **rest}) == handle
    assert from_json({"plugin_id": handle.plugin, **rest}) == handle


def test_an_object_without_meta_has_none() -> None:
    assert from_json({"plugin": "a", "version": "1", "method": "m"}) == WireHandle("a", "1", "m")


def test_the_source_form_is_a_chat_whose_identifier_is_split_at_colons() -> None:
    form = {"source": "cone", "source_version": "1.0.0", "identifier": "msg-1:user:50%"}
    # Some clients always send it.
    assert from_json({**form, "metadata": None}) == from_json(form)
    assert from_json(form) == WireHandle("cone", "1.0.0", "chat", ("msg-1", "user", "50%"))


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("cone", "11429815-0a5e-5fcc-baf2-842ab3666e77"),
        ("claudecode", "51b330e5-ed88-5fe2-8b58-0c57f2b02ab3"),
        ("bash", "c425933b-2db7-5bb1-a608-9dd88143fce3"),
        ("arbor", "58fd2bc4-b477-509b-9568-c5aee56f1bc0"),
        ("health", "dc560257-b7c5-575b-b893-b448c87ca797"),
    ],
)
def test_a_plugin_id_follows_from_path_and_major_version(namespace: str, expected: str) -> None:
    assert plugin_id(namespace, 1) == plugin_id(namespace, "1") == UUID(expected)
    assert WireHandle(namespace, "1.4.2", "m").plugin_id == UUID(expected)
    assert WireHandle(namespace, "2.0.0", "m").plugin_id != UUID(expected)
    assert WireHandle(expected, "1.0.0", "m").plugin_id == UUID(expected)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not plugin@version::method"),
        ("cone", "is not plugin@version::method"),
        ("cone@1.0.0", "is not plugin@version::method"),
        ("cone@1.0.0:chat", "is not plugin@version::method"),
        ("cone::chat:x", "is not plugin@version::method"),
        ("@1.0.0::chat", "is not plugin@version::method"),
        ("cone@::chat", "is not plugin@version::method"),
        ("cone@1.0.0::", "is not plugin@version::method"),
        ("cöne@1.0.0::chat", "is not plugin@version::method"),
        ("co ne@1.0.0::chat", "is not plugin@version::method"),
        ("cone@1+b::chat", "is not plugin@version::method"),
        (" cone@1.0.0::chat", "is not plugin@version::method"),
        ("cone@1.0.0::chat ", "unexpected ' ' after the method"),
        ("cone@1.0.0::chat\n", r"unexpected '\n' after the method"),
        ("cone@1.0.0::chat/x:y", "unexpected '/' after the method"),
        ("cone@1.0.0::chat%20", "unexpected '%' after the method"),
        ("cone@1.0.0::chat:x\n", "contains a control character; write it as %XX"),
        ("cone@1.0.0::chat:\x00", "contains a control character; write it as %XX"),
        ("cone@1.0.0::chat:\x7f", "contains a control character; write it as %XX"),
        ("cone@1.0.0::chat:\x85:%41", "contains a control character; write it as %XX"),
        ("cone@1.0.0::chat:%", "contains a '%' without two hex digits after it"),
        ("cone@1.0.0::chat:%4", "contains a '%' without two hex digits after it"),
        ("cone@1.0.0::chat:%zz", "contains a '%' without two hex digits after it"),
        ("cone@1.0.0::chat:%25%", "contains a '%' without two hex digits after it"),
        ("cone@1.0.0::chat:%4:1", "contains a '%' without two hex digits after it"),
        ("cone@1.0.0::chat:%FF", "are not UTF-8"),
        ("cone@1.0.0::chat:%C3", "are not UTF-8"),
        ("cone@1.0.0::chat:%ED%A0%80", "are not UTF-8"),
        ("cone@1.0.0::chat:\ud800", "contains a lone surrogate, which is not text"),
    ],
)
def test_malformed_text_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidHandle) as caught:
        parse(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "a handle is a string or an object, not None"),
        (["cone@1.0.0::chat"], "a handle is a string or an object"),
        ({}, "a handle object has 'plugin' or 'plugin_id', 'version' and 'method'"),
        ({"plugin": "a", "version": "1"}, "a handle object has"),
        ({"version": "1", "method": "m"}, "a handle object has"),
        ({"plugin": "a", "version": "1", "method": "m", "meta": "x"}, "is an array of strings"),
        ({"plugin": "a", "version": "1", "method": "m", "meta": [1]}, "is text, not 1"),
        ({"plugin": 7, "version": "1", "method": "m"}, "the plugin of a handle is letters"),
        ({"plugin": "a", "version": 1, "method": "m"}, "the version of a handle is letters"),
        ({"plugin": "a", "version": "1", "method": ""}, "the method of a handle is letters"),
        ({"plugin": "a:b", "version": "1", "method": "m"}, "the plugin of a handle is letters"),
        ({"source": "cone", "source_version": "1.0.0"}, "needs an 'identifier' string"),
        ({"source": "cone", "identifier": "x"}, "the version of a handle is letters"),
        # Values that a handle can't carry are refused.
        (
            {
                "source": "cone",
                "source_version": "1.0.0",
                "identifier": "x",
                "metadata": {"a": 1},
            },
            "a handle has no 'metadata'",
        ),
        (
            {"plugin": "cone", "version": "1.0.0", "method": "chat", "metadata": []},
            "a handle has no 'metadata'",
        ),
        (
            {"plugin": "a", "version": "1", "method": "m", "meta": ["\udfff"]},
            "contains a lone surrogate",
        ),
    ],
)
def test_json_of_another_form_is_not_a_handle(value: Any, reason: str) -> None:
    with pytest.raises(InvalidHandle) as caught:
        from_json(value)
    assert reason in str(caught.value)


@given(any_text | any_text.map(lambda text: f"a@1::m:{text}"))
def test_any_text_is_a_handle_that_rewrites_to_itself_or_is_refused(text: str) -> None:
    with suppress(InvalidHandle):
        handle = parse(text)
        assert parse(str(handle)) == handle


def test_an_error_repeats_only_the_start_of_a_long_text() -> None:
    with pytest.raises(InvalidHandle) as caught:
        parse("x" * 100_000)
    assert len(str(caught.value)) < 200
