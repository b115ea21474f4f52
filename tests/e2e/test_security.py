"""Authentication over real TCP, modes of files, and secrets that are never logged."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import PATIENCE_SECONDS, Daemon, environment, events_of

PAGE = "http://localhost:3000"
PROC = Path("/proc")
needs_proc = pytest.mark.skipif(not PROC.joinpath("net/tcp").exists(), reason="reads /proc")
LISTENING = "0A"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("locked") / "home"
    options = ("--allow-origin", PAGE, "--plugin", "tests.sample_plugins.trouble:Trouble")
    running = Daemon(home, *options, "--log-level", "debug")
    # So files are private only if the daemon makes them so.
    before = os.umask(0)
    try:
        running.start()
    finally:
        os.umask(before)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def unlocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("open") / "home", "--no-auth") as running:
        yield running


def port(daemon: Daemon) -> int:
    return int(daemon.record["ws_url"].rpartition(":")[2])


def handshake_status(
    daemon: Daemon, *headers: str, path: str = "/", host: str | None = None
) -> int:
    """The HTTP status of a WebSocket handshake with these headers."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host or f'127.0.0.1:{port(daemon)}'}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        *headers,
        "\r\n",
    ]
    with socket.create_connection(("127.0.0.1", port(daemon)), PATIENCE_SECONDS) as connection:
        connection.sendall("\r\n".join(lines).encode())
        with connection.makefile("rb") as answer:
            version, status, *_ = answer.readline().decode().split()
            rest = answer.readline() if status == "101" else answer.read()
    assert version == "HTTP/1.1"
    assert (status == "401") == (b"WWW-Authenticate: Bearer" in rest)
    assert b"Access-Control" not in rest
    return int(status)


@pytest.mark.parametrize(
    ("headers", "path", "host", "status"),
    [
        pytest.param(["Authorization: Bearer {token}"], "/", None, 101, id="the token"),
        pytest.param(["Authorization: Bearer {token}"], "/", "localhost", 101, id="localhost"),
        pytest.param([], "/", None, 401, id="no token"),
        pytest.param(["Authorization: Bearer {token}x"], "/", None, 401, id="wrong token"),
        pytest.param(["Authorization: Basic {token}"], "/", None, 401, id="wrong scheme"),
        pytest.param(
            ["Authorization: Bearer {token}", "Origin: http://evil.example"],
            *("/", None, 403),
            id="foreign origin",
        ),
        pytest.param(
            ["Authorization: Bearer {token}"], "/", "evil.example", 403, id="foreign host"
        ),
        pytest.param(
            ["Authorization: Bearer {token}", "Host: localhost"], "/", None, 403, id="two hosts"
        ),
        pytest.param([f"Origin: {PAGE}"], "/?token={token}", None, 101, id="query from a page"),
        pytest.param([f"Origin: {PAGE}"], "/?token=x", None, 401, id="wrong query"),
        pytest.param([f"Origin: {PAGE}"], "/", None, 401, id="page without a token"),
        pytest.param([], "/?token={token}", None, 401, id="query without origin"),
        pytest.param(
            ["Origin: http://evil.example"], "/?token={token}", None, 403, id="query from elsewhere"
        ),
        pytest.param(["Authorization: Bearer \u00e9"], "/", None, 401, id="not ASCII"),
    ],
)
def test_over_tcp_token_host_and_origin_must_all_be_right(
    daemon: Daemon, headers: list[str], path: str, host: str | None, status: int
) -> None:
    filled = [header.format(token=daemon.token) for header in headers]
    assert (
        handshake_status(daemon, *filled, path=path.format(token=daemon.token), host=host) == status
    )


def test_without_authentication_host_and_origin_still_count_and_the_log_warns(
    unlocked: Daemon,
) -> None:
    assert handshake_status(unlocked) == 101
    assert handshake_status(unlocked, "Authorization: Bearer whatever") == 101
    assert handshake_status(unlocked, host="evil.example") == 403
    assert handshake_status(unlocked, "Origin: http://evil.example") == 403
    warnings = [line for line in log(unlocked).splitlines() if '"level": "warning"' in line]
    assert any("--no-auth" in line for line in warnings)


