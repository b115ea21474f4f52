"""The plugin's table, as migrations. Append only.

The content is a stored content of the hub, and `digest` names it.
"""

from typing import Final

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE file_snapshots (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        path TEXT NOT NULL,
        size INTEGER NOT NULL,
        digest BLOB NOT NULL,
        mime_type TEXT NOT NULL,
        is_text INTEGER NOT NULL CHECK (is_text IN (0, 1)),
        mode INTEGER NOT NULL,
        modified_at INTEGER NOT NULL,
        changed INTEGER NOT NULL CHECK (changed IN (0, 1)),
        created_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX file_snapshots_path ON file_snapshots (path, key);
    """,
)
