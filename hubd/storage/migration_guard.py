"""The limits of a plugin's migration: only the plugin's own tables, no transactions, no pragmas.

SQLite asks an authorizer about every table that a statement uses, when it compiles the statement.
Bodies of triggers and views are not compiled when they are created, so each of them is compiled
once at the end of the migration.
"""

import re
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from hubd.errors import DatabaseUnusable
from hubd.storage.tables import HUB_MIGRATIONS

# The hub's own tables and indexes. Plugin prefixes may match some of them (`chat_`, `arbor_`).
_HUB_NAMES: Final = frozenset(
    name.lower()
    for step in HUB_MIGRATIONS
    for name in re.findall(r"CREATE\s+(?:UNIQUE\s+)?(?:TABLE|INDEX|VIEW|TRIGGER)\s+(\w+)", step)
)

# Pragmas that only read. SQLite itself uses some of them for ALTER TABLE and for full-text search.
_READING_PRAGMAS: Final = frozenset(
    (
        "data_version",
        "foreign_key_check",
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "quick_check",
        "table_info",
        "table_list",
        "table_xinfo",
    )
)

_FREE: Final = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE))
# Each of these names a table, index, trigger or view in its first argument.
_CREATE: Final = frozenset(
    (
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_TRIGGER,
        sqlite3.SQLITE_CREATE_VIEW,
        sqlite3.SQLITE_CREATE_VTABLE,
    )
)
_DROP: Final = frozenset(
    (
        sqlite3.SQLITE_DROP_INDEX,
        sqlite3.SQLITE_DROP_TABLE,
        sqlite3.SQLITE_DROP_TRIGGER,
        sqlite3.SQLITE_DROP_VIEW,
        sqlite3.SQLITE_DROP_VTABLE,
    )
)
_CHANGE: Final = frozenset(
    (
        sqlite3.SQLITE_DELETE,
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_REINDEX,
        sqlite3.SQLITE_UPDATE,
    )
)
# These name the table that they belong to in their second argument.
_ON_A_TABLE: Final = frozenset((sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_TRIGGER))
_FORBIDDEN: Final = {
    sqlite3.SQLITE_ANALYZE: "use ANALYZE",
    sqlite3.SQLITE_ATTACH: "attach another database",
    sqlite3.SQLITE_DETACH: "detach a database",
    sqlite3.SQLITE_SAVEPOINT: "use savepoints",
    sqlite3.SQLITE_TRANSACTION: "begin, commit or roll back: it is one transaction already",
}

# The columns that a table's foreign keys refer to; the primary key if none is named.
_REFERENCED: Final = """
    SELECT key."table", coalesce(key."to", parent.name)
    FROM pragma_foreign_key_list(?) AS key
    LEFT JOIN pragma_table_info(key."table") AS parent ON key."to" IS NULL AND parent.pk > 0
"""


