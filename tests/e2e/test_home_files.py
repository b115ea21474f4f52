"""The daemon's own files: removed, replaced, emptied, linked, left over, or read-only."""

import json
import os
import resource
import select
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic

import pytest

from tests.support import HUBD, PATIENCE_SECONDS, Daemon, environment, events_of, hubd

TROUBLE = ("--plugin", "tests.sample_plugins.trouble:Trouble")
UNAVAILABLE, CONFLICT = 5, 7
LOST = "was removed or replaced while the daemon was writing to it"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that survives its tests."""
    with Daemon(tmp_path_factory.mktemp("hub") / "home", *TROUBLE) as running:
        yield running


def wait_for_log(daemon: Daemon, *texts: str) -> None:
    """Return when the log has a line with each of the texts."""
    command = [*HUBD, "--home", str(daemon.home), "logs", "-f", "-n", "1000"]
    output = b""
    # Unbuffered: what `select` waits for must not be in a buffer already.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment(), bufsize=0
    ) as follower:
        try:
            assert follower.stdout is not None
            while any(text.encode() not in output for text in texts):
                assert select.select([follower.stdout], [], [], PATIENCE_SECONDS)[0], output
                output += follower.stdout.read(65536)
        finally:
            follower.kill()


def write(home: Path, text: str) -> int:
    """Store a row; returns its number."""
    [event] = events_of(home, "trouble.write", text=text)
    return int(event["n"])


def end_of(daemon: Daemon) -> int:
    """Wait for a daemon that ends by itself and return its exit status."""
    assert daemon.process is not None
    return daemon.process.wait(PATIENCE_SECONDS)


def test_removed_sockets_and_a_removed_record_are_created_again(shared: Daemon) -> None:
    record = shared.record
    (shared.home / "hub.sock").unlink()
    (shared.home / "hub.mcp").unlink()
    (shared.home / "hub.mcp").write_text("something else")
    (shared.home / "hubd.json").write_text('{"pid": ')
    wait_for_log(
        shared,
        *(f"{shared.home / name} was removed" for name in ("hub.sock", "hub.mcp", "hubd.json")),
    )
    assert shared.record == record
    assert events_of(shared.home, "echo.ping")
    assert (shared.home / "hub.mcp").is_socket()
    assert stat.S_IMODE((shared.home / "hub.sock").stat().st_mode) == 0o600
    state = json.loads(hubd("status", "--json", home=shared.home).stdout)
    assert (state["running"], state["pid"]) == (True, record["pid"])


def test_a_start_waits_for_the_socket_of_the_daemon_that_runs(shared: Daemon) -> None:
    (shared.home / "hub.sock").unlink()
    result = hubd("start", home=shared.home)
    assert (result.returncode, "already running" in result.stderr) == (0, True), result.stderr


def test_a_home_without_its_lock_file_still_belongs_to_its_daemon(shared: Daemon) -> None:
    (shared.home / "hubd.lock").unlink()
    result = hubd("run", "--port", "0", home=shared.home)
    assert result.returncode == CONFLICT
    assert f"already running on {shared.home} (pid {shared.record['pid']})" in result.stderr
    assert hubd("status", home=shared.home).returncode == 0


def test_stop_finds_a_daemon_that_has_neither_record_nor_socket_nor_lock_file(home: Path) -> None:
    with Daemon(home) as daemon:
        for name in ("hubd.json", "hub.sock", "hubd.lock"):
            (home / name).unlink()
            # A directory in its place: the daemon can't make the file again.
            (home / name / "in the way").mkdir(parents=True)
        stopped = hubd("stop", home=home)
        assert (stopped.returncode, stopped.stderr) == (0, "hubd: stopped\n")
        assert end_of(daemon) == 0


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_daemon_stops_when_its_database_is_removed_or_replaced(home: Path, how: str) -> None:
    with Daemon(home, *TROUBLE) as daemon:
        write(home, "kept")
        database = home / "hub.db"
        database.rename(home / "elsewhere.db")
        if how == "replaced":
            database.write_bytes(b"")
        assert events_of(home, "trouble.write", text="lost") == []
        assert end_of(daemon) == UNAVAILABLE
        assert f"{database} {LOST}; the daemon stops" in hubd("logs", home=home).stdout
        # Its log would damage a database that is restored to this path.
        assert not (home / "hub.db-wal").exists()
        assert not (home / "hub.sock").exists()


def test_a_daemon_whose_write_ahead_log_is_removed_stops_and_loses_nothing(home: Path) -> None:
    with Daemon(home, *TROUBLE) as daemon:
        before = write(home, "before")
        (home / "hub.db-wal").unlink()
        after = write(home, "after")
        assert end_of(daemon) == UNAVAILABLE
        daemon.start()
        assert [event["n"] for event in events_of(home, "trouble.read")] == [before, after]


def test_links_are_followed_but_the_modes_of_their_targets_are_not_changed(
    home: Path, tmp_path: Path
) -> None:
    home.mkdir(mode=0o700)
    targets = {name: tmp_path / f"the {name}" for name in ("token", "hub.db", "hubd.log")}
    for name, target in targets.items():
        target.write_text("a-token-others-can-read" if name == "token" else "")
        target.chmod(0o644)
        (home / name).symlink_to(target)
    with Daemon(home) as daemon:
        assert daemon.token == "a-token-others-can-read"
    assert {stat.S_IMODE(target.stat().st_mode) for target in targets.values()} == {0o644}


def test_temporary_files_of_killed_processes_are_removed_at_the_next_start(home: Path) -> None:
    home.mkdir(mode=0o700)
    leftovers = ["schemas.4711", "hubd.json.4711", "token.4711", "copy.db.0123456789abcdef"]
    others = ["schemas.old", "notes.txt", "copy.db"]
    for name in (*leftovers, *others):
        (home / name).touch()
    with Daemon(home):
        left = {file.name for file in home.iterdir()}
    assert left.isdisjoint(leftovers)
    assert left >= set(others)


# A process without capabilities, to which the mode of a directory applies even if it is root's.
WITHOUT_CAPABILITIES = """
import ctypes, sys
header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(header, none) == 0
from hubd.cli import main
sys.exit(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="gives capabilities up")
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_check_and_backup_work_on_a_home_that_cannot_be_written(
    home: Path, tmp_path: Path, end: str
) -> None:
    with Daemon(home, *TROUBLE) as daemon:
        write(home, "kept")
        if end == "killed":
            # Everything is in the write-ahead log.
            daemon.kill()
    (home / "hub.db-shm").unlink(missing_ok=True)
    home.chmod(0o500)
    copy = tmp_path / "copy.db"
    try:
        for command in (["check"], ["backup", str(copy)]):
            result = subprocess.run(
                [sys.executable, "-c", WITHOUT_CAPABILITIES, "--home", str(home), *command],
                env=environment(),
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
            assert result.returncode == 0, result.stdout + result.stderr
    finally:
        home.chmod(0o700)
    with closing(sqlite3.connect(copy)) as database:
        assert database.execute("SELECT text FROM trouble_log").fetchall() == [("kept",)]


def test_check_and_backup_that_take_long_print_their_progress(home: Path, tmp_path: Path) -> None:
    with Daemon(home):
        pass
    with closing(sqlite3.connect(home / "hub.db", isolation_level=None)) as other:
        # Others have to wait until this connection is closed.
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("PRAGMA user_version = 0")
        commands = {"check": (), "backup": (str(tmp_path / "copy.db"),)}
        running = {
            name: subprocess.Popen(
                [*HUBD, "--home", str(home), name, *arguments],
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name, arguments in commands.items()
        }
        for name, process in running.items():
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line == f"hubd: {name}: opening the database (1 s)\n"
    for process in running.values():
        process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits another process")
def test_at_the_limit_of_open_files_the_log_gets_one_line_and_later_clients_are_served(
    home: Path,
) -> None:
    with Daemon(home) as daemon:
        pid = daemon.record["pid"]
        # The search index opens its files in the background.
        events_of(home, "plexus.search", query="ping")
        in_use = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 -- only their number
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use + 5, 4096))
        clients = []
        for _ in range(40):
            client = socket.socket(socket.AF_UNIX)
            client.connect(daemon.paths.socket)
            clients.append(client)
        wait_for_log(daemon, "new connections wait")
        for client in clients:
            client.close()
        # Finding out who calls needs free descriptors too, and the daemon closes those one by one.
        deadline = monotonic() + PATIENCE_SECONDS
        while not events_of(home, "echo.ping"):
            assert monotonic() < deadline
        log = Path(daemon.paths.log).read_text()
        assert log.count("new connections wait") == 1
        assert "Traceback" not in log
