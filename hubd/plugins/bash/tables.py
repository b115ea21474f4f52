"""The plugin's table, as migrations. Append only.

The outputs are stored contents of the hub; `stdout` and `stderr` are their digests, and null while
the command runs, if it was interrupted, or if it wrote nothing.
"""

from typing import Final

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE bash_executions (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        command TEXT NOT NULL,
        cwd TEXT NOT NULL,
        shell TEXT NOT NULL,
        status TEXT NOT NULL CHECK (
            status IN ('running', 'complete', 'timed_out', 'cancelled', 'failed', 'interrupted')
        ),
        exit_code INTEGER,
        started_at INTEGER NOT NULL,
        ended_at INTEGER,
        duration_ms INTEGER,
        stdout BLOB,
        stderr BLOB,
        stdout_size INTEGER NOT NULL DEFAULT 0,
        stderr_size INTEGER NOT NULL DEFAULT 0,
        stdout_dropped INTEGER NOT NULL DEFAULT 0,
        stderr_dropped INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX bash_executions_ended ON bash_executions (ended_at);
    CREATE INDEX bash_executions_running ON bash_executions (key) WHERE status = 'running';
    """,
)
