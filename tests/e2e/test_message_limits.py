"""Messages over a limit, against a real daemon that takes messages of one MiB."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from hubd.config import Settings
from hubd.daemon.run import _max_message_bytes
from hubd.errors import InvalidParams
from hubd.wire import jsonrpc
from hubd.wire.limits import MIB
from hubd.wire.paths import Paths
from tests.support import PATIENCE_SECONDS, Daemon, hubd
from tests.synapse.support import synapse_process as synapse

DEEP = b"[" * 250 + b"]" * 250
OVER = [
    pytest.param(b"x" * (MIB + 1), "1,048,576 bytes", id="bytes"),
    pytest.param(b"[" + b"[]," * 100_001 + b"0]", "arrays and objects", id="arrays"),
    pytest.param(b"{" + b'"a":0,' * 90_000 + b'"b":' + DEEP + b"}", "levels", id="depth"),
    pytest.param(DEEP, "200 levels", id="depth of a short message"),
    pytest.param(b"[" + b"0," * 200_001 + b"0]", "200,000 values", id="values"),
    pytest.param(b"[" + b"9" * 200_000 + b"]", "digits", id="digits"),
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("hub") / "home"
    options = ("--max-message-mib", "1", "--plugin", "tests.sample_plugins.wire:Accepting")
    with Daemon(home, *options) as running:
        yield running


def unix(daemon: Daemon) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE_SECONDS)
    connection.connect(daemon.paths.socket)
    return connection


def websocket(daemon: Daemon) -> ClientConnection:
    headers = {"Authorization": f"Bearer {daemon.token}"}
    return connect(daemon.record["ws_url"], additional_headers=headers, max_size=None)


def messages_until_close(connection: socket.socket) -> list[dict[str, Any]]:
    """Return every line that the daemon sends before it closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            received += chunk
    return [json.loads(line) for line in received.splitlines()]


def check_refusal(answer: dict[str, Any], reason: str) -> None:
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert answer["error"]["message"].startswith("message too large: ")
    assert reason in answer["error"]["message"]


@pytest.mark.parametrize(("message", "reason"), OVER)
def test_a_line_over_a_limit_is_answered_and_the_connection_is_closed(
    daemon: Daemon, message: bytes, reason: str
) -> None:
    with unix(daemon) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(message + b"\n" + jsonrpc.request(2, "_info", {}) + b"\n")
        [answer] = messages_until_close(connection)
    check_refusal(answer, reason)


def test_a_line_without_end_is_refused_once_it_is_too_long(daemon: Daemon) -> None:
    with unix(daemon) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(b"x" * (MIB + 1))
        [answer] = messages_until_close(connection)
    check_refusal(answer, "1,048,576 bytes")


@pytest.mark.parametrize(("message", "reason"), OVER)
@pytest.mark.parametrize("fragments", [1, 5])
def test_a_frame_over_a_limit_is_answered_and_closes_with_1009(
    daemon: Daemon, message: bytes, reason: str, fragments: int
) -> None:
    size = len(message) // fragments + 1
    pieces = [message[at : at + size].decode() for at in range(0, len(message), size)]
    with websocket(daemon) as connection:
        with suppress(ConnectionClosed):
            connection.send(pieces if fragments > 1 else pieces[0])
        check_refusal(json.loads(connection.recv(PATIENCE_SECONDS)), reason)
        with pytest.raises(ConnectionClosed) as closed:
            connection.recv(PATIENCE_SECONDS)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
    assert closed.value.rcvd.reason.startswith("message too large: ")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        pytest.param("plexus.call", {"method": "accepting.accept", "params": "PARAMS"}, id="call"),
        pytest.param("plexus.call", ["accepting.accept", "PARAMS", {}], id="positions"),
        pytest.param("accepting.accept", "PARAMS", id="direct"),
        pytest.param(
            "plexus.call",
            {"method": "plexus.call", "params": {"method": "accepting.accept", "params": "PARAMS"}},
            id="call of call",
        ),
    ],
)
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param({"number": 3, "text": "x" * 100_000}, "", id="text"),
        pytest.param({"number": 3, "anything": [{"a": [1.5, None]}] * 5_000}, "", id="list"),
        pytest.param({"number": 3, "id": "x" * 90_000}, "parameter 'id'", id="no id"),
        pytest.param({"number": "3", "text": "x" * 90_000}, "parameter 'number'", id="strict"),
        pytest.param({"number": 3, "tex": "x" * 90_000}, "unknown parameter 'tex'", id="unknown"),
        pytest.param({"text": "x" * 90_000}, "parameter 'number' is missing", id="missing"),
        pytest.param({"count": 3, "text": "x" * 90_000}, "", id="alias"),
    ],
)
async def test_the_params_of_a_large_message_are_checked_as_those_of_a_short_one(
    daemon: Daemon, method: str, params: Any, value: dict[str, Any], problem: str
) -> None:
    sent = json.loads(json.dumps(params).replace('"PARAMS"', json.dumps(value)))
    async with daemon.client() as client:
        await client.send(method, sent)
        await client.receive()
        item = (await client.receive())["params"]["result"]
        if problem:
            error = (await client.receive())["params"]["result"]
            assert (item["type"], error["code"]) == ("guidance", "invalid_params")
            assert problem in error["message"]
        else:
            assert item["content"]["number"] == 3
            assert item["content"]["size"] == len(json.dumps(value.get("anything")))


def test_synapse_shows_why_a_message_is_refused(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (2 * MIB))
    for option in ((), ("-o", "json")):  # both ways through synapse
        arguments = ("echo", "once", "--message", f"@{tmp_path / 'large'}", *option)
        result = synapse(*arguments, home=daemon.home)
        assert result.returncode == 2
        assert "message too large: it has more than 1,048,576 bytes" in result.stderr


def test_the_limit_comes_from_option_configuration_or_default(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    assert _max_message_bytes(Settings(paths), {}) == 8 * MIB
    assert _max_message_bytes(Settings(paths), {"hub": {"max_message_mib": 3}}) == 3 * MIB
    option = Settings(paths, max_message_mib=2)
    assert _max_message_bytes(option, {"hub": {"max_message_mib": 3}}) == 2 * MIB
    with pytest.raises(InvalidParams, match=r"hub\.max_message_mib"):
        _max_message_bytes(Settings(paths), {"hub": {"max_message_mib": 0}})


@pytest.mark.parametrize("value", ["0", "1025", "many"])
def test_a_limit_out_of_range_is_a_usage_error(tmp_path: Path, value: str) -> None:
    result = hubd("start", home=tmp_path / "home", HUBD_MAX_MESSAGE_MIB=value)
    assert result.returncode == 2
    assert "not a size in MiB (1 to 1024)" in result.stderr
