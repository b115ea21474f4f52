"""A daemon that cannot start prints one sentence and exits with the status of its error."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import pytest

from hubd.daemon.token_file import TOKEN_BYTES
from hubd.storage.tables import HUB_MIGRATIONS
from hubd.wire.paths import WS_PORT
from tests.support import Daemon, environment, events_of, hubd

USAGE, UNAVAILABLE, CONFLICT, NEWER = 2, 5, 7, 9

Result = subprocess.CompletedProcess[str]
Prepare = Callable[[Path], object]


def complaint(result: Result, status: int) -> str:
    """Return the one sentence that a failed command has printed."""
    assert result.returncode == status, result.stderr
    assert result.stdout == ""
    sentence, *suggestion = result.stderr.splitlines()
    assert sentence.startswith("hubd: "), result.stderr
    assert len(suggestion) <= 1, result.stderr
    assert all(line.startswith("      ") and line.strip() for line in suggestion), result.stderr
    return sentence.removeprefix("hubd: ")


def on_full_disk(size: int, *arguments: str) -> Result:
    """Run hubd where no file can grow beyond `size` bytes."""
    code = (
        "import resource, sys; from hubd.cli import main; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env=environment(),
        check=False,
    )


def files(home: Path) -> dict[str, tuple[bytes, int]]:
    """Return the contents and modes of the database and its log."""
    return {
        file.name: (file.read_bytes(), file.stat().st_mode)
        for file in home.glob("hub.db*")
        if file.is_file() and not file.name.endswith("-shm") and file.stat().st_size
    }


async def answers(daemon: Daemon) -> bool:
    async with daemon.client() as client:
        items = await client.call("echo.once", {"message": "hi"})
    return [item["type"] for item in items] == ["data", "done"]


# Files in the way


def once_run(home: Path) -> None:
    with Daemon(home):
        pass


def directory_at(name: str) -> Prepare:
    return lambda home: (home / name / "not empty").mkdir(parents=True)


def bytes_at(name: str, content: bytes) -> Prepare:
    def prepare(home: Path) -> None:
        home.mkdir()
        (home / name).write_bytes(content)

    return prepare


def sql(text: str) -> Prepare:
    def prepare(home: Path) -> None:
        once_run(home)
        with closing(sqlite3.connect(home / "hub.db", isolation_level=None)) as connection:
            connection.executescript(text)

    return prepare


def damaged(home: Path) -> None:
    once_run(home)
    database = home / "hub.db"
    database.write_bytes(database.read_bytes()[:100] + b"\xff" * 8000)


def emptied(home: Path) -> None:
    once_run(home)
    os.truncate(home / "hub.db", 0)


def emptied_beside_its_log(home: Path) -> None:
    with Daemon(home) as daemon:
        events_of(home, "arbor.tree_create", owner_id="a test")
        daemon.kill()
    (home / "hub.db.created").unlink()
    os.truncate(home / "hub.db", 0)


def file_in_its_place(home: Path) -> None:
    home.write_text("a file")


newer = sql(f"INSERT INTO hub_migrations VALUES ('hub', {len(HUB_MIGRATIONS) + 1}, 'f00', 0)")

IN_THE_WAY: dict[str, tuple[Prepare, int, str]] = {
    "the token is a directory": (directory_at("token"), UNAVAILABLE, "token"),
    "the token is empty": (bytes_at("token", b""), UNAVAILABLE, "does not contain a token"),
    "the token is binary": (bytes_at("token", b"\xff" * 64), UNAVAILABLE, "token"),
    "the lock is a directory": (directory_at("hubd.lock"), UNAVAILABLE, "hubd.lock"),
    "the log is a directory": (directory_at("hubd.log"), UNAVAILABLE, "hubd.log"),
    "the socket is a directory": (directory_at("hub.sock"), UNAVAILABLE, "hub.sock"),
    "the record is a directory": (directory_at("hubd.json"), UNAVAILABLE, "hubd.json"),
    "the database is a directory": (directory_at("hub.db"), UNAVAILABLE, "hub.db"),
    "the database is a text": (bytes_at("hub.db", b"text" * 999), UNAVAILABLE, "not a database"),
    "the database is damaged": (damaged, UNAVAILABLE, "damaged"),
    "the database is another's": (
        sql("PRAGMA application_id = 7"),
        UNAVAILABLE,
        "database of another program",
    ),
    "the database is newer": (newer, NEWER, "newer version"),
    "the database is empty": (emptied, UNAVAILABLE, "is empty, but it had content before"),
    "the database is empty beside its log": (
        emptied_beside_its_log,
        UNAVAILABLE,
        "hub.db-wal beside it has changes",
    ),
    "the configuration has no sections": (
        bytes_at("config.toml", b"cone = 3"),
        USAGE,
        "config.toml: 'cone' is not a section",
    ),
    "the configuration is nested too deeply": (
        bytes_at("config.toml", b"a = " + b"[" * 50_000 + b"]" * 50_000),
        USAGE,
        "nested too deeply",
    ),
    "the home is a file": (file_in_its_place, UNAVAILABLE, "home"),
}


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_a_file_in_the_way_is_named_in_one_sentence_and_not_changed(home: Path, case: str) -> None:
    prepare, status, expected = IN_THE_WAY[case]
    prepare(home)
    before = files(home)
    assert expected in complaint(hubd("run", "--port", "0", home=home), status)
    assert before.items() <= files(home).items()


@pytest.mark.parametrize(
    "case", ["the database is newer", "the token is empty", "the home is a file"]
)
def test_start_reports_the_daemons_error(home: Path, case: str) -> None:
    prepare, status, expected = IN_THE_WAY[case]
    prepare(home)
    try:
        assert expected in complaint(hubd("start", "--port", "0", home=home), status)
    finally:
        hubd("stop", "--force", home=home)


def test_a_home_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = hubd("run", "--port", "0", home=tmp_path / "file" / "home")
    assert "file" in complaint(result, UNAVAILABLE)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_home_of_another_user_is_refused(home: Path) -> None:
    home.mkdir()
    os.chown(home, 12345, -1)
    result = hubd("run", "--port", "0", home=home)
    assert "belongs to another user" in complaint(result, UNAVAILABLE)
    assert list(home.iterdir()) == []


@pytest.mark.skipif(os.getuid() == 0, reason="root can write everywhere")
def test_a_home_that_cannot_be_written_is_refused(home: Path) -> None:
    home.mkdir(0o500)
    assert str(home) in complaint(hubd("run", "--port", "0", home=home), UNAVAILABLE)


# Full disks


@pytest.mark.parametrize(
    ("before", "size"),
    [
        ("blank", 0),
        ("blank", 20_000),
        ("killed", 0),
        *(pytest.param("blank", size, marks=pytest.mark.soak) for size in (10, 20, 1000)),
        pytest.param("stopped", 0, marks=pytest.mark.soak),
    ],
)
async def test_a_full_disk_is_reported_and_the_home_works_with_space_again(
    home: Path, before: str, size: int
) -> None:
    if before != "blank":
        with Daemon(home) as daemon:
            if before == "killed":
                daemon.kill()
    complaint(on_full_disk(size, "run", "--port", "0", "--home", str(home)), UNAVAILABLE)
    with Daemon(home) as daemon:
        assert await answers(daemon)
        assert len(daemon.token) == len(token_urlsafe(TOKEN_BYTES))
    assert hubd("check", home=home).returncode == 0
    existing = {"hub.db", "hub.db-shm", "hub.db-wal", "hubd.lock", "hubd.log", "token"}
    existing |= {"schemas.json", "hub.db.created"}
    assert {file.name for file in home.iterdir()} <= existing


def test_start_on_a_full_disk_names_the_home(home: Path) -> None:
    try:
        result = on_full_disk(0, "start", "--port", "0", "--home", str(home))
        assert str(home) in complaint(result, UNAVAILABLE)
    finally:
        hubd("stop", "--force", home=home)


# Homes and ports in use


async def test_a_second_daemon_on_the_same_home_leaves_the_first_alone(daemon: Daemon) -> None:
    record = daemon.record
    sentence = complaint(hubd("run", "--port", "0", home=daemon.home), CONFLICT)
    assert "already running" in sentence
    assert str(record["pid"]) in sentence
    assert daemon.record == record
    assert await answers(daemon)
    result = hubd("start", home=daemon.home)
    assert (result.returncode, result.stderr.count("\n")) == (0, 1)
    assert "already running" in result.stderr


async def test_files_of_a_killed_daemon_are_replaced(daemon: Daemon) -> None:
    daemon.kill()
    assert Path(daemon.paths.socket).is_socket()
    assert hubd("status", home=daemon.home).returncode == 3
    daemon.start()
    assert await answers(daemon)
    assert hubd("status", home=daemon.home).returncode == 0
    assert daemon.stop() == 0
    assert not Path(daemon.paths.socket).exists()


@pytest.mark.parametrize(
    ("command", "by", "name"),
    [("run", "option", "port"), ("run", "variable", "mcp-port"), ("start", "option", "mcp-port")],
)
def test_an_explicit_port_that_is_taken_is_an_error(
    home: Path, command: str, by: str, name: str
) -> None:
    ports = {"HUBD_PORT": "0", "HUBD_MCP_PORT": "0"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        if by == "option":
            result = hubd(command, f"--{name}", port, home=home, **ports)
        else:
            ports[f"HUBD_{name.replace('-', '_').upper()}"] = port
            result = hubd(command, home=home, **ports)
    try:
        assert f"port {port} cannot be used" in complaint(result, UNAVAILABLE)
    finally:
        hubd("stop", "--force", home=home)


async def test_a_default_port_in_use_is_replaced_and_logged(home: Path) -> None:
    with socket.socket() as taken:
        with suppress(OSError):  # another process has it already
            taken.bind(("127.0.0.1", WS_PORT))
            taken.listen()
        try:
            result = hubd("start", home=home)
            assert result.returncode == 0, result.stderr
            assert await answers(Daemon(home))
            status: dict[str, Any] = json.loads(hubd("status", "--json", home=home).stdout)
        finally:
            hubd("stop", "--force", home=home)
    port = int(status["ws_url"].rpartition(":")[2])
    assert port != WS_PORT
    lines = map(json.loads, (home / "hubd.log").read_text().splitlines())
    warnings = [line["message"] for line in lines if line["level"] == "warning"]
    assert warnings == [f"port {WS_PORT} is in use; using {port} instead"]


@pytest.mark.parametrize("name", ["echo", "self", "two words"])
def test_a_reserved_name_of_the_hub_is_refused(home: Path, name: str) -> None:
    result = hubd("run", "--port", "0", "--name", name, home=home)
    assert result.returncode == 2
    assert result.stderr.startswith("hubd: ")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", ["echo", "arbor", "claudecode"])
def test_a_hub_cannot_be_called_like_one_of_its_plugins(home: Path, name: str) -> None:
    result = hubd("run", "--port", "0", "--name", name, home=home)
    assert result.returncode == 2
    assert f"'{name}' is the name of a plugin" in result.stderr
