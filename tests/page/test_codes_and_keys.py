"""One-time codes, keys, and the rules of the first message."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.page.codes import CODE_SECONDS, MAX_CODES, Codes
from hubd.page.keys import KEY_SECONDS, Keys
from hubd.page.login import Login, NotAuthenticated
from hubd.wire import jsonrpc


class Clock:
    """A clock that the test sets."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def codes(clock: Clock) -> Codes:
    return Codes(4445, clock)


@pytest.fixture
def login(clock: Clock, codes: Codes) -> Login:
    return Login(codes, Keys("secret", clock), required=True)


def new_code(codes: Codes) -> str:
    return str(codes.link()["url"].partition("#code=")[2])


def first(**params: object) -> bytes:
    return jsonrpc.request(1, "_authenticate", params)


def test_a_code_is_valid_once(codes: Codes) -> None:
    code = new_code(codes)
    assert len(code) == 43
    assert not codes.redeem(f"{code}x")
    assert codes.redeem(code)
    assert not codes.redeem(code)


def test_a_code_expires_after_a_minute(codes: Codes, clock: Clock) -> None:
    link = codes.link()
    assert link["expires_at"] == int(clock.now) + 60
    early, late = new_code(codes), new_code(codes)
    clock.now += CODE_SECONDS - 1
    assert codes.redeem(early)
    clock.now += 1
    assert not codes.redeem(late)


def test_the_oldest_code_makes_room_for_a_new_one(codes: Codes) -> None:
    all_codes = [new_code(codes) for _ in range(MAX_CODES + 1)]
    assert [codes.redeem(code) for code in all_codes] == [False] + [True] * MAX_CODES


def test_a_key_is_valid_at_every_start_with_the_same_secret(clock: Clock) -> None:
    key = Keys("secret", clock).create()
    assert Keys("secret", clock).is_valid(key)
    assert not Keys("another", clock).is_valid(key)


def test_a_key_expires_after_30_days(clock: Clock) -> None:
    keys = Keys("secret", clock)
    key = keys.create()
    clock.now += KEY_SECONDS - 1
    assert keys.is_valid(key)
    clock.now += 1
    assert not keys.is_valid(key)


@given(st.data())
def test_a_changed_key_is_not_valid(data: st.DataObject) -> None:
    keys = Keys("secret")
    key = keys.create()
    place = data.draw(st.integers(0, len(key) - 1))
    # The last character of a MAC has bits that base64 ignores; the text must still be the same.
    other = data.draw(st.characters().filter(lambda letter: letter != key[place]))
    assert not keys.is_valid(key[:place] + other + key[place + 1 :])


@given(st.text())
def test_other_texts_are_not_keys(text: str) -> None:
    assert not Keys("secret").is_valid(text)
    assert not Keys("secret").is_valid(f"..{text}")


def test_a_code_gets_a_key_and_a_key_gets_in(login: Login, codes: Codes) -> None:
    reply = json.loads(login.reply(first(code=new_code(codes))))
    assert reply["id"] == 1
    assert reply["result"].pop("success") is True
    [key] = reply["result"].values()
    assert json.loads(login.reply(first(key=key)))["result"] == {"success": True}


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"hello",
        b"[]",
        b"\xff",
        b'{"jsonrpc":"2.0","id":1,"method":"_info"}',
        b'{"jsonrpc":"2.0","method":"_authenticate","params":{"key":"%b"}}',
        b'{"jsonrpc":"1.0","id":1,"method":"_authenticate","params":{"key":"%b"}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"_authenticate","params":{"key":"%b"}}]',
        b'{"jsonrpc":"2.0","id":1,"method":"_authenticate"}',
        b'{"jsonrpc":"2.0","id":1,"method":"_authenticate","params":["%b"]}',
        b'{"jsonrpc":"2.0","id":1,"method":"_authenticate","params":{"key":["%b"]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"_authenticate","params":{"key":"%b","code":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"_authenticate","params":{"key":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"_authenticate","params":{"code":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"_authenticate","params":{"token":"%b"}}',
    ],
)
def test_other_first_messages_are_refused(login: Login, clock: Clock, message: bytes) -> None:
    key = Keys("secret", clock).create().encode()
    with pytest.raises(NotAuthenticated, match="run `hubd open` again"):
        login.reply(message.replace(b"%b", key))


@pytest.mark.parametrize("params", [{}, {"code": "x"}, {"key": "x"}])
def test_without_authentication_every_code_and_key_gets_in(
    codes: Codes, params: dict[str, Any]
) -> None:
    login = Login(codes, Keys("secret"), required=False)
    result = json.loads(login.reply(first(**params)))["result"]
    assert result["success"] is True
    assert ("key" in result) == ("key" not in params)
    with pytest.raises(NotAuthenticated):
        login.reply(jsonrpc.request(1, "_info", {}))
