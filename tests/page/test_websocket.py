"""The WebSocket of the page: admission, the first message, and the calls after it."""

import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from hubd.mcp.transports.http_server import web_server
from hubd.page.codes import Codes
from hubd.page.site import PageSite
from hubd.page.socket import MAX_LOGIN_BYTES, MAX_STRANGERS, PageSocket
from hubd.plexus.questions import Questions
from hubd.plugins.echo import EchoPlugin
from hubd.rpc.clients import Clients
from hubd.rpc.gate import Gate
from hubd.wire import jsonrpc
from tests.mcp.raw_http import (
    RawClient,
    bearer,
    connection,
    exchange,
    head,
    ports,
    read_answer,
    upgrade,
)
from tests.page.support import key_of, new_code, page, port_of
from tests.process.support import linux_only
from tests.support import Daemon, hub_with

# A text frame with an empty mask.
LOGIN = jsonrpc.request(1, "_authenticate", {"key": "x"})


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("page") / "home") as running:
        yield running


@pytest.fixture(scope="module")
def unlocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("open") / "home", "--no-auth") as running:
        yield running


def status(port: int, host: str, *headers: tuple[str, str], target: str = "/ws") -> int:
    """The status of a WebSocket handshake."""
    return exchange(port, upgrade([("Host", host), *headers], target=target)).status


# The handshake.


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
def test_the_page_itself_is_admitted_under_each_name(daemon: Daemon, name: str) -> None:
    port = port_of(daemon)
    origin = ("Origin", f"http://{name.lower()}:{port}")
    assert status(port, f"{name}:{port}", origin) == 101


@pytest.mark.parametrize(
    "origins",
    [
        pytest.param([], id="none"),
        pytest.param(["http://evil.example"], id="foreign"),
        pytest.param(["null"], id="sandboxed"),
        pytest.param(["http://127.0.0.1:{other}"], id="another port"),
        pytest.param(["http://127.0.0.1"], id="without a port"),
        pytest.param(["https://127.0.0.1:{port}"], id="another scheme"),
        pytest.param(["http://localhost:{port}"], id="another name"),
        pytest.param(["http://127.0.0.1:{port}/"], id="with a path"),
        pytest.param(["http://127.0.0.1:{port}"] * 2, id="twice"),
        pytest.param(["http://127.0.0.1:{port}", "http://evil.example"], id="two"),
        pytest.param(["http://127.0.0.1:{port}.evil.example"], id="longer"),
    ],
)
def test_other_origins_are_refused_even_with_the_token(daemon: Daemon, origins: list[str]) -> None:
    other, port = ports(daemon)
    written = [("Origin", each.format(port=port, other=other)) for each in origins]
    for more in ([], [bearer(daemon.token)]):
        assert status(port, f"127.0.0.1:{port}", *written, *more) == 403


def test_an_allowed_origin_is_not_the_page(tmp_path: Path) -> None:
    other = "http://localhost:3000"
    with Daemon(tmp_path / "home", "--allow-origin", other) as running:
        port = port_of(running)
        assert status(port, f"127.0.0.1:{port}", ("Origin", other)) == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "127.0.0.1:{other}", "127.0.0.1.nip.io:{port}", "0:{port}"],
)
def test_other_hosts_are_refused_with_their_own_origin(daemon: Daemon, host: str) -> None:
    other, port = ports(daemon)
    host = host.format(port=port, other=other)
    for origin in (host, f"127.0.0.1:{port}"):
        assert status(port, host, ("Origin", f"http://{origin}")) == 403


def test_only_its_path_is_a_websocket(daemon: Daemon) -> None:
    port = port_of(daemon)
    own = f"127.0.0.1:{port}"
    origin = ("Origin", f"http://{own}")
    assert status(port, own, origin, target="/") == 200
    assert status(port, own, origin, target="/mcp") == 401
    assert status(port, own, origin, target="/ws/") == 401
    assert status(port, own, origin, target="/page/index.html") == 200
    # Neither an older HTTP nor a used connection becomes a WebSocket.
    headers = [("Host", own), origin]
    assert exchange(port, upgrade(headers, target="/ws", version="1.0")).status == 426
    with connection(port) as opened:
        for data, expected in (
            (head("GET", "/", headers), 200),
            (upgrade(headers, target="/ws"), 426),
            (head("GET", "/", headers), 200),
        ):
            opened.sendall(data)
            assert read_answer(opened).status == expected


def test_a_token_in_the_address_or_a_cookie_is_not_a_login(daemon: Daemon) -> None:
    port = port_of(daemon)
    own = f"127.0.0.1:{port}"
    key = key_of(daemon)
    more = [("Origin", f"http://{own}"), bearer(daemon.token), ("Cookie", f"key={key}")]
    with connection(port) as opened:
        opened.sendall(upgrade([("Host", own), *more], target=f"/ws?token={daemon.token}"))
        answer = read_answer(opened)
        assert answer.status == 101
        assert "set-cookie" not in answer.headers
        opened.sendall(frame(jsonrpc.request(1, "_info", {})))
        assert b"the first message must be _authenticate" in opened.recv(65536)


