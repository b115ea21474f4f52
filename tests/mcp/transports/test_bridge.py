"""`hubd mcp`: a process between a client on pipes and the daemon."""

import asyncio
import json
import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hubd.wire.mcp_bridge import END, REFUSED
from tests.mcp.bridge_support import (
    INITIALIZE,
    INITIALIZED,
    Bridge,
    bridge,
    daemons_of,
    event_of,
    kill_daemons_of,
    lines,
    read,
    request,
    tool_call,
)
from tests.mcp.notified_clients import until
from tests.mcp.support import serving
from tests.support import (
    HUBD,
    PATIENCE_SECONDS,
    Daemon,
    McpDaemon,
    environment,
    events_of,
    few,
    hubd,
)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600


@pytest.fixture(scope="module")
def daemon(bridged_daemon: Daemon) -> Daemon:
    """One daemon for all that leave it alive."""
    return bridged_daemon


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Path]:
    """A home without a daemon; one that is started there is stopped in the end."""
    home = tmp_path / "home"
    yield home
    hubd("stop", home=home)
    left = daemons_of(home)
    kill_daemons_of(home)
    assert left == []


def piped(
    home: Path, data: bytes, *arguments: str, **more: str
) -> subprocess.CompletedProcess[bytes]:
    """Pipe data into the bridge and return its output."""
    return subprocess.run(
        [*HUBD, "--home", str(home), *(arguments or ("mcp",))],
        input=data,
        capture_output=True,
        timeout=2 * PATIENCE_SECONDS,
        env=environment(**more),
        check=False,
    )


# Starting and ending.


@pytest.mark.parametrize("spelling", few(["mcp", "--stdio"], 1))
def test_piped_requests_are_answered_by_a_daemon_that_is_started_for_them(
    new_home: Path, spelling: str
) -> None:
    messages = lines(INITIALIZE, INITIALIZED, tool_call(1, "echo.once", message="hello"))
    # The last line needs no end.
    done = piped(new_home, messages + lines(request(2, "ping")).rstrip(), spelling)
    assert (done.returncode, done.stderr) == (0, b"")
    answers = read(done.stdout)
    assert set(answers) == {0, 1, 2}
    assert event_of(answers[1])["message"] == "hello"
    state = json.loads(hubd("status", "--json", home=new_home).stdout)
    assert daemons_of(new_home) == [state["pid"]]


async def test_of_many_clients_at_once_one_starts_the_daemon_and_all_are_served(
    new_home: Path,
) -> None:
    async def one() -> tuple[int | None, bytes, bytes]:
        async with bridge(new_home) as client:
            output, errors = await client.process.communicate(
                lines(INITIALIZE, INITIALIZED, tool_call(1, "echo.once", message="hello"))
            )
            return client.process.returncode, output, errors

    async with asyncio.timeout(3 * PATIENCE_SECONDS):
        ended = await asyncio.gather(*(one() for _ in range(5)))
    for status, output, errors in ended:
        assert (status, errors) == (0, b"")
        assert event_of(read(output)[1])["message"] == "hello"
    assert len(daemons_of(new_home)) == 1


def test_an_empty_stdin_is_not_an_error(daemon: Daemon) -> None:
    done = piped(daemon.home, b"")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_bridge_works_on_files_and_pipes(daemon: Daemon, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(lines(INITIALIZE, INITIALIZED, request(1, "tools/list")))
    with source.open("rb") as stdin, target.open("wb") as stdout:
        subprocess.run(
            [*HUBD, "--home", str(daemon.home), "mcp"],
            stdin=stdin,
            stdout=stdout,
            timeout=PATIENCE_SECONDS,
            env=environment(),
            check=True,
        )
    assert len(read(target.read_bytes())[1]["result"]["tools"]) > 50


async def test_non_blocking_pipes_work(daemon: Daemon) -> None:
    # Node hands down non-blocking pipes.
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        async with bridge(daemon.home, stdin=reading) as client:
            os.write(writing, lines(INITIALIZE))
            assert (await client.receive())["id"] == 0
            os.write(writing, lines(INITIALIZED, request(1, "ping")))
            assert (await client.receive())["id"] == 1
            os.close(writing)
            writing = -1
            assert await client.status() == 0
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


async def test_answers_are_complete_on_a_full_pipe_that_does_not_block(daemon: Daemon) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb") as answers:
        async with bridge(daemon.home, stdout=writing) as client:
            lists = [request(number, "tools/list") for number in range(1, 5)]
            await client.send(INITIALIZE, INITIALIZED, *lists)
            client.hang_up()
            # The pipe is full until it is read.
            await until(lambda: select.select([], [writing], [], 0)[1] == [])
            os.close(writing)
            output = await asyncio.to_thread(answers.read)
            assert await client.status() == 0
    assert set(read(output)) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_stdin_or_stdout_is_an_error(daemon: Daemon, closed: str) -> None:
    command = f'exec "$@" {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, "sh", *HUBD, "--home", str(daemon.home), "mcp"],
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        env=environment(),
        check=False,
    )
    assert done.returncode == 2
    assert b"one of them is closed" in done.stderr
    assert b"Traceback" not in done.stderr


