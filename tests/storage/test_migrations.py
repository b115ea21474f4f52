"""Migrations: every way from an old database to the newest, and every database to refuse."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import DatabaseNewer, DatabaseUnusable, HubError
from hubd.plexus.discovery import BUILT_IN, Source
from hubd.plexus.host import PlexusHost
from hubd.plexus.root import build_hub
from hubd.storage import migrations
from hubd.storage.database import Database
from hubd.storage.migrations import APPLICATION_ID, HUB
from hubd.storage.tables import HUB_MIGRATIONS
from tests.support import examples

STEPS = (
    "CREATE TABLE p_items (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT",
    "INSERT INTO p_items (text) VALUES ('first; of two'); CREATE INDEX p_i ON p_items(text)",
    """
    -- It's a comment.
    CREATE TRIGGER p_copy AFTER INSERT ON p_items WHEN NEW.text = 'copy' BEGIN
        INSERT INTO p_items (text) VALUES ('a; b');
        INSERT INTO p_items (text) VALUES ('c');
    END;
    INSERT INTO p_items (text) VALUES ('copy');
    """,
    "ALTER TABLE p_items ADD COLUMN more INTEGER NOT NULL DEFAULT 7;",
    "CREATE VIEW p_all AS SELECT text, more FROM p_items; DROP INDEX p_i;",
)
TEXTS = ["first; of two", "copy", "a; b", "c"]


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection, as another program would have."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def content(path: Path) -> list[str]:
    """The whole database as SQL; when a migration was applied does not count."""
    with raw(path) as connection:
        connection.execute("UPDATE hub_migrations SET applied_at = 0")
        return list(connection.iterdump())


def files(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes and mode, but for SQLite's shared memory and an empty WAL."""
    return {
        file.name: (file.read_bytes(), file.stat().st_mode)
        for file in directory.iterdir()
        if not file.name.endswith("-shm") and file.stat().st_size
    }


async def migrated(
    path: Path, *versions: int, steps: tuple[str, ...] = STEPS, owner: str = "p"
) -> list[str]:
    """The database after each of these versions of a plugin has run on it."""
    for version in versions:
        async with Database(path) as db:
            await db.migrate(owner, steps[:version])
    return content(path)


# From old to new


async def test_a_blank_database_gets_every_step_in_order(tmp_path: Path) -> None:
    async with Database(tmp_path / "hub.db") as db:
        await db.migrate("p", STEPS)
        rows = await db.fetch_all("SELECT text, more FROM p_all")
        assert rows == [{"text": text, "more": 7} for text in TEXTS]
        record = await db.fetch_all("SELECT owner, number FROM hub_migrations ORDER BY 1, 2")
        hub = [{"owner": HUB, "number": n + 1} for n in range(len(HUB_MIGRATIONS))]
        assert record == hub + [{"owner": "p", "number": n + 1} for n in range(len(STEPS))]
        assert await db.fetch_one("PRAGMA application_id") == {"application_id": APPLICATION_ID}


