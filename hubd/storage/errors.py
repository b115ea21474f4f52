"""What a failing database means to a caller, in words."""

import sqlite3
from pathlib import Path

from hubd.errors import DatabaseUnusable, HubError, Internal


def caller_error(error: BaseException, path: Path) -> BaseException:
    """A failing disk is the hub's trouble and is said in its words; the rest is the caller's."""
    if isinstance(error, StopIteration) or not isinstance(error, Exception):
        # A future refuses the one, and the others would end more than the call.
        return Internal(f"a transaction raised {type(error).__name__}")
    if isinstance(error, sqlite3.DatabaseError) and code_of(error) in (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
    ):
        return unusable(path, error)
    return error


def code_of(error: BaseException) -> int:
    """SQLite's primary error code; 0 for errors of Python's own module, which have none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def closed_error() -> DatabaseUnusable:
    """For whoever comes too late."""
    return DatabaseUnusable("the database is closed: the daemon is stopping")


def not_plain(name: str) -> TypeError:
    """For a transaction whose function would not have run."""
    return TypeError(
        f"a transaction is a plain function f(tx), and '{name}' is async or a generator: "
        "write it with `def`, without `await` and `yield`"
    )


def unusable(path: Path, error: BaseException) -> HubError:
    """Say in one sentence why the database cannot be used."""
    if isinstance(error, HubError):
        return error
    code = code_of(error)
    if code == sqlite3.SQLITE_NOTADB:
        return DatabaseUnusable(f"{path} is not a database")
    if code == sqlite3.SQLITE_CORRUPT:
        return DatabaseUnusable(
            f"{path} is damaged ({error})", suggestion="Restore a backup, or look at: hubd check"
        )
    if code == sqlite3.SQLITE_FULL:
        return DatabaseUnusable(f"the disk is full: {path} cannot grow", suggestion="Free space")
    if code == sqlite3.SQLITE_IOERR:
        return DatabaseUnusable(
            f"{path} cannot be written or read ({error})",
            suggestion="Check the free space and the disk",
        )
    return DatabaseUnusable(f"{path} cannot be used: {error}")
