"""bash: all SQL of the plugin."""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from hubd.activation.pages import ROWS_PER_ITEM
from hubd.errors import NotFound
from hubd.storage.blobs import rows as blobs
from hubd.storage.blobs.rows import Blob
from hubd.storage.database import Database, Tx
from hubd.storage.id_lookup import IdLookup

Status = Literal["running", "complete", "timed_out", "cancelled", "failed", "interrupted"]

LIST_HINT: Final = "List the executions with `synapse bash list`"
# Rows that one transaction of a cleanup removes.
CLEANUP_ROWS: Final = 100
# Larger than every key.
NO_KEY: Final = 2**63 - 1


class ExecutionRow(NamedTuple):
    """One execution. The outputs are digests."""

    key: int
    id: bytes
    command: str
    cwd: str
    shell: str
    status: Status
    exit_code: int | None
    started_at: int
    ended_at: int | None
    duration_ms: int | None
    stdout: bytes | None
    stderr: bytes | None
    stdout_size: int
    stderr_size: int
    stdout_dropped: int
    stderr_dropped: int


class Recorded(NamedTuple):
    """One output of a command that has ended."""

    # None if the command wrote nothing.
    blob: Blob | None
    dropped: int


_COLUMNS: Final = ", ".join(ExecutionRow._fields)
_SELECT: Final = f"SELECT {_COLUMNS} FROM bash_executions"
_IDS: Final = IdLookup(_SELECT, thing="execution", advice=LIST_HINT)
# The rows of the search source.
SEARCHED_EXECUTIONS: Final = (
    "SELECT key, id, command, status, exit_code, started_at, stdout, stderr FROM bash_executions"
)


def begin(tx: Tx, execution_id: bytes, *, command: str, cwd: str, shell: str, now: int) -> None:
    """Store a command that is about to start."""
    tx.execute(
        "INSERT INTO bash_executions (id, command, cwd, shell, status, started_at)"
        " VALUES (?, ?, ?, ?, 'running', ?)",
        execution_id,
        command,
        cwd,
        shell,
        now,
    )


def forget(tx: Tx, execution_id: bytes) -> None:
    """Remove a command that could not be started."""
    tx.execute("DELETE FROM bash_executions WHERE id = ? AND status = 'running'", execution_id)


def finish(
    tx: Tx,
    execution_id: bytes,
    *,
    status: Status,
    exit_code: int | None,
    duration_ms: int,
    stdout: Recorded,
    stderr: Recorded,
    now: int,
) -> None:
    """Store the end of a command, and its output."""
    for output in (stdout, stderr):
        if output.blob is not None:
            blobs.refer(tx, output.blob)
    tx.execute(
        "UPDATE bash_executions SET status = ?, exit_code = ?, duration_ms = ?, ended_at = ?,"
        " stdout = ?, stderr = ?, stdout_size = ?, stderr_size = ?, stdout_dropped = ?,"
        " stderr_dropped = ? WHERE id = ?",
        status,
        exit_code,
        duration_ms,
        now,
        stdout.blob.digest if stdout.blob else None,
        stderr.blob.digest if stderr.blob else None,
        stdout.blob.size if stdout.blob else 0,
        stderr.blob.size if stderr.blob else 0,
        stdout.dropped,
        stderr.dropped,
        execution_id,
    )


def interrupt(tx: Tx, now: int) -> int:
    """Mark the commands of a daemon that died. Return their number."""
    return tx.execute(
        "UPDATE bash_executions SET status = 'interrupted', ended_at = ? WHERE status = 'running'",
        now,
    ).rowcount


def delete(tx: Tx, key: int) -> bool:
    """Remove an execution that has ended. Return whether it was removed."""
    rows = tx.fetch_all(
        "DELETE FROM bash_executions WHERE key = ? AND status <> 'running'"
        " RETURNING stdout, stderr",
        key,
    )
    for row in rows:
        _release(tx, row["stdout"], row["stderr"])
    return bool(rows)


def remove_old(tx: Tx, before: int) -> int:
    """Remove some executions that ended before a moment. Return their number."""
    rows = tx.fetch_all(
        "SELECT key FROM bash_executions WHERE ended_at < ? LIMIT ?", before, CLEANUP_ROWS
    )
    for row in rows:
        delete(tx, row["key"])
    return len(rows)


async def look_up(db: Database, written: str) -> ExecutionRow:
    """Return the execution with this id, or these first digits of it.

    Raises:
        NotFound, Ambiguous: No execution matches, or several do.
    """
    return ExecutionRow(*await _IDS.look_up(db, written))


async def look_up_each(
    db: Database, execution_ids: Sequence[UUID]
) -> list[ExecutionRow | NotFound]:
    """Return the execution of each id, in order, or an error for an unknown id."""
    rows = await _IDS.look_up_each(db, execution_ids)
    return [row if isinstance(row, NotFound) else ExecutionRow(*row) for row in rows]


async def page(db: Database, before: int) -> list[ExecutionRow]:
    """Return executions before a key, the newest first."""
    rows = await db.fetch_rows(
        f"{_SELECT} WHERE key < ? ORDER BY key DESC LIMIT ?", before, ROWS_PER_ITEM
    )
    return [ExecutionRow(*row) for row in rows]


def _release(tx: Tx, *digests: Any) -> None:
    for digest in digests:
        if digest is not None:
            blobs.release(tx, digest)
