"""The resources that clients can use, and for how long.

Limits that take long to reach are tried in this process, made short; the rest on real daemons.
"""

import asyncio
import json
import logging
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hubd.mcp import server as mcp_server
from hubd.mcp.transports import http as mcp_http
from hubd.mcp.transports import http_server as mcp_web
from tests.mcp.hostile import Witness
from tests.mcp.raw_http import (
    META,
    Answer,
    Ear,
    Pairs,
    RawClient,
    connection,
    exchange,
    head,
    modern,
    own_host,
    ports,
    read_answer,
    request,
    status_line,
    upgrade,
)
from tests.mcp.support import TOKEN, Served, serving
from tests.support import PATIENCE_SECONDS, Daemon, McpDaemon

T = TypeVar("T")

LIST = modern("tools/list")
CALL = modern("tools/call", "witness.wait")
ASKING = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


def waiting(ear: Ear, **more: Any) -> dict[str, Any]:
    """A call that does not end by itself."""
    return request("tools/call", {"name": "witness.wait", "arguments": {"ear": ear.port}, **more})


def everything(opened: socket.socket) -> bytes:
    """All that comes until the other side hangs up."""
    found = b""
    with suppress(ConnectionError):
        while piece := opened.recv(65536):
            found += piece
    return found


class Near:
    """A blocking client of a hub in this process, which runs in a thread."""

    def __init__(self, served: Served) -> None:
        port = int(served.url.rpartition(":")[2].partition("/")[0])
        self.raw_client = RawClient(port, TOKEN)

    async def do(self, what: Callable[[RawClient], T]) -> T:
        """Do it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.to_thread(what, self.raw_client)

    async def ask(self) -> int:
        """The status of an ordinary request."""
        return (await self.do(lambda one: one.post(request("tools/list"), LIST))).status

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.raw_client.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def until_hung_up(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other side hangs up."""
    found = b""
    async with asyncio.timeout(PATIENCE_SECONDS):
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                found += piece
    return found


# Slow clients.


PARTIAL_HEADS = {
    "silent": b"",
    "a letter": b"P",
    "a line": b"POST /mcp HTTP/1.1\r\n",
    "half a head": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
}


@pytest.mark.parametrize("case", PARTIAL_HEADS)
async def test_a_connection_with_an_incomplete_head_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(mcp_web, "HEAD_SECONDS", 0.05)
    async with serving(tmp_path) as served, Near(served).opened() as (reader, writer):
        writer.write(PARTIAL_HEADS[case])
        assert await until_hung_up(reader) == b""


@pytest.mark.parametrize("case", [case for case in PARTIAL_HEADS if case != "silent"])
async def test_the_second_request_of_a_connection_has_the_same_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    async with serving(tmp_path) as served:
        near = Near(served)
        async with near.opened() as (reader, writer):
            writer.write(head("GET", "/nothing", near.raw_client.own))
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 404 ")
            monkeypatch.setattr(mcp_web, "HEAD_SECONDS", 0.05)
            writer.write(PARTIAL_HEADS[case])
            assert b"HTTP/1.1" not in await until_hung_up(reader)


async def test_a_head_that_comes_slowly_but_in_time_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        near = Near(served)
        async with near.opened() as (reader, writer):
            for byte in near.raw_client.written(request("tools/list"), LIST):
                writer.write(bytes([byte]))
                await writer.drain()
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


async def test_an_answer_may_take_longer_than_the_limit_of_a_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_web, "HEAD_SECONDS", 0.05)
    async with serving(tmp_path, Witness()) as served:
        near = Near(served)

        def outlast(raw_client: RawClient) -> Answer:
            with Ear() as ear, connection(raw_client.port) as calling:
                calling.sendall(raw_client.written(waiting(ear), CALL))
                ear.wait_for_begin()
                # A silent connection is closed after more time than that.
                with connection(raw_client.port) as silent:
                    assert everything(silent) == b""
                ear.say("at last")
                return read_answer(calling)

        result = (await near.do(outlast)).message["result"]
        assert result["structuredContent"]["events"][0]["text"] == "at last\n"