class MigrationGuard:
    """The rules for one migration of one owner, and the first violation.

    Raises:
        DatabaseUnusable: Another owner has the same prefix.
    """

    def __init__(
        self, connection: sqlite3.Connection, owner: str, number: int, other_owners: Iterable[str]
    ) -> None:
        self._connection = connection
        self._owner = owner
        self._number = number
        self._prefix = prefix_of(owner)
        others = {prefix_of(other): other for other in other_owners if other != owner}
        if self._prefix in others:
            raise DatabaseUnusable(
                f"the tables of {owner} and {others[self._prefix]} would have the same prefix, "
                f"{self._prefix}",
                suggestion="Give the plugin another namespace",
            )
        # Prefixes of other owners inside this one, such as `notes_archive_` inside `notes_`.
        self._inner = tuple(prefix for prefix in others if prefix.startswith(self._prefix))
        # Tables and views of others. Names that are not in the schema are functions or CTEs.
        self._foreign: frozenset[str] = frozenset()
        # Columns of other tables that the plugin's foreign keys refer to. SQLite reads them.
        self._referenced: frozenset[tuple[str, str]] = frozenset()
        self._violation = ""

    def owns(self, name: str) -> bool:
        """Return whether a table, index, trigger or view belongs to the owner."""
        return (
            name.startswith(self._prefix)
            and name.lower() not in _HUB_NAMES
            and not (self._inner and name.startswith(self._inner))
        )

    def execute(self, statement: str) -> None:
        """Run one statement under the rules.

        Raises:
            DatabaseUnusable: The statement breaks a rule.
            sqlite3.Error: The statement fails.
        """
        self._read_schema()
        self._connection.set_authorizer(self._authorize)
        try:
            self._connection.execute(statement)
        except sqlite3.Error:
            if self._violation:
                raise self._error(self._violation) from None
            raise
        finally:
            self._connection.set_authorizer(None)

    def check_bodies(self) -> None:
        """Compile every trigger and view of the owner, as a use of it would.

        Raises:
            DatabaseUnusable: The body of one of them breaks a rule.
        """
        rows = self._connection.execute(
            "SELECT type, tbl_name FROM sqlite_schema WHERE type IN ('trigger', 'view')"
        ).fetchall()
        for kind, name in sorted(set(rows)):
            if not self.owns(name):
                continue
            quoted = _quote(name)
            uses = [f"SELECT * FROM {quoted}"]
            if kind == "trigger":
                columns = self._connection.execute(
                    "SELECT name FROM pragma_table_info(?)", (name,)
                ).fetchall()
                same = ", ".join(f"{_quote(column)} = {_quote(column)}" for (column,) in columns)
                uses = [
                    f"INSERT INTO {quoted} DEFAULT VALUES",
                    f"UPDATE {quoted} SET {same}",
                    f"DELETE FROM {quoted}",
                ]
            for use in uses:
                # Not every use of a view has a trigger. A body that can't be compiled can't run.
                with suppress(sqlite3.Error):
                    self.execute(f"EXPLAIN {use}")

    def refuse_stray(self, names: Iterable[str]) -> None:
        """Refuse new names that do not belong to the owner. ALTER TABLE … RENAME may create them.

        Raises:
            DatabaseUnusable: A name belongs to another owner.
        """
        for name in sorted(names):
            if not self.owns(name):
                raise self._error(f"make {name}")

    def _read_schema(self) -> None:
        tables = self._connection.execute(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
        ).fetchall()
        own = [name for (name,) in tables if self.owns(name)]
        self._foreign = frozenset(
            name for (name,) in tables if not name.startswith("sqlite_") and name not in own
        )
        self._referenced = frozenset(
            (parent.lower(), column.lower())
            for name in own
            for parent, column in self._connection.execute(_REFERENCED, (name,))
            if column
        )

    def _authorize(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        inside: str | None,
    ) -> int:
        violation = self._judge(action, first or "", second or "")
        if violation and not self._violation:
            self._violation = violation + (f" (in {inside})" if inside else "")
        return sqlite3.SQLITE_DENY if violation else sqlite3.SQLITE_OK

    def _judge(self, action: int, first: str, second: str) -> str:
        """Return the rule that an action breaks, as the end of a sentence, or nothing."""
        if action in _FREE:
            return ""
        if action == sqlite3.SQLITE_READ:
            is_key = (first.lower(), second.lower()) in self._referenced
            return f"read {first}" if first in self._foreign and not is_key else ""
        if action == sqlite3.SQLITE_PRAGMA:
            return "" if first.lower() in _READING_PRAGMAS else f"use PRAGMA {first}"
        if action == sqlite3.SQLITE_ALTER_TABLE:
            return "" if self.owns(second) else f"alter {second}"
        for actions, verb in ((_CREATE, "make"), (_DROP, "drop"), (_CHANGE, "change")):
            if action not in actions:
                continue
            # SQLite's own tables, such as the schema: a statement can't write to them directly.
            if first.startswith("sqlite_"):
                return ""
            if not self.owns(first):
                return f"{verb} {first}"
            misplaced = action in _ON_A_TABLE and not self.owns(second)
            return f"{verb} {first} on {second}" if misplaced else ""
        return _FORBIDDEN.get(action, "make temporary tables, indexes, triggers or views")

    def _error(self, violation: str) -> DatabaseUnusable:
        return DatabaseUnusable(
            f"migration {self._number} of {self._owner} may not {violation}",
            suggestion=f"A migration may use only the plugin's own tables, named {self._prefix}…",
        )


def prefix_of(owner: str) -> str:
    """Return the prefix of the names of an owner's tables."""
    return owner.replace(".", "_").replace("-", "_") + "_"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