def test_output_of_plugins_does_not_reach_the_client(daemon: Daemon) -> None:
    done = piped(
        daemon.home,
        lines(INITIALIZE, INITIALIZED, tool_call(1, "porter.chatter"), request(2, "ping")),
    )
    assert b"stray" not in done.stdout
    answers = read(done.stdout)
    assert event_of(answers[1])["text"] == "done"
    assert answers[2]["result"] == {}


# Malformed lines.

BROKEN: dict[str, tuple[bytes, Any, int]] = {
    "20 MB": (b'{"x": "' + b"y" * 20_000_000 + b'"}', None, INVALID_REQUEST),
    "50 MB without JSON": (b"z" * 50_000_000, None, INVALID_REQUEST),
    "broken JSON": (b'{"jsonrpc": "2.0", "id": 7, "method": ', None, PARSE_ERROR),
    "words": (b"hello", None, PARSE_ERROR),
    "invalid UTF-8": (b'{"jsonrpc": "2.0", "id": 7, "method": "\xff"}', None, PARSE_ERROR),
    "NUL": (b"\0", None, PARSE_ERROR),
    "NUL in a message": (b'{"jsonrpc": "2.0", "id": 7,\0 "method": "ping"}', None, PARSE_ERROR),
    "100000 deep": (b"[" * 100_000, None, INVALID_REQUEST),
    "deep and whole": (b"[" * 100_000 + b"]" * 100_000, None, INVALID_REQUEST),
    "deep params": (
        b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"x": '
        + b"[" * 500
        + b"]" * 500
        + b"}}",
        7,
        INVALID_REQUEST,
    ),
    "half a character": (
        b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"x": "\\ud800"}}',
        7,
        INVALID_REQUEST,
    ),
    "a batch": (b'[{"jsonrpc": "2.0", "id": 7, "method": "ping"}]', None, INVALID_REQUEST),
    "a number": (b"42", None, INVALID_REQUEST),
    "null": (b"null", None, INVALID_REQUEST),
    "an object": (b"{}", None, INVALID_REQUEST),
    "JSON-RPC 1": (
        b'{"jsonrpc": "1.0", "id": "seven", "method": "ping"}',
        "seven",
        INVALID_REQUEST,
    ),
    "no id": (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', None, INVALID_REQUEST),
    "half an id": (b'{"jsonrpc": "2.0", "id": 7.5, "method": "ping"}', None, INVALID_REQUEST),
    "a truth for an id": (
        b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
        None,
        INVALID_REQUEST,
    ),
    "positional params": (
        b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]}',
        7,
        INVALID_REQUEST,
    ),
    "an endless number": (
        b'{"jsonrpc": "2.0", "id": ' + b"7" * 10_000 + b', "method": "ping"}',
        None,
        PARSE_ERROR,
    ),
}


async def test_malformed_lines_are_refused_and_all_others_served(
    daemon: Daemon,
) -> None:
    async with bridge(daemon.home) as client:
        await client.greet()
        for number, (name, (line, request_id, code)) in enumerate(BROKEN.items(), start=100):
            await client.send(line + b"\n")
            refusal = await client.receive()
            assert (refusal["id"], refusal["error"]["code"]) == (request_id, code), name
            assert (await client.ask(request(number, "ping")))["result"] == {}, name
        client.hang_up()
        assert await client.status() == 0
        assert await client.said() == ""


