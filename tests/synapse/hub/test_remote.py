"""Remote hubs: by address or by name, with a token that `ps` does not show."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from websockets.sync.server import ServerConnection, serve

from synapse.hub.cache import cache_path
from tests.support import Daemon
from tests.synapse.support import (
    SYNAPSE,
    Result,
    at_terminal,
    clean_environment,
    refusal,
    synapse,
)


@pytest.fixture(scope="module")
def daemon(cli_daemon: Daemon) -> Daemon:
    return cli_daemon


@pytest.fixture
def away(tmp_path: Path) -> Path:
    """A home without a local hub."""
    home = tmp_path / "away"
    home.mkdir(mode=0o700)
    return home


def remote(daemon: Daemon, away: Path, *words: str, **env: str) -> Result:
    """Run a command on the remote hub, with its token in a file."""
    url, file = daemon.record["ws_url"], daemon.paths.token
    return synapse("--hub", url, "--token-file", file, *words, home=away, **env)


# -- the token ---------------------------------------------------------------------------------


def test_the_token_comes_from_a_file_a_variable_or_an_option(daemon: Daemon, away: Path) -> None:
    url, token = daemon.record["ws_url"], daemon.token
    file = ("--token-file", daemon.paths.token)
    for options, env in (
        (("--hub", url, *file), {}),
        (("--hub", url), {"SYNAPSE_TOKEN": token}),
        (("--hub", url, "--token", token), {}),
        (file, {"SYNAPSE_HUB": url}),
        # The command line wins.
        (("--hub", url, *file), {"SYNAPSE_TOKEN": "wrong", "SYNAPSE_HUB": "ws://127.0.0.1:1"}),
        (("--hub", url, "--token", token), {"SYNAPSE_TOKEN": "wrong"}),
    ):
        result = synapse(*options, "echo", "once", "--message", "é", home=away, **env)
        assert (result.returncode, result.stderr) == (0, ""), options
        assert json.loads(result.stdout)["message"] == "é"


@pytest.mark.parametrize("options", [(), ("--token", "wrong")])
def test_a_token_that_is_wrong_or_missing_is_refused(
    daemon: Daemon, away: Path, options: tuple[str, ...]
) -> None:
    url = daemon.record["ws_url"]
    for words in ("echo ping", "self status", "self schema"):
        result = synapse("--hub", url, *options, *words.split(), home=away)
        message = refusal(result, 4)
        assert message.startswith(f"{url} refused the connection (401)")
        assert "--token-file" in result.stderr
        assert "wrong" not in result.stderr


def test_a_token_file_that_cannot_be_read_is_a_usage_error(away: Path) -> None:
    (away / "binary").write_bytes(b"\xff\xfe")
    (away / "lines").write_text("one\ntwo\n")
    for name, message in (
        ("none", "the token file {} cannot be read: No such file or directory"),
        ("binary", "the token file {} cannot be read: not UTF-8 text"),
        ("lines", "the token must be one line of plain characters"),
    ):
        options = ("--hub", "ws://127.0.0.1:1", "--token-file", str(away / name))
        result = synapse(*options, "echo", "ping", home=away)
        assert refusal(result, 2) == message.format(away / name)


def test_the_token_is_never_in_argv_by_default(daemon: Daemon, away: Path) -> None:
    command = [*SYNAPSE, "--hub", daemon.record["ws_url"], "--token-file", daemon.paths.token]
    process = subprocess.Popen(
        [*command, "cli", "slow", "--key", "argv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean_environment(away),
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        shown = [
            path.read_bytes()
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if path.parent.name in (str(process.pid), str(daemon.record["pid"]))
        ]
        process.terminate()
    assert len(shown) == 2
    assert all(daemon.token.encode() not in line for line in shown)


def test_a_token_in_the_address_is_not_in_the_name_of_the_cache(daemon: Daemon, away: Path) -> None:
    url = f"{daemon.record['ws_url']}/?token=se-cr-et"
    synapse("--hub", url, "--token-file", daemon.paths.token, "echo", "ping", home=away)
    assert [path for path in away.rglob("*") if "se-cr-et" in path.name] == []


# -- no hub, or another server -----------------------------------------------------------------


def test_no_hub_at_the_address_is_5(away: Path) -> None:
    result = synapse("--hub", "ws://127.0.0.1:1", "echo", "ping", home=away)
    assert refusal(result, 5).startswith("no hub answers at ws://127.0.0.1:1")
    status = synapse("--hub", "ws://127.0.0.1:1", "self", "status", "--json", home=away)
    assert (status.returncode, json.loads(status.stdout)["running"]) == (5, False)
    doctor = synapse("--hub", "ws://127.0.0.1:1", "self", "doctor", home=away)
    assert doctor.returncode == 1
    assert "FAIL daemon: no answer at ws://127.0.0.1:1" in doctor.stdout


@pytest.mark.parametrize("url", ["ws://", "ws://host:port", "http://127.0.0.1", "wss://[::1"])
def test_an_invalid_address_is_a_usage_error(away: Path, url: str) -> None:
    assert "address" in refusal(synapse("--hub", url, "echo", "ping", home=away), 2)


class _NotFound(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Nothing is said."""


@contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"ws://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_that_is_not_a_hub_is_5(away: Path) -> None:
    with serving(HTTPServer(("127.0.0.1", 0), _NotFound)) as url:
        result = synapse("--hub", url, "echo", "ping", home=away)
    assert refusal(result, 5) == f"{url} is not a hub (HTTP 404)"


@pytest.mark.parametrize("answer", ["no JSON", "[]", '{"id":0,"result":1}\n{}', None])
def test_a_websocket_that_is_not_a_hub_is_recognised(away: Path, answer: str | None) -> None:
    def speak(connection: ServerConnection) -> None:
        connection.recv()
        if answer is not None:
            connection.send(answer)

    with serve(speak, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.socket.getsockname()[1]
        result = synapse("--hub", f"ws://127.0.0.1:{port}", "echo", "ping", home=away)
        server.shutdown()
        thread.join()
    assert refusal(result, 5 if answer is None else 1)


# -- names -------------------------------------------------------------------------------------


def test_a_hub_can_have_a_name(daemon: Daemon, away: Path) -> None:
    url, file = daemon.record["ws_url"], daemon.paths.token
    (away / "config.toml").write_text(f'[hubs.work]\nurl = "{url}"\ntoken_file = "{file}"\n')
    for options, env in ((("--hub", "work"), {}), ((), {"SYNAPSE_HUB": "work"})):
        result = synapse(*options, "echo", "ping", home=away, **env)
        assert json.loads(result.stdout)["message"] == "pong"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b"", "no hub 'work' in "),
        (b'[hubs.wrok]\nurl = "ws://x"\n', "no hub 'work' in "),
        (b"this is [not toml", "config.toml cannot be read: "),
        (b"\xff\xfe", "config.toml cannot be read: "),
        (b'hubs = "a text"\n', "no hub 'work' in "),
        (b'[hubs]\nwork = "ws://127.0.0.1"\n', "must have a url"),
        (b"[hubs.work]\nurl = 5\n", "must have a url"),
        (b'[hubs.work]\nname = "x"\n', "must have a url"),
        (b'[hubs.work]\nurl = "http://127.0.0.1"\n', "must begin with ws:// or wss://"),
    ],
)
def test_a_bad_configuration_is_a_usage_error(away: Path, config: bytes, message: str) -> None:
    (away / "config.toml").write_bytes(config)
    result = synapse("--hub", "work", "echo", "ping", home=away)
    assert message in refusal(result, 2)
    if b"wrok" in config:
        assert "Did you mean wrok?" in result.stderr


# -- calls -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output", ["", "-o json", "-o ndjson", "-o raw", "-o table", "--items", "--fields message"]
)
def test_every_output_is_the_same_as_for_the_local_hub(
    daemon: Daemon, away: Path, output: str
) -> None:
    words = ("echo", "echo", "--message", "x", "--count", "2", *output.split())
    here = synapse(*words, home=daemon.home)
    there = remote(daemon, away, *words)
    assert there.returncode == here.returncode == 0

    def timeless(result: Result) -> list[str]:
        return [line.partition('"timestamp"')[0] for line in result.stdout.splitlines()]

    assert timeless(there) == timeless(here) != []


def test_failures_questions_timeouts_and_terminals_work_remotely(
    daemon: Daemon, away: Path
) -> None:
    assert refusal(remote(daemon, away, "cli", "fail", "--code", "conflict"), 7) == "it failed"
    asked = remote(daemon, away, "cli", "ask", "--kind", "confirm", "--yes")
    assert json.loads(asked.stdout)["text"] == "True"
    late = remote(daemon, away, "cli", "slow", "--key", "remote", "--timeout", "0.2")
    assert late.returncode == 6
    options = ("--hub", daemon.record["ws_url"], "--token-file", daemon.paths.token)
    status, text = at_terminal(*options, "cli", "words", home=away)
    assert (status, text) == (0, "plain words\n")


def test_a_remote_hub_does_not_get_the_environment(daemon: Daemon, away: Path) -> None:
    result = remote(daemon, away, "cli", "where", GREETING="private")
    assert json.loads(result.stdout)["greeting"] is None


def test_the_cache_of_a_remote_hub_is_its_own_and_serves_its_help(
    daemon: Daemon, away: Path
) -> None:
    assert remote(daemon, away, "echo", "ping").returncode == 0
    url = daemon.record["ws_url"]
    [file] = (away / "cache").iterdir()
    assert str(file) == cache_path(str(away / "cache"), url) != cache_path(str(away / "cache"))
    # Help needs neither the token nor the hub.
    shown = synapse("--hub", url, "cli", "say", "--help", home=away)
    assert shown.stdout.startswith("cli.say - ")
    assert not (away / "hub.sock").exists()


def test_self_commands_use_the_selected_hub(daemon: Daemon, away: Path) -> None:
    fields = json.loads(remote(daemon, away, "self", "status", "--json").stdout)
    assert (fields["running"], fields["hub"]) == (True, daemon.record["ws_url"])
    findings = json.loads(remote(daemon, away, "self", "doctor", "--json").stdout)
    assert "socket" not in {entry["what"] for entry in findings}