@pytest.mark.parametrize("framing", [("Content-Length", "1000"), ("Transfer-Encoding", "chunked")])
@pytest.mark.parametrize("part", [b"", b"1\r\n{\r\n"], ids=["nothing of it", "a bit of it"])
async def test_an_incomplete_body_is_refused_and_the_connection_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framing: tuple[str, str], part: bytes
) -> None:
    monkeypatch.setattr(mcp_http, "BODY_SECONDS", 0.05)
    async with serving(tmp_path) as served:
        near = Near(served)
        async with near.opened() as (reader, writer):
            writer.write(head("POST", "/mcp", [*near.raw_client.own, *LIST, framing]) + part)
            answer = await until_hung_up(reader)
            assert answer.startswith(b"HTTP/1.1 408 ")


async def test_disconnecting_within_a_body_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as served:
        near = Near(served)
        async with near.opened() as (reader, writer):
            asked_for = [("Content-Length", "1000"), ("Expect", "100-continue")]
            writer.write(head("POST", "/mcp", [*near.raw_client.own, *LIST, *asked_for]))
            assert (await reader.readline()).startswith(b"HTTP/1.1 100 ")
        assert await near.ask() == 200
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_refused_client_cannot_send_forever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_web, "MAX_UNREAD_BYTES", 1_000_000)
    async with serving(tmp_path) as served:
        near = Near(served)

        def flood(raw_client: RawClient) -> int:
            headers = [own_host(raw_client.port), *LIST, ("Content-Length", str(10**12))]
            with connection(raw_client.port) as opened:
                opened.sendall(head("POST", "/mcp", headers))
                sent = 0
                with suppress(ConnectionError):
                    while sent < 100_000_000:
                        sent += opened.send(b"x" * 65536)
            return sent

        assert await near.do(flood) < 100_000_000
        assert await near.ask() == 200


async def test_answered_requests_do_not_count_as_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_web, "MAX_UNREAD_BYTES", 2000)
    async with serving(tmp_path) as served:
        near = Near(served)

        def talk(raw_client: RawClient) -> list[int]:
            written = raw_client.written(request("tools/list"), LIST)
            assert len(written) < 2000
            with connection(raw_client.port) as opened:
                statuses = []
                for _ in range(10):
                    opened.sendall(written)
                    statuses.append(read_answer(opened, "POST").status)
                return statuses

        assert await near.do(talk) == [200] * 10


async def test_malformed_bytes_after_an_answer_are_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as served:
        near = Near(served)
        async with near.opened() as (reader, writer):
            chunked = ("Transfer-Encoding", "chunked")
            writer.write(head("POST", "/mcp", [own_host(near.raw_client.port), chunked]))
            assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
            writer.write(b"this is no chunk\r\n\r\n")
            assert b"HTTP/1.1" not in await until_hung_up(reader)
        assert await near.ask() == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_clients_are_disconnected_if_the_web_server_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "hubd.mcp.transports.http_server", None)
    async with serving(tmp_path) as served:
        near = Near(served)
        async with near.opened() as (reader, _):
            assert await until_hung_up(reader) == b""
        with pytest.raises(ConnectionRefusedError):
            async with near.opened():
                pass
    assert "MCP over HTTP is not available" in caplog.text


# Many clients.


async def test_the_longest_idle_connection_is_closed_for_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_web, "MAX_CONNECTIONS", 4)
    async with serving(tmp_path, Witness()) as served:
        near = Near(served)
        with Ear() as ear, ExitStack() as stack:
            raw_client = near.raw_client

            def take_it_all() -> list[socket.socket]:
                busy = stack.enter_context(connection(raw_client.port))
                busy.sendall(raw_client.written(waiting(ear), CALL))
                ear.wait_for_begin()
                silent = [stack.enter_context(connection(raw_client.port)) for _ in range(10)]
                # Four of them stay, the newest, because there is one that is at work.
                assert [everything(one) for one in silent[:7]] == [b""] * 7
                silent[-1].sendall(raw_client.written(request("tools/list"), LIST))
                assert read_answer(silent[-1]).status == 200
                ear.say("enough")
                assert read_answer(busy).message["result"]["isError"] is False
                return silent

            await near.do(lambda _: take_it_all())
            assert await near.ask() == 200