async def test_a_message_in_pieces_is_one_message(daemon: Daemon) -> None:
    async with bridge(daemon.home) as client:
        await client.greet()
        first, second = (lines(request(number, "ping")) for number in (1, 2))
        await client.send(first + second[:20])
        assert (await client.receive())["id"] == 1
        await client.send(b"\n\n".join([second[20:], b"\r\n", lines(request(3, "ping"))]))
        assert [(await client.receive())["id"] for _ in range(2)] == [2, 3]


async def test_a_message_that_is_not_complete_in_time_ends_the_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        served.lazy.clients.message_seconds = 0.05
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"))
        writer.write(b"{}\n" + lines(INITIALIZE) + lines(request(1, "ping"))[:10])
        async with asyncio.timeout(PATIENCE_SECONDS):
            output = await reader.read()
        writer.close()
        await writer.wait_closed()
    answers, _, told = output.partition(REFUSED)
    greeting, refusal = (json.loads(line) for line in answers.splitlines())
    assert (greeting["id"], refusal["id"]) == (0, None)
    assert refusal["error"]["message"] == "the message was not complete after 0.05 s"
    assert json.loads(told)["message"] == refusal["error"]["message"]


def test_half_a_message_at_the_end_is_refused(daemon: Daemon) -> None:
    whole = lines(INITIALIZE, INITIALIZED, request(1, "ping"))
    done = piped(daemon.home, whole + lines(request(2, "ping"))[:30])
    answers = read(done.stdout)
    assert set(answers) == {0, 1, None}
    assert answers[None]["error"]["code"] == PARSE_ERROR
    assert done.returncode == 0


def test_a_large_message_is_answered(daemon: Daemon) -> None:
    text = "ä" * 1_000_000
    messages = (INITIALIZE, INITIALIZED, tool_call(1, "echo.once", message=text))
    answers = read(piped(daemon.home, lines(*messages)).stdout)
    assert not answers[1]["result"]["isError"]


# The byte that ends a conversation is not noise.
NOISE = st.lists(
    st.binary(max_size=200).map(lambda raw: raw.replace(b"\n", b"").replace(END, b"")), max_size=20
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=NOISE)
async def test_noise_is_refused_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, noise: list[bytes]
) -> None:
    directory = tmp_path_factory.mktemp("noise")
    async with serving(directory):
        reader, writer = await asyncio.open_unix_connection(str(directory / "hub.mcp"))
        writer.write(b"{}\n" + b"".join(line + b"\n" for line in noise))
        writer.write(lines(INITIALIZE) + END + b"\n")
        async with asyncio.timeout(PATIENCE_SECONDS):
            output = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert output.endswith(END)
    answers = [json.loads(line) for line in output.removesuffix(END).splitlines()]
    assert [answer["id"] for answer in answers if "result" in answer] == [0]
    refused = [answer for answer in answers if "error" in answer]
    assert len(refused) == len([line for line in noise if line.strip()])


# Options and caller context of a bridge.


