"""The blocking client, against a server that a thread scripts."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubd.wire import client
from hubd.wire.client import UnixConnection
from hubd.wire.envelope import OVERLOADED
from tests.support import PATIENCE_SECONDS

Script = Callable[[socket.socket], None]

REPLY = b'{"jsonrpc":"2.0","id":1,"result":7}\n'


def item(**content: object) -> bytes:
    params = {"subscription": 7, "result": content}
    return json.dumps({"jsonrpc": "2.0", "method": "subscription", "params": params}).encode()


@contextmanager
def server(directory: Path, script: Script) -> Iterator[str]:
    """Listen on a Unix socket, and run the script with the first connection."""
    directory.chmod(0o700)
    path = str(directory / "hub.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                script(connection)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield path
        finally:
            thread.join(PATIENCE_SECONDS)


def replying(*parts: bytes) -> Script:
    """Read the request, send the parts one by one, and close."""

    def script(connection: socket.socket) -> None:
        assert connection.recv(65536).endswith(b"\n")
        for part in parts:
            connection.sendall(part)

    return script


def test_a_call_yields_its_items_up_to_done(tmp_path: Path) -> None:
    data, done = item(type="data", content={"n": 1}), item(type="done")
    text = REPLY + data + b"\n" + done + b"\n"
    # The bytes arrive in pieces that are not lines.
    with server(tmp_path, replying(text[:50], text[50:90], text[90:])) as path:
        items = list(client.call(path, "echo.once", {"message": "hi"}))
    assert items == [{"type": "data", "content": {"n": 1}}, {"type": "done"}]


def test_the_request_is_one_line_of_json_rpc(tmp_path: Path) -> None:
    received: list[bytes] = []

    def script(connection: socket.socket) -> None:
        received.append(connection.recv(65536))
        connection.sendall(REPLY + item(type="done") + b"\n")

    with server(tmp_path, script) as path:
        list(client.call(path, "écho.once", {"message": "a\nb"}))
    assert received[0].count(b"\n") == 1
    assert json.loads(received[0]) == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "écho.once",
        "params": {"message": "a\nb"},
    }


def test_an_error_reply_is_raised_with_its_code(tmp_path: Path) -> None:
    error = {"code": OVERLOADED, "message": "too many connections"}
    reply = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode() + b"\n"
    with (
        server(tmp_path, replying(reply)) as path,
        pytest.raises(client.Refused, match="too many connections") as caught,
    ):
        list(client.call(path, "echo.once", {}))
    assert caught.value.code == OVERLOADED


@pytest.mark.parametrize("reply", [b"220 mail.example ESMTP", b"[]", b"{}", b'"hello"'])
def test_a_server_of_another_protocol_is_recognized(tmp_path: Path, reply: bytes) -> None:
    with server(tmp_path, replying(reply + b"\n")) as path, pytest.raises(client.NotAHub):
        list(client.call(path, "echo.once", {}))


def test_a_server_that_closes_during_the_call_is_reported(tmp_path: Path) -> None:
    with (
        server(tmp_path, replying(REPLY)) as path,
        pytest.raises(client.Disconnected, match="ended during the call"),
    ):
        list(client.call(path, "echo.once", {}))


def test_a_server_that_sends_nothing_is_reported_after_the_timeout(tmp_path: Path) -> None:
    reported = threading.Event()

    def script(_: socket.socket) -> None:
        reported.wait(PATIENCE_SECONDS)

    with server(tmp_path, script) as path:
        with pytest.raises(client.Disconnected, match="does not answer"):
            list(client.call(path, "echo.once", {}, timeout_seconds=0.05))
        reported.set()


def test_a_refusal_of_a_message_that_was_not_read_is_received(tmp_path: Path) -> None:
    refusal = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"too large"}}\n'

    def script(connection: socket.socket) -> None:
        connection.sendall(refusal)
        connection.shutdown(socket.SHUT_RD)

    with server(tmp_path, script) as path, UnixConnection(path) as connection:
        connection.send(b"x" * 10_000_000)
        with pytest.raises(client.Refused, match="too large"):
            client.item_of(connection.receive())


def test_a_socket_without_a_listener_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(client.NotListening, match=r"no daemon listens on .*hub\.sock"):
        UnixConnection(str(tmp_path / "hub.sock"))


def test_a_socket_in_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(client.UntrustedSocket, match="can be written by others"):
        UnixConnection(str(tmp_path / "hub.sock"))


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system has no SO_PEERCRED")
def test_the_peer_is_the_process_that_listens(tmp_path: Path) -> None:
    with server(tmp_path, lambda _: None) as path, UnixConnection(path) as connection:
        assert connection.peer_pid == os.getpid()