def log(daemon: Daemon) -> str:
    return Path(daemon.paths.log).read_text()


def test_every_file_is_private_with_any_umask(daemon: Daemon) -> None:
    events_of(daemon.home, "trouble.write", text="something")
    modes = {path.name: path.stat().st_mode for path in daemon.home.iterdir()}
    assert {"hub.sock", "token", "hub.db", "hub.db-wal", "hubd.log", "hubd.json"} <= modes.keys()
    assert {name: oct(stat.S_IMODE(mode)) for name, mode in modes.items()} == dict.fromkeys(
        modes, "0o600"
    )
    assert stat.S_ISSOCK(modes["hub.sock"])
    assert stat.S_IMODE(daemon.home.stat().st_mode) == 0o700


def test_a_home_and_token_that_others_could_read_are_made_private(home: Path) -> None:
    home.mkdir()
    home.chmod(0o755)
    token = home / "token"
    token.write_text("a-token-from-elsewhere\n")
    token.chmod(0o644)
    with Daemon(home) as running:
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert handshake_status(running, "Authorization: Bearer a-token-from-elsewhere") == 101


def test_the_log_stays_private_when_it_is_rotated(tmp_path: Path) -> None:
    script = (
        "import logging, os, pathlib, sys; from hubd.daemon import log; os.umask(0)\n"
        "log.set_up(pathlib.Path(sys.argv[1]), level='info', to_stderr=False)\n"
        "for _ in range(12): logging.info('x' * 1_000_000)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "hubd.log")]
    subprocess.run(command, check=True, env=environment(), timeout=PATIENCE_SECONDS)
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in tmp_path.iterdir()}
    assert len(modes) > 1
    assert modes == dict.fromkeys(modes, "0o600")


@needs_proc
def test_the_daemon_listens_on_the_loopback_address_only(daemon: Daemon, unlocked: Daemon) -> None:
    for running in (daemon, unlocked):
        process = PROC / str(running.record["pid"])
        links = [path.readlink().name for path in (process / "fd").iterdir()]
        inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
        listening = {
            fields[1]
            for table in ("tcp", "tcp6")
            for fields in map(str.split, (process / "net" / table).read_text().splitlines()[1:])
            if fields[3] == LISTENING and fields[9] in inodes
        }
        loopback = socket.inet_aton("127.0.0.1")[::-1].hex().upper()
        assert f"{loopback}:{port(running):04X}" in listening
        assert {address.partition(":")[0] for address in listening} == {loopback}


@needs_proc
def test_the_token_is_only_in_its_file(daemon: Daemon) -> None:
    token = daemon.token
    assert handshake_status(daemon, f"Authorization: Bearer {token}") == 101
    assert handshake_status(daemon, f"Origin: {PAGE}", path=f"/?token={token}") == 101
    assert handshake_status(daemon, path=f"/?token={token}") == 401
    assert len(token) >= 40
    assert token not in log(daemon)
    assert events_of(daemon.home, "plexus.activations")
    for process in PROC.glob("[0-9]*/cmdline"):
        with suppress(OSError):  # gone meanwhile
            assert token.encode() not in process.read_bytes()
    for file in daemon.home.iterdir():
        assert file.name == "token" or file.is_socket() or token.encode() not in file.read_bytes()


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("trouble.where", {}),
        ("trouble.raises", {}),
        ("trouble.exits", {}),
        ("trouble.write", {"text": "stored"}),
        ("trouble.write", {"wrong": 1}),
        ("trouble.nothing", {}),
        ("nobody.nothing", {}),
    ],
)
async def test_the_callers_environment_is_neither_logged_nor_stored(
    daemon: Daemon, method: str, params: dict[str, object]
) -> None:
    secret = "only-the-caller-knows-this"
    context = {"cwd": "/tmp", "env": {"GREETING": secret, "API_KEY": secret}}
    async with daemon.client() as client:
        await client.send("plexus.call", {"method": method, "params": params, "context": context})
        received = [await client.receive()]
        while received[-1].get("params", {}).get("result", {}).get("type") != "done":
            received.append(await client.receive())
    assert (secret in str(received)) == (method == "trouble.where")
    for file in daemon.home.iterdir():
        assert file.is_socket() or secret.encode() not in file.read_bytes()