async def offered(client: Bridge) -> set[str]:
    """The namespaces of the tools that are listed."""
    answer = await client.ask(request(50, "tools/list"))
    return {tool["name"].partition(".")[0] for tool in answer["result"]["tools"]}


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [(("--mcp-tools", "echo,health"), {}), ((), {"HUBD_MCP_TOOLS": "echo,health"})],
    ids=["by option", "by variable"],
)
async def test_a_client_can_be_limited_to_some_namespaces(
    daemon: Daemon, arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    async with bridge(daemon.home, *arguments, env=environment(**variables)) as client:
        await client.greet()
        assert await offered(client) == {"echo", "health"}
        called = await client.ask(tool_call(1, "echo.once", message="hello"))
        assert event_of(called)["message"] == "hello"
        refused = await client.ask(tool_call(2, "arbor.tree_create"))
        assert refused["error"]["code"] == -32602


@pytest.mark.parametrize("variables", [{}, {"HUBD_MCP_TOOLS": "echo"}], ids=["alone", "variable"])
async def test_an_empty_option_offers_no_namespace(
    daemon: Daemon, variables: dict[str, str]
) -> None:
    async with bridge(daemon.home, "--mcp-tools", "", env=environment(**variables)) as client:
        await client.greet()
        assert await offered(client) == set()


async def test_an_empty_option_of_the_daemon_offers_no_namespace(
    home: Path,
) -> None:
    with McpDaemon(home, "--mcp-tools", ""):
        async with bridge(home) as client:
            await client.greet()
            assert await offered(client) == set()


async def test_an_empty_variable_limits_nothing(daemon: Daemon) -> None:
    async with bridge(daemon.home, env=environment(HUBD_MCP_TOOLS="")) as client:
        await client.greet()
        assert {"echo", "arbor"} <= await offered(client)


async def test_options_of_a_client_do_not_affect_the_daemon_that_it_starts(
    new_home: Path,
) -> None:
    mine = environment(HUBD_MCP_TOOLS="echo", HUBD_SESSION_TOKEN="for-one-session")
    async with bridge(new_home, env=mine) as client:
        # The token is of no use, but the daemon is started.
        assert "not registered" in str(await client.ask(request(1, "tools/list")))
    mine = environment(HUBD_MCP_TOOLS="echo")
    async with bridge(new_home, env=mine) as client:
        await client.greet()
        assert await offered(client) == {"echo"}
    [pid] = daemons_of(new_home)
    assert b"for-one-session" not in Path(f"/proc/{pid}/environ").read_bytes()
    async with bridge(new_home) as client:
        await client.greet()
        assert {"echo", "arbor"} <= await offered(client)


async def test_a_method_gets_the_directory_of_the_client_and_the_log_does_not(
    daemon: Daemon, tmp_path: Path
) -> None:
    cwd = tmp_path / "a place nobody logs"
    cwd.mkdir()
    mine = environment(GREETING="a-secret-greeting", HUBD_SESSION_TOKEN="a-secret-token")
    events_of(daemon.home, "porter.register", token="a-secret-token")
    async with bridge(daemon.home, env=mine, cwd=cwd) as client:
        await client.greet()
        caller = event_of(await client.ask(tool_call(1, "porter.describe")))
        # And what goes wrong is logged.
        await client.ask(tool_call(2, "trouble.raises"))
        await client.send(b"garbage\n")
        await client.receive()
    del caller["type"]
    assert caller == {
        "cwd": str(cwd),
        "greeting": "a-secret-greeting",
        "token_in_env": False,
        "transport": "mcp-stdio",
        "name": "by hand",
        "session_token": "a-secret-token",
    }
    log = Path(daemon.paths.log).read_text()
    assert "a plugin's own mistake" in log
    assert "secret" not in log
    assert "nobody logs" not in log


async def test_a_call_works_in_a_removed_directory_and_with_a_strange_environment(
    daemon: Daemon, tmp_path: Path
) -> None:
    cwd = tmp_path / "gone"
    cwd.mkdir()
    # The shell removes the directory it stands in before it becomes the bridge.
    command = ("/bin/sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *HUBD, "--home")
    strange = {os.fsencode(name): os.fsencode(text) for name, text in environment().items()}
    strange[b"GREETING"] = b"gr\xfc\xdf"
    async with bridge(
        daemon.home, command=(*command, str(daemon.home), "mcp"), env=strange, cwd=cwd
    ) as client:
        await client.greet()
        caller = event_of(await client.ask(tool_call(1, "porter.describe")))
        assert caller["cwd"] is None
        assert caller["greeting"] == "grüß"
        failed = await client.ask(tool_call(3, "porter.complain"))
        assert failed["result"]["isError"] is True
        assert (await client.ask(request(2, "ping")))["result"] == {}


@pytest.mark.parametrize("command", ["run", "logs"])
def test_stdio_is_an_alias_and_not_an_option_of_commands(home: Path, command: str) -> None:
    result = hubd(command, "--stdio", home=home)
    assert result.returncode == 2
    assert "unrecognized arguments: --stdio" in result.stderr
