"""Backups are complete, and the check finds damage."""

import asyncio
import os
import resource
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hubd.errors import Conflict, DatabaseUnusable, HubError, NotFound
from hubd.storage import maintenance
from hubd.storage.database import Database, Tx
from hubd.storage.maintenance import backup, check, examine
from hubd.wire.checks import Finding
from tests.support import Daemon, file_size_limit, hubd

# Each transaction adds a row to both: a copy that has one without the other is torn.
TABLES = (
    "CREATE TABLE parents (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT",
    "CREATE TABLE children (parent INTEGER NOT NULL REFERENCES parents) STRICT",
)
FILL = """INSERT INTO parents (body)
    WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000)
    SELECT zeroblob(1000) FROM c"""


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Return a closed database of about 2 MB."""
    path = tmp_path / "hub.db"
    async with Database(path) as db:
        for sql in (*TABLES, FILL, "INSERT INTO children SELECT id FROM parents"):
            await db.execute(sql)
    return path


def rows(path: Path, sql: str) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(sql)]


def files(path: Path) -> dict[str, bytes]:
    """All files beside the database with their bytes, but for what SQLite keeps with it."""
    beside = (file for file in path.parent.iterdir() if not file.name.startswith("hub.db-"))
    return {file.name: file.read_bytes() for file in beside}


def failed(findings: list[Finding]) -> list[str]:
    assert findings
    return [finding.what for finding in findings if not finding.ok]


# Backup


async def test_a_backup_taken_while_writing_is_consistent_and_complete(path: Path) -> None:
    target = path.with_name("copy.db")
    acknowledged = 2000
    done = False

    def append(tx: Tx) -> int:
        number = tx.execute("INSERT INTO parents (body) VALUES (zeroblob(1000))").lastrowid
        assert number is not None
        tx.execute("INSERT INTO children VALUES (?)", number)
        return number

    async def write(db: Database) -> None:
        nonlocal acknowledged
        while not done:
            acknowledged = max(acknowledged, await db.transaction(append))

    async with Database(path) as db, asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(write(db))
        try:
            overlapped = 0
            while overlapped < 3:
                before = acknowledged
                await asyncio.to_thread(backup, path, target, force=True)
                overlapped += acknowledged > before
                parents = rows(target, "SELECT id FROM parents ORDER BY id")
                assert parents == rows(target, "SELECT parent FROM children ORDER BY parent")
                assert parents == list(range(1, len(parents) + 1))
                assert len(parents) >= before
                assert failed(check(target)) == []
        finally:
            done = True


async def test_a_backup_of_a_running_daemon_has_all_acknowledged_writes(home: Path) -> None:
    with Daemon(home, "--plugin", "tests.sample_plugins.trouble:Trouble") as daemon:
        async with daemon.client() as client:
            for text in ("one", "two"):
                items = await client.call("trouble.write", {"text": text})
                assert items[-1]["type"] == "done"
        target = home / "copy.db"
        result = hubd("backup", str(target), home=home)
        assert (result.returncode, result.stdout) == (0, "")
        assert result.stderr.startswith(f"hubd: wrote {target}")
        assert rows(target, "SELECT n FROM trouble_log") == [1, 2]
        assert hubd("check", home=home).returncode == 0


async def test_a_backup_is_one_private_file_that_opens_as_a_database(path: Path) -> None:
    target = path.with_name("copy.db")
    old = os.umask(0)
    try:
        size = backup(path, target).size
    finally:
        os.umask(old)
    assert size == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert list(path.parent.glob("copy*")) == [target]
    async with Database(target) as db:
        assert await db.fetch_one("SELECT count(*) AS n FROM children") == {"n": 2000}


def test_an_existing_target_is_replaced_only_by_force(path: Path) -> None:
    target = path.with_name("copy.db")
    target.write_text("something dear")
    with pytest.raises(Conflict):
        backup(path, target)
    assert target.read_text() == "something dear"
    backup(path, target, force=True)
    assert failed(check(target)) == []
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("through", ["itself", "a symlink", "a hard link"])
def test_a_database_is_never_its_own_backup(path: Path, through: str) -> None:
    target = path if through == "itself" else path.with_name("link.db")
    if through == "a symlink":
        target.symlink_to(path)
    elif through == "a hard link":
        target.hardlink_to(path)
    status = path.stat()
    with pytest.raises(Conflict):
        backup(path, target, force=True)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (status.st_ino, status.st_mtime_ns)


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("reason", ["no source", "no database", "damaged", "disk full", "nowhere"])
def test_a_failed_backup_leaves_everything_as_it_was(
    path: Path, reason: str, existing: bool
) -> None:
    target = path.with_name("copy.db")
    if reason == "no source":
        path.unlink()
    elif reason == "no database":
        path.write_bytes(b"text" * 5000)
    elif reason == "damaged":
        path.write_bytes(path.read_bytes()[:100] + b"\xff" * 50_000)
    elif reason == "nowhere":
        target = path / "copy.db"  # below a file
    if existing and reason != "nowhere":
        target.write_text("something dear")
    before = files(path)
    with file_size_limit(500_000 if reason == "disk full" else resource.RLIM_INFINITY):
        error = NotFound if reason == "no source" else DatabaseUnusable
        with pytest.raises(error) as caught:
            backup(path, target, force=True)
    culprit = target if reason in ("disk full", "nowhere") else path
    assert str(culprit) in caught.value.message
    assert files(path) == before


@pytest.mark.parametrize(("arguments", "status"), [([], 7), (["--force"], 0)])
def test_the_status_of_the_backup_command_is_its_result(
    path: Path, arguments: list[str], status: int
) -> None:
    target = path.with_name("copy.db")
    target.touch()
    result = hubd("backup", str(target), *arguments, home=path.parent)
    assert result.returncode == status
    assert result.stderr.startswith("hubd: ")


# Check


def overwrite_a_page(path: Path) -> None:
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(content)


def cut_off_the_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8192])


def replace_by_text(path: Path) -> None:
    path.write_bytes(b"text" * 5000)


def sql(text: str) -> Callable[[Path], None]:
    """Do to the database what hubd would not."""

    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.executescript(text)

    return damage


BROKEN: list[tuple[Callable[[Path], None], str, str]] = [
    (overwrite_a_page, "", ""),
    (cut_off_the_end, "", ""),
    (replace_by_text, "database", "not a database"),
    (sql("INSERT INTO children VALUES (9999)"), "foreign keys", "children"),
    (sql("UPDATE hub_migrations SET sha256 = 'x'"), "migrations", "edited"),
    (sql("UPDATE hub_migrations SET number = number + 100"), "migrations", "gap"),
    (sql("INSERT INTO hub_migrations VALUES ('hub', 99, 'x', 0)"), "migrations", "gap"),
    (sql("INSERT INTO hub_migrations VALUES ('p', 2, 'x', 0)"), "migrations", "gap"),
    (sql("PRAGMA application_id = 7"), "migrations", "another program"),
]


def test_a_check_of_a_good_database_passes_and_does_not_change_it(path: Path) -> None:
    before = path.read_bytes()
    assert failed(check(path)) == []
    assert {finding.what for finding in check(path)} == {
        "integrity",
        "foreign keys",
        "contents",
        "migrations of hub",
    }
    assert path.read_bytes() == before
    result = hubd("check", home=path.parent)
    assert (result.returncode, result.stderr) == (0, "")
    assert all(line.startswith("ok") for line in result.stdout.splitlines())


@pytest.mark.parametrize(("damage", "what", "detail"), BROKEN)
def test_the_check_finds_damage(
    path: Path, damage: Callable[[Path], None], what: str, detail: str
) -> None:
    damage(path)
    findings = check(path)
    bad = next(finding for finding in findings if not finding.ok)
    assert what in bad.what
    assert detail in bad.detail
    result = hubd("check", home=path.parent)
    assert (result.returncode, result.stderr) == (1, "")
    assert f"FAIL {bad.what}: " in result.stdout


def test_a_check_does_not_create_a_missing_database(tmp_path: Path) -> None:
    for look in (check, lambda path: backup(path, tmp_path / "copy.db")):
        with pytest.raises(HubError) as caught:
            look(tmp_path / "hub.db")
        assert caught.value.code == "not_found"
    assert list(tmp_path.iterdir()) == []
    assert hubd("check", home=tmp_path).returncode == 3


def test_the_quick_check_passes_over_damage_that_only_a_full_check_finds(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE large (content BLOB)")
        connection.execute("INSERT INTO large VALUES (zeroblob(1000000))")
    with path.open("r+b") as file:
        file.seek(-500_000, 2)
        file.write(b"x" * 4096)
    assert "integrity" in {finding.what for finding in check(path) if not finding.ok}
    database, log, *_ = examine(path)
    assert (database.ok, log.ok) == (True, True)
    assert database.detail.endswith("`hubd check` checks all of its content")


@pytest.mark.parametrize(("damage", "what", "detail"), BROKEN[-5:])
def test_the_quick_check_compares_the_migrations(
    path: Path, damage: Callable[[Path], None], what: str, detail: str
) -> None:
    damage(path)
    [bad] = [finding for finding in examine(path) if not finding.ok]
    assert (bad.what, detail in bad.detail) == (what, True)


def test_the_quick_check_reports_a_file_that_others_can_read(path: Path) -> None:
    path.chmod(0o644)
    [bad] = [finding for finding in examine(path) if not finding.ok]
    assert bad.detail == f"others can read {path}; run: chmod 600 {path}"


def test_the_quick_check_reports_a_log_that_grows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "LARGE_LOG_BYTES", 100)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE another (text TEXT)")
        [bad] = [finding for finding in examine(path) if not finding.ok]
    assert bad.what == "write-ahead log"
    assert "hubd restart" in bad.detail