@given(st.lists(st.integers(0, len(STEPS)), max_size=4).map(sorted))
@examples(6)
async def test_every_way_through_earlier_versions_ends_in_the_same_database(
    tmp_path_factory: pytest.TempPathFactory, versions: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("way")
    expected = await migrated(directory / "blank.db", len(STEPS))
    assert await migrated(directory / "old.db", *versions, len(STEPS)) == expected


@pytest.mark.parametrize("applied", range(len(HUB_MIGRATIONS) + 1))
async def test_the_hubs_own_tables_come_from_every_earlier_version(
    tmp_path: Path, applied: int
) -> None:
    with raw(tmp_path / "old.db") as old:
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for number in range(1, applied + 1):
            migrations.apply(old, HUB, number, HUB_MIGRATIONS[number - 1])
    for name in ("old.db", "blank.db"):
        async with Database(tmp_path / name):
            pass
    assert content(tmp_path / "old.db") == content(tmp_path / "blank.db")


@pytest.mark.parametrize("target", [*BUILT_IN, "tests.sample_plugins.trouble:Trouble"])
async def test_a_plugins_tables_come_from_every_earlier_version(
    tmp_path: Path, target: str
) -> None:
    hub = build_hub("plexus", database=None)
    for node in hub.attach(Source(target, "a test").load(), PlexusHost(hub)).walk():
        steps, owner = tuple(node.activation.migrations), node.path
        ends = [
            await migrated(tmp_path / f"{owner}{k}.db", k, len(steps), steps=steps, owner=owner)
            for k in range(len(steps) + 1)
        ]
        assert ends == len(ends) * ends[:1]


async def test_two_owners_do_not_see_each_others_steps(tmp_path: Path) -> None:
    async with Database(tmp_path / "hub.db") as db:
        await db.migrate("a", ["CREATE TABLE a_x (y ANY) STRICT"])
        await db.migrate("b", ["CREATE TABLE b_x (y ANY) STRICT"])
        await db.migrate("b", ["CREATE TABLE b_x (y ANY) STRICT"])
        rows = await db.fetch_all("SELECT owner FROM hub_migrations WHERE owner <> ?", HUB)
        assert rows == [{"owner": "a"}, {"owner": "b"}]


async def test_white_space_in_an_applied_step_may_change(tmp_path: Path) -> None:
    expected = await migrated(tmp_path / "hub.db", 1)
    spaced = "\n  " + STEPS[0].replace(" ", "\n\t") + "\n"
    assert await migrated(tmp_path / "hub.db", 1, steps=(spaced,)) == expected


# Steps that fail


@pytest.mark.parametrize(
    "step",
    [
        "CREATE TABLE p_b (x ANY) STRICT; INSERT INTO p_nowhere VALUES (1)",
        "CREATE TABLE p_b (x ANY) STRICT; INSERT INTO p_items VALUES (1, NULL)",
        "CREATE TABLE p_b (x ANY) STRICT; nonsense",
        "CREATE TABLE p_b (x ANY) STRICT; CREATE TABLE p_c (x TEXT DEFAULT 'never closed)",
        "CREATE TABLE p_b (x ANY) STRICT; "
        "CREATE TRIGGER p_t AFTER INSERT ON p_b BEGIN DELETE FROM p_b;",
        # Its failure would come with the commit, and that is others' too.
        "CREATE TABLE p_b (x ANY REFERENCES p_items DEFERRABLE INITIALLY DEFERRED) STRICT",
        "CREATE TABLE p_b (x ANY) STRICT; CREATE TABLE stray (x ANY) STRICT",
        "CREATE TABLE p_b (x ANY) STRICT; CREATE TABLE sqlitestray (x ANY) STRICT",
        "CREATE TABLE p_b (x ANY) STRICT; ALTER TABLE p_b RENAME TO stray",
    ],
)
async def test_a_step_that_fails_leaves_nothing_and_can_be_corrected(
    tmp_path: Path, step: str
) -> None:
    path = tmp_path / "hub.db"
    before = await migrated(path, 1)
    async with Database(path) as db:
        with pytest.raises(DatabaseUnusable) as caught:
            await db.migrate("p", [STEPS[0], step])
        assert caught.value.suggestion
    assert content(path) == before
    await migrated(path, len(STEPS))


async def test_steps_before_the_failing_one_remain(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    expected = await migrated(tmp_path / "expected.db", 2)
    async with Database(path) as db:
        with pytest.raises(DatabaseUnusable, match="migration 3 of p failed"):
            await db.migrate("p", [*STEPS[:2], "nonsense", STEPS[3]])
    assert content(path) == expected


@pytest.mark.parametrize(
    "step",
    [
        "CREATE TABLE p_b (x ANY) STRICT -- at the end",
        "CREATE TABLE p_b (x ANY) STRICT; -- at the end; really",
        "-- at the beginning; really\nCREATE TABLE p_b (x ANY) STRICT;;\n",
        "CREATE TABLE p_b /* within; here */ (x ANY DEFAULT 'a;b') STRICT",
        "CREATE TABLE p_b (x ANY CHECK (x <> 'deferred')) STRICT",
    ],
)
async def test_semicolons_in_comments_and_texts_end_no_statement(tmp_path: Path, step: str) -> None:
    async with Database(tmp_path / "hub.db") as db:
        await db.migrate("p", [step])
        assert await db.fetch_all("SELECT x FROM p_b") == []


@pytest.mark.parametrize("kind", ["TABLE", "VIEW", "INDEX", "TRIGGER"])
async def test_a_stray_name_is_refused_with_the_remedy(tmp_path: Path, kind: str) -> None:
    rest = {
        "TABLE": "(x ANY) STRICT",
        "VIEW": "AS SELECT id FROM p_items",
        "INDEX": "ON p_items(text)",
        "TRIGGER": "AFTER DELETE ON p_items BEGIN SELECT 1; END",
    }
    async with Database(tmp_path / "hub.db") as db:
        with pytest.raises(DatabaseUnusable) as caught:
            await db.migrate("p", [STEPS[0], f"CREATE {kind} stray {rest[kind]}"])
    assert caught.value.message == "migration 2 of p may not make stray"
    assert "named p_…" in caught.value.suggestion


# Other owners' tables

OTHERS = (
    "CREATE TABLE q_items (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;"
    "CREATE INDEX q_text ON q_items (text)",
)
# Statements of a migration of `p`, and the end of the error that refuses each.
TRESPASSES = {
    "DROP TABLE q_items": "drop q_items",
    "DROP INDEX q_text": "drop q_text",
    "ALTER TABLE q_items RENAME TO p_stolen": "alter q_items",
    "ALTER TABLE q_items ADD COLUMN mine INTEGER": "alter q_items",
    "ALTER TABLE p_items RENAME TO q_gift": "make q_gift",
    "INSERT INTO q_items (text) VALUES ('mine')": "change q_items",
    "UPDATE q_items SET text = ''": "change q_items",
    "DELETE FROM q_items": "change q_items",
    "INSERT INTO p_items (text) SELECT text FROM q_items": "read q_items",
    "CREATE INDEX p_i ON q_items (text)": "make p_i on q_items",
    "CREATE TRIGGER p_t AFTER INSERT ON q_items BEGIN DELETE FROM p_items; END": (
        "make p_t on q_items"
    ),
    "CREATE TRIGGER p_t AFTER INSERT ON p_items BEGIN DELETE FROM q_items; END": (
        "change q_items (in p_t)"
    ),
    "CREATE TRIGGER p_t AFTER UPDATE OF text ON p_items BEGIN DELETE FROM q_items; END": (
        "change q_items (in p_t)"
    ),
    "CREATE VIEW p_v AS SELECT text FROM q_items": "read q_items (in p_v)",
    "DELETE FROM hub_migrations": "change hub_migrations",
    "DROP TABLE arbor_nodes": "drop arbor_nodes",
    "CREATE TEMP TABLE p_b (x)": "make temporary tables, indexes, triggers or views",
    "ATTACH ':memory:' AS other": "attach another database",
    "PRAGMA writable_schema = ON": "use PRAGMA writable_schema",
    "PRAGMA user_version = 7": "use PRAGMA user_version",
    "COMMIT": "begin, commit or roll back: it is one transaction already",
    "SAVEPOINT mine": "use savepoints",
    "ANALYZE": "use ANALYZE",
}


async def test_a_migration_may_use_only_its_own_tables(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    await migrated(path, 1)
    before = await migrated(path, 1, steps=OTHERS, owner="q")
    async with Database(path) as db:
        for step, end in TRESPASSES.items():
            with pytest.raises(DatabaseUnusable) as caught:
                await db.migrate("p", [STEPS[0], f"DELETE FROM p_items; {step}"])
            assert caught.value.message == f"migration 2 of p may not {end}", step
            assert "named p_…" in caught.value.suggestion
        await db.execute("DELETE FROM q_items")  # the rules end with the migration
    assert content(path) == before


async def test_a_prefix_does_not_reach_the_hubs_tables_or_a_longer_prefix(tmp_path: Path) -> None:
    async with Database(tmp_path / "hub.db") as db:
        await db.migrate("p.q", ["CREATE TABLE p_q_x (y ANY) STRICT"])
        with pytest.raises(DatabaseUnusable, match="migration 1 of p may not drop p_q_x"):
            await db.migrate("p", ["DROP TABLE p_q_x"])
        with pytest.raises(DatabaseUnusable, match="may not change chat_streams"):
            await db.migrate("chat", ["DELETE FROM chat_streams"])
        with pytest.raises(DatabaseUnusable, match=r"tables of p-q and p\.q would have the same"):
            await db.migrate("p-q", ["CREATE TABLE p_q_z (y ANY) STRICT"])
        await db.migrate("p", ["CREATE TABLE p_x (y ANY) STRICT"])


async def test_a_migration_may_change_its_own_tables_in_every_way(tmp_path: Path) -> None:
    step = """
    CREATE TABLE p_b (n INTEGER PRIMARY KEY AUTOINCREMENT, tree REFERENCES arbor_trees (key),
        item INTEGER REFERENCES p_items ON DELETE CASCADE, text TEXT UNIQUE);
    INSERT INTO p_items (text) SELECT value FROM json_each('["a", "b"]');
    WITH RECURSIVE two (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM two WHERE n < 2)
        INSERT INTO p_b (item, text) SELECT n, 'text ' || n FROM two;
    ALTER TABLE p_b ADD COLUMN more INTEGER NOT NULL DEFAULT 3 CHECK (more > 0);
    ALTER TABLE p_b RENAME COLUMN more TO less;
    ALTER TABLE p_b DROP COLUMN less;
    ALTER TABLE p_b RENAME TO p_c;
    CREATE VIEW p_v AS SELECT p_c.text FROM p_c JOIN p_items ON item = p_items.id;
    CREATE TRIGGER p_t INSTEAD OF INSERT ON p_v BEGIN
        INSERT INTO p_c (text) VALUES (NEW.text);
    END;
    CREATE VIRTUAL TABLE p_find USING fts5(text);
    INSERT INTO p_find SELECT text FROM p_c;
    DELETE FROM p_items WHERE id = 1;
    REINDEX p_items;
    DROP TABLE p_find;
    """
    async with Database(tmp_path / "hub.db") as db:
        await db.migrate("p", [STEPS[0], step])
        assert await db.fetch_all("SELECT text FROM p_v") == [{"text": "text 2"}]


async def test_an_edited_step_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    before = await migrated(path, 2)
    edited = (STEPS[0].replace("NOT NULL", ""), *STEPS[1:])
    with pytest.raises(DatabaseUnusable, match="migration 1 of p was edited"):
        await migrated(path, 3, steps=edited)
    assert content(path) == before


async def test_a_plugin_older_than_its_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    before = await migrated(path, 3)
    with pytest.raises(DatabaseNewer, match="newer version of p") as caught:
        await migrated(path, 2)
    assert caught.value.code == "version_unsupported"
    assert content(path) == before


async def test_a_gap_in_a_plugins_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    await migrated(path, 3)
    with raw(path) as connection:
        connection.execute("DELETE FROM hub_migrations WHERE owner = 'p' AND number = 2")
    before = content(path)
    with pytest.raises(DatabaseUnusable, match="gap"):
        await migrated(path, 3)
    assert content(path) == before


# Databases to refuse


def sql(text: str) -> Callable[[Path], None]:
    def prepare(path: Path) -> None:
        with raw(path) as connection:
            connection.executescript(text)

    return prepare


def another_programs(path: Path) -> None:
    path.unlink()
    sql("CREATE TABLE bookmarks (url TEXT); INSERT INTO bookmarks VALUES ('x')")(path)


def no_database(path: Path) -> None:
    path.write_bytes(b"This is a text that somebody keeps here. " * 500)


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000)


NEWER = f"INSERT INTO hub_migrations VALUES ('{HUB}', {len(HUB_MIGRATIONS) + 1}, 'f00', 0)"
REFUSED: list[tuple[Callable[[Path], None], type[HubError], str]] = [
    (sql(NEWER), DatabaseNewer, "a newer version of hub wrote this database"),
    (
        sql(f"UPDATE hub_migrations SET sha256 = 'x' WHERE owner = '{HUB}'"),
        DatabaseUnusable,
        "edited",
    ),
    (sql("UPDATE hub_migrations SET number = number + 100"), DatabaseUnusable, "has a gap"),
    (sql("PRAGMA application_id = 1"), DatabaseUnusable, "is a database of another program"),
    (sql("DROP TABLE hub_migrations; CREATE TABLE t (x)"), DatabaseUnusable, "cannot be used"),
    (another_programs, DatabaseUnusable, "is a database of another program"),
    (no_database, DatabaseUnusable, "is not a database"),
    (damaged, DatabaseUnusable, "is damaged"),
]


@pytest.mark.parametrize(("prepare", "error", "message"), REFUSED)
async def test_a_foreign_database_is_refused_and_not_changed(
    tmp_path: Path, prepare: Callable[[Path], None], error: type[HubError], message: str
) -> None:
    path = tmp_path / "hub.db"
    async with Database(path):
        pass
    prepare(path)
    path.chmod(0o640)
    before = files(tmp_path)
    for _ in range(2):
        with pytest.raises(error, match=message) as caught:
            async with Database(path):
                pass
        assert caught.value.suggestion
        assert files(tmp_path) == before


async def test_a_newer_database_that_was_killed_keeps_its_log_too(tmp_path: Path) -> None:
    path, crashed = tmp_path / "hub.db", tmp_path / "crashed"
    crashed.mkdir()
    async with Database(path) as db:
        await db.execute(NEWER)
        for name in ("hub.db", "hub.db-wal"):
            shutil.copy(tmp_path / name, crashed)
    before = files(crashed)
    assert sorted(before) == ["hub.db", "hub.db-wal"]
    with pytest.raises(DatabaseNewer):
        async with Database(crashed / "hub.db"):
            pass
    assert files(crashed) == before


async def test_an_empty_file_is_a_blank_database(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    path.touch(0o644)
    async with Database(path) as db:
        await db.migrate("p", STEPS)
    assert content(path) == await migrated(tmp_path / "blank.db", len(STEPS))
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnusable):
        async with Database(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []
