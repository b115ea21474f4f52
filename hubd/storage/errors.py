"""The errors of a failing database, as a caller receives them."""

import sqlite3
from pathlib import Path

from hubd.errors import DatabaseUnusable, HubError, Internal


def caller_error(error: BaseException, path: Path) -> BaseException:
    """Return the error for the caller. A failure of the disk becomes `DatabaseUnusable`."""
    if isinstance(error, StopIteration) or not isinstance(error, Exception):
        # A future refuses StopIteration; the others would end more than the call.
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
    """Return SQLite's primary error code; 0 for errors without one."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def closed_error() -> DatabaseUnusable:
    """Return the error of a call after the database was closed."""
    return DatabaseUnusable("the database is closed: the daemon is stopping")


def ended_error() -> DatabaseUnusable:
    """Return the error of all transactions of a group if one of them ended SQLite's."""
    return DatabaseUnusable(
        "nothing was stored: a function ended the transaction, or hid the error that ended it",
        suggestion="Check the free space. A function f(tx) must pass on errors that end it",
    )


def not_plain(name: str) -> TypeError:
    """Return the error for a transaction with an async function or a generator."""
    return TypeError(
        f"a transaction is a plain function f(tx), and '{name}' is async or a generator: "
        "write it with `def`, without `await` and `yield`"
    )


def unusable(path: Path, error: BaseException) -> HubError:
    """Return the error that explains in one sentence why the database cannot be used."""
    if isinstance(error, HubError):
        return error
    code = code_of(error)
    if code == sqlite3.SQLITE_NOTADB:
        return DatabaseUnusable(f"{path} is not a database")
    if code == sqlite3.SQLITE_CORRUPT:
        return DatabaseUnusable(
            f"{path} is damaged ({error})",
            suggestion="Restore a backup, or see the damage with: hubd check",
        )
    if code == sqlite3.SQLITE_FULL:
        return DatabaseUnusable(
            f"the disk is full: {path} cannot grow", suggestion="Free disk space"
        )
    if code == sqlite3.SQLITE_IOERR:
        return DatabaseUnusable(
            f"{path} cannot be written or read ({error})",
            suggestion="Check the free space and the disk",
        )
    return DatabaseUnusable(f"{path} cannot be used: {error}")
