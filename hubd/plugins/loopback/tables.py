"""The plugin's own tables, as migrations. Append only."""

from typing import Final

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE loopback_rules (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        effect TEXT NOT NULL CHECK (effect IN ('allow', 'deny', 'ask')),
        tool TEXT NOT NULL,
        pattern TEXT,
        resolved TEXT,
        scope TEXT NOT NULL,
        expires_at INTEGER,
        uses_left INTEGER,
        added_by TEXT,
        created_at INTEGER NOT NULL
    ) STRICT;
    """,
)
