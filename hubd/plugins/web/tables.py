"""The plugin's table, as a migration. Append only.

The contents are in the hub's store of contents, by their digests.
"""

from typing import Final

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE web_fetches (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        url TEXT NOT NULL, -- without user name and password
        final_url TEXT NOT NULL,
        redirects INTEGER NOT NULL,
        status INTEGER NOT NULL,
        mime_type TEXT NOT NULL,
        charset TEXT, -- null if the content is not text
        title TEXT,
        size INTEGER NOT NULL,
        truncated INTEGER NOT NULL,
        digest BLOB NOT NULL, -- of the content
        readable BLOB, -- digest of the readable text, as JSON; null if the content is not text
        fetched_at INTEGER NOT NULL,
        duration_ms INTEGER NOT NULL
    ) STRICT
    """,
)