def frame(message: bytes) -> bytes:
    """Return a client's text frame. A mask of zeros leaves the text as it is."""
    return bytes([0x81, 0x80 | 126]) + len(message).to_bytes(2) + bytes(4) + message


# The first message.


def test_a_code_is_exchanged_for_a_key_that_opens_the_next_connection(daemon: Daemon) -> None:
    with page(daemon) as opened:
        reply = opened.log_in(code=new_code(daemon))
        key = reply["result"].pop("key")
        assert reply == {"jsonrpc": "2.0", "id": 1, "result": {"success": True}}
        [data, _] = opened.call("echo.once", message="hi")
        assert data["content"]["message"] == "hi"
    with page(daemon) as opened:
        assert opened.log_in(key=key)["result"] == {"success": True}
        [data, _] = opened.call("plexus.call", method="echo.once", params={"message": "again"})
        assert data["content"]["message"] == "again"


def test_a_code_is_refused_when_it_is_used_again(daemon: Daemon) -> None:
    code = new_code(daemon)
    with page(daemon) as opened:
        assert opened.log_in(code=code)["result"]["success"]
    with page(daemon) as opened:
        opened.send("_authenticate", {"code": code})
        assert "was used before" in opened.refusal()


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("_authenticate", {"code": "wrong"}),
        ("_authenticate", {"key": "wrong"}),
        ("_authenticate", {"key": "a.2000000000.b"}),
        ("_authenticate", {}),
        ("_info", {}),
        ("_page", {}),
        ("plexus.call", {"method": "echo.once", "params": {"message": "hi"}}),
        ("plexus.respond", {"request_id": "x", "response_data": {}}),
    ],
)
def test_any_other_first_message_ends_the_connection(
    daemon: Daemon, method: str, params: dict[str, object]
) -> None:
    with page(daemon) as opened:
        opened.send(method, params)
        opened.refusal()


def test_the_token_is_not_a_code_or_a_key(daemon: Daemon) -> None:
    for name in ("code", "key"):
        with page(daemon) as opened:
            opened.send("_authenticate", {name: daemon.token})
            opened.refusal()


def test_a_first_message_over_the_limit_is_refused(daemon: Daemon) -> None:
    login = jsonrpc.request(1, "_authenticate", {"key": key_of(daemon)}).decode()
    longest = login.ljust(MAX_LOGIN_BYTES)
    for message in (f"{longest} ", [longest, " "]):
        with page(daemon) as opened:
            # The hub may close before the last frame of a fragmented message is sent.
            with suppress(ConnectionClosed):
                opened.connection.send(message)
            assert "message too large" in opened.refusal()
    with page(daemon) as opened:
        opened.connection.send(longest)
        assert opened.receive()["result"] == {"success": True}


def test_messages_behind_a_refused_one_are_ignored(daemon: Daemon) -> None:
    port = port_of(daemon)
    own = f"127.0.0.1:{port}"
    key = key_of(daemon)
    with connection(port) as opened:
        messages = [
            LOGIN,
            jsonrpc.request(2, "_authenticate", {"key": key}),
            jsonrpc.request(3, "_info", {}),
        ]
        handshake = upgrade([("Host", own), ("Origin", f"http://{own}")], target="/ws")
        opened.sendall(handshake + b"".join(map(frame, messages)))
        received = opened.makefile("rb").read()
    assert b"-32001" in received
    assert b'"result"' not in received


def test_calls_may_follow_the_login_at_once_and_long_messages_after_it(daemon: Daemon) -> None:
    with page(daemon) as opened:
        opened.send("_authenticate", {"key": key_of(daemon)})
        text = "x" * 1_000_000
        [data, _] = opened.call("echo.once", message=text)
        assert data["content"]["message"] == text
    port = port_of(daemon)
    own = f"127.0.0.1:{port}"
    messages = [
        jsonrpc.request(1, "_authenticate", {"key": key_of(daemon)}),
        jsonrpc.request(2, "echo.once", {"message": "together"}),
    ]
    with connection(port) as opened_too:
        handshake = upgrade([("Host", own), ("Origin", f"http://{own}")], target="/ws")
        opened_too.sendall(handshake + b"".join(map(frame, messages)))
        received = b""
        while b'"type":"done"' not in received:
            piece = opened_too.recv(65536)
            assert piece, received
            received += piece
    assert b'"together"' in received
    assert b'"type":"error"' not in received


@asynccontextmanager
async def serving(directory: Path, clock: "Clock") -> AsyncIterator[tuple[str, Codes]]:
    """Serve the page of a hub in this process; yield its address and its codes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        codes = Codes(port, clock)
        async with hub_with(directory, EchoPlugin()) as hub, Clients(hub, Questions()) as clients:
            site = PageSite(clients, Gate("the-token-of-this-hub"), port, codes)
            async with web_server(None, listener, site) as server:
                yield f"127.0.0.1:{port}", codes
                # The web server does not count connections that it has handed over.
                assert not server._state.connections
                assert not server._state.idle


class Clock:
    """A clock that the test sets."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def refusal(host: str, message: bytes | None) -> str:
    """Return why a connection is refused after a first message, or without one."""
    origin = Origin(f"http://{host}")
    async with connect(f"ws://{host}/ws", origin=origin, proxy=None) as opened:
        if message is not None:
            await opened.send(message.decode())
        error = json.loads(await opened.recv())["error"]
        with pytest.raises(ConnectionClosed) as closed:
            await opened.recv()
        assert closed.value.rcvd is not None
        assert (error["code"], closed.value.rcvd.code) == (-32001, 4401)
        return str(error["message"])