async def test_a_connection_is_refused_if_all_others_have_a_running_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_web, "MAX_CONNECTIONS", 2)
    async with serving(tmp_path, Witness()) as served:
        near = Near(served)
        raw_client = near.raw_client
        with ExitStack() as stack:

            def work() -> list[Ear]:
                notified = [stack.enter_context(Ear()) for _ in range(2)]
                for ear in notified:
                    opened = stack.enter_context(connection(raw_client.port))
                    opened.sendall(raw_client.written(waiting(ear), CALL))
                    ear.wait_for_begin()
                return notified

            notified = await near.do(lambda _: work())
            assert await near.ask() == 503
            answer = await near.do(lambda one: one.post(request("tools/list"), LIST))
            assert b"all 2 connections have a running request" in answer.body
            await near.do(lambda _: notified[0].say("enough"))
            await near.do(lambda _: notified[0].wait_for_end())
            assert await near.ask() == 200


def listen(stack: ExitStack, raw_client: RawClient, headers: Pairs) -> None:
    """Open the stream on which a session is told of changes."""
    opened = stack.enter_context(connection(raw_client.port))
    opened.sendall(head("GET", "/mcp", [*raw_client.own, *headers]))
    with opened.makefile("rb") as answer:
        assert answer.readline().split()[1] == b"200"


async def test_busy_legacy_sessions_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_server, "MAX_LEGACY_SESSIONS", 3)
    async with serving(tmp_path) as served:
        near = Near(served)

        def fill(raw_client: RawClient) -> None:
            with ExitStack() as stack:
                opened = [raw_client.initialize() for _ in range(3)]
                assert [answer.status for answer in opened] == [200] * 3
                for answer in opened:
                    headers = raw_client.in_session(answer.headers["mcp-session-id"])
                    listen(stack, raw_client, headers)
                assert raw_client.initialize().status == 503
                # Nor does what fails to open one take the room of one.
                assert raw_client.post(request("tools/list"), headers).status == 200
                delete = head("DELETE", "/mcp", [*raw_client.own, *headers])
                assert exchange(raw_client.port, delete, "DELETE").status == 200
                for _ in range(5):
                    assert raw_client.post(request("tools/list"), headers[:2]).status == 400
                last = raw_client.initialize()
                assert last.status == 200
                listen(stack, raw_client, raw_client.in_session(last.headers["mcp-session-id"]))
                assert raw_client.initialize().status == 503

        await near.do(fill)


async def test_the_longest_idle_legacy_session_ends_for_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_server, "MAX_LEGACY_SESSIONS", 3)
    async with serving(tmp_path) as served:
        near = Near(served)

        def come_and_go(raw_client: RawClient) -> None:
            opened = [raw_client.initialize() for _ in range(3)]
            first, second, third = (
                raw_client.in_session(answer.headers["mcp-session-id"]) for answer in opened
            )
            assert raw_client.post(request("ping"), first).status == 200
            assert raw_client.initialize().status == 200
            found = [raw_client.post(request("ping"), session).status for session in (first, third)]
            assert found == [200, 200]
            assert raw_client.post(request("ping"), second).status == 404

        await near.do(come_and_go)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("busy") / "home"
    with McpDaemon(home, "--plugin", "tests.mcp.hostile:Witness") as running:
        yield running


@pytest.fixture(scope="module")
def far(daemon: Daemon) -> RawClient:
    """A client with the token of the daemon."""
    return RawClient(ports(daemon)[1], daemon.token)


def test_hundreds_of_idle_connections_do_not_exhaust_the_limit(
    daemon: Daemon, far: RawClient
) -> None:
    ws, port = ports(daemon)
    with ExitStack() as stack:
        for _ in range(600):
            stack.enter_context(connection(port))
        for _ in range(90):
            stack.enter_context(connection(ws))
        assert far.post(request("tools/list"), LIST).status == 200
        token = ("Authorization", f"Bearer {daemon.token}")
        assert status_line(ws, upgrade([own_host(ws), token])) == 101
        for _ in range(300):
            stranger = stack.enter_context(connection(port))
            stranger.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n")
        assert far.post(request("tools/list"), LIST).status == 200


def unread(far: RawClient, data: bytes, stack: ExitStack) -> None:
    """Send without ever reading, until the other side takes no more either."""
    opened = stack.enter_context(socket.socket())
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    opened.connect(("127.0.0.1", far.port))
    # All answers are written, and all buffers are full.
    opened.settimeout(0.5)
    with suppress(TimeoutError):
        while True:
            opened.sendall(data)