async def test_an_expired_code_is_refused(tmp_path: Path) -> None:
    clock = Clock()
    async with serving(tmp_path, clock) as (host, codes):
        code = codes.link()["url"].partition("#code=")[2]
        clock.now += 60
        message = jsonrpc.request(1, "_authenticate", {"code": code})
        assert "is older than a minute" in await refusal(host, message)


async def test_a_silent_connection_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PageSocket.login_seconds == 10.0
    monkeypatch.setattr(PageSocket, "login_seconds", 0.01)
    async with serving(tmp_path, Clock()) as (host, _):
        assert "no message within 0.01 s" in await refusal(host, None)


# Keys and daemons.


def test_a_key_survives_a_restart_until_the_token_file_is_replaced(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as running:
        key = key_of(running)
        running.kill()
        running.start()
        with page(running) as opened:
            assert opened.log_in(key=key)["result"] == {"success": True}
        running.stop()
        Path(running.paths.token).unlink()
        running.start()
        with page(running) as opened:
            opened.send("_authenticate", {"key": key})
            assert "not one of this hub" in opened.refusal()


def test_another_daemon_refuses_the_key(daemon: Daemon, tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as another, page(another) as opened:
        opened.send("_authenticate", {"key": key_of(daemon)})
        opened.refusal()


def test_without_authentication_the_page_needs_no_key(unlocked: Daemon) -> None:
    for params in ({}, {"code": "x"}, {"key": "x"}):
        with page(unlocked) as opened:
            assert opened.log_in(**params)["result"]["success"] is True
            [data, _] = opened.call("echo.once", message="hi")
            assert data["content"]["message"] == "hi"
    port = port_of(unlocked)
    assert status(port, f"127.0.0.1:{port}", ("Origin", "http://evil.example")) == 403
    assert status(port, f"127.0.0.1:{port}") == 403


# Crowds and other users.


def test_a_crowd_without_a_login_does_not_keep_a_person_out(daemon: Daemon) -> None:
    port = port_of(daemon)
    own = f"127.0.0.1:{port}"
    handshake = upgrade([("Host", own), ("Origin", f"http://{own}")], target="/ws")
    key = key_of(daemon)
    with ExitStack() as stack, page(daemon) as before:
        assert before.log_in(key=key)["result"]["success"]
        strangers = []
        for _ in range(2 * MAX_STRANGERS):
            stranger = stack.enter_context(connection(port))
            stranger.sendall(handshake)
            assert read_answer(stranger).status == 101
            strangers.append(stranger)
        with page(daemon) as after:
            assert after.log_in(key=key)["result"]["success"]
            assert after.call("echo.once", message="hi")[-1]["type"] == "done"
        assert before.call("echo.once", message="hi")[-1]["type"] == "done"
        # The oldest were closed, and the newest can still log in.
        with suppress(ConnectionResetError):
            assert strangers[0].recv(1) == b""
        strangers[-1].sendall(frame(jsonrpc.request(1, "_authenticate", {"key": key})))
        assert b'"success":true' in strangers[-1].recv(65536)


@linux_only
@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_another_user_gets_nowhere_with_a_code(daemon: Daemon) -> None:
    """A code is in the command line of the browser, which other users can read."""
    address = ("127.0.0.1", port_of(daemon))
    os.seteuid(65534)
    try:
        theirs = socket.create_connection(address)
    finally:
        os.seteuid(0)
    with page(daemon, theirs) as opened:
        opened.send("_authenticate", {"code": new_code(daemon)})
        opened.send("echo.once", {"message": "hi"})
        assert opened.receive()["result"]["success"] is True
        assert "only for the user of this hub" in opened.refusal()


def test_mcp_is_served_beside_the_page(daemon: Daemon) -> None:
    client = RawClient(port_of(daemon), daemon.token)
    answer = client.call("echo.once", {"message": "hi"})
    assert answer.message["result"]["structuredContent"]["events"][0]["message"] == "hi"
    assert RawClient(client.port, None).call("echo.once").status == 401


def test_codes_keys_and_tokens_are_not_logged(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home", "--log-level", "debug") as running:
        code = new_code(running)
        with page(running) as opened:
            key = opened.log_in(code=code)["result"]["key"]
        with page(running) as opened:
            opened.send("_authenticate", {"key": f"{key}x"})
            opened.refusal()
        with page(running) as opened:
            opened.send("_authenticate", {"code": code})
            opened.refusal()
        log = Path(running.paths.log).read_text()
    assert "ready on" in log
    for secret in (code, key, running.token):
        assert secret not in log