def test_a_client_that_does_not_read_delays_no_other(far: RawClient) -> None:
    with ExitStack() as stack:
        unread(far, far.written(request("tools/list"), LIST) * 20, stack)
        assert far.post(request("tools/list"), LIST).status == 200
        session = far.initialize().headers["mcp-session-id"]
        unread(far, far.written(request("tools/list"), far.in_session(session)) * 20, stack)
        assert far.post(request("tools/list"), LIST).status == 200
        # He may hold up his own session, but no other.
        other = far.initialize().headers["mcp-session-id"]
        assert far.post(request("tools/list"), far.in_session(other)).status == 200


def test_disconnecting_ends_only_the_own_call(far: RawClient) -> None:
    with Ear() as mine, Ear() as other, connection(far.port) as opened:
        opened.sendall(far.written(waiting(other), CALL))
        other.wait_for_begin()
        with connection(far.port) as gone:
            gone.sendall(far.written(waiting(mine), CALL))
            mine.wait_for_begin()
        mine.wait_for_end()
        other.say("all is well")
        [event] = read_answer(opened).message["result"]["structuredContent"]["events"]
        assert event["text"] == "all is well\n"


# The end.


def stream(far: RawClient, data: bytes, stack: ExitStack) -> socket.socket:
    """A stream that has begun."""
    opened = stack.enter_context(connection(far.port))
    opened.sendall(data)
    begun = b""
    while b"\r\n\r\n" not in begun:
        begun += opened.recv(1)
    assert begun.startswith(b"HTTP/1.1 200 ")
    assert b"text/event-stream" in begun
    return opened


def last_message(data: bytes) -> Any:
    """The message of the last event of a stream, which has come to its proper end."""
    assert data.endswith(b"0\r\n\r\n")
    lines = [line for line in data.splitlines() if line.startswith(b"data: {")]
    return json.loads(lines[-1].removeprefix(b"data: "))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_stopping_daemon_answers_calls_and_ends_streams_without_warnings(
    home: Path, era: str
) -> None:
    with McpDaemon(home, "--plugin", "tests.mcp.hostile:Witness") as running, ExitStack() as stack:
        far = RawClient(ports(running)[1], running.token)
        ear = stack.enter_context(Ear())
        if era == "modern":
            params = {"notifications": {"toolsListChanged": True}}
            listening = request("subscriptions/listen", params)
            written = far.written(listening, modern("subscriptions/listen"))
            headers = CALL
        else:
            session = far.initialize().headers["mcp-session-id"]
            headers = far.in_session(session)
            far.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
            written = head("GET", "/mcp", [*far.own, *headers])
        changes = stream(far, written, stack)
        calling = stack.enter_context(connection(far.port))
        calling.sendall(far.written(waiting(ear), headers))
        ear.wait_for_begin()
        idle = stack.enter_context(connection(far.port))
        # The watchdog, which would end it sooner or later in any case, ends it with 1.
        assert running.stop() == 0
        ear.wait_for_end()
        assert everything(idle) == b""
        result = read_answer(calling).message["result"]
        assert result["isError"]
        assert result["content"][0]["text"] == "cancelled: the daemon is stopping"
        ended = everything(changes)
        if era == "modern":
            assert last_message(ended)["result"]["resultType"] == "complete"
        else:
            assert ended.endswith(b"0\r\n\r\n")
        log = [json.loads(line) for line in Path(running.paths.log).read_text().splitlines()]
        assert [line for line in log if line["level"] != "info"] == []


def test_a_call_that_is_nearly_done_when_the_daemon_stops_gets_its_result(home: Path) -> None:
    with McpDaemon(home, "--plugin", "tests.mcp.hostile:Witness") as running, ExitStack() as stack:
        far = RawClient(ports(running)[1], running.token)
        ear = stack.enter_context(Ear())
        calling = stack.enter_context(connection(far.port))
        calling.sendall(far.written(waiting(ear), CALL))
        ear.wait_for_begin()
        idle = stack.enter_context(connection(far.port))
        idle.sendall(head("GET", "/nothing", far.own))
        assert read_answer(idle).status == 404
        assert running.process is not None
        running.process.terminate()
        # It closes idle connections first.
        assert idle.recv(1) == b""
        ear.say("just in time")
        [event] = read_answer(calling).message["result"]["structuredContent"]["events"]
        assert event["text"] == "just in time\n"
        assert running.stop() == 0


def test_neither_silent_nor_unread_nor_stubborn_clients_keep_a_daemon_from_stopping(
    home: Path,
) -> None:
    plugins = ("tests.mcp.hostile:Witness", "tests.sample_plugins.trouble:Trouble")
    options = [word for plugin in plugins for word in ("--plugin", plugin)]
    with McpDaemon(home, *options) as running, ExitStack() as stack:
        far = RawClient(ports(running)[1], running.token)
        for _ in range(20):
            stack.enter_context(connection(far.port))
        unread(far, far.written(request("tools/list"), LIST) * 20, stack)
        slow = stack.enter_context(connection(far.port))
        headers = [*far.own, *LIST, ("Content-Length", "1000"), ("Expect", "100-continue")]
        slow.sendall(head("POST", "/mcp", headers))
        assert slow.recv(12) == b"HTTP/1.1 100"
        stubborn = request("tools/call", {"name": "trouble.stubborn", "arguments": {}})
        stubborn["params"]["_meta"] = {**META, "progressToken": 1}
        # It has begun when it reports.
        stream(far, far.written(stubborn, modern("tools/call", "trouble.stubborn")), stack)
        assert running.stop() == 0


# Answers to questions of other clients.


def asked(far: RawClient, tool: str = "witness.ask", about: str = "it") -> str:
    """The state of a call that waits for an answer."""
    params = {"name": tool, "arguments": {"about": about}}
    message = request("tools/call", params)
    message["params"]["_meta"] = ASKING
    result = far.post(message, modern("tools/call", tool)).message["result"]
    assert result["resultType"] == "input_required"
    state: str = result["requestState"]
    return state


def answer(
    far: RawClient,
    state: object,
    tool: str = "witness.ask",
    about: str = "it",
    value: object = True,
) -> Answer:
    """Answer it."""
    params = {
        "name": tool,
        "arguments": {"about": about},
        "requestState": state,
        "inputResponses": {"answer": {"action": "accept", "content": {"value": value}}},
    }
    message = request("tools/call", params)
    message["params"]["_meta"] = ASKING
    return far.post(message, modern("tools/call", tool))


def altered(state: str) -> list[object]:
    """The state as a forger would write it."""
    middle = len(state) // 2
    other = "A" if state[middle] != "A" else "B"
    return [
        "",
        "v1.",
        "x",
        state[:-1],
        state + "A",
        state[:middle] + other + state[middle + 1 :],
        state.removeprefix("v1."),
        state.upper(),
        "v1." + "A" * 100_000,
        7,
        {"v": 1},
        [state],
    ]


def test_a_state_is_good_for_one_answer_to_the_call_that_it_came_from(far: RawClient) -> None:
    state = asked(far)
    for forged in altered(state):
        refused = answer(far, forged)
        assert (refused.status, refused.code) == (400, -32602), forged
    assert answer(far, state, tool="witness.ask_too").code == -32602
    assert answer(far, state, about="something else").code == -32602
    result = answer(far, state).message["result"]
    assert result["structuredContent"]["events"][0]["text"] == "True"
    assert answer(far, state).code == -32602


def test_an_answer_that_is_refused_does_not_reach_the_method(far: RawClient) -> None:
    mine, other = asked(far, about="mine"), asked(far, about="other")
    assert answer(far, mine, about="other").code == -32602
    for state, about, value in ((other, "other", False), (mine, "mine", True)):
        result = answer(far, state, about=about, value=value).message["result"]
        assert result["structuredContent"]["events"][0]["text"] == str(value)


async def test_a_state_that_is_too_old_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, Witness()) as served:
        near = Near(served)
        state = await near.do(asked)

        class Later:
            """The clock, some time on."""

            @staticmethod
            def time() -> float:
                return time.time() + 3600.0

        monkeypatch.setattr("mcp.server.request_state.time", Later)
        refused = await near.do(lambda one: answer(one, state))
        assert (refused.status, refused.code) == (400, -32602)
        monkeypatch.undo()
        result = (await near.do(lambda one: answer(one, state))).message["result"]
        assert result["structuredContent"]["events"][0]["text"] == "True"


async def test_a_request_after_the_end_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        near = Near(served)
        assert await near.ask() == 200
        await served.lazy.end()
        answered = await near.do(lambda one: one.post(request("tools/list"), LIST))
        assert (answered.status, answered.body) == (503, b"the daemon is stopping\n")
