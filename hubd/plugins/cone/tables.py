"""The plugin's tables, as migrations. Append only.

The order of messages is in arbor's trees. These tables hold the cones, and the messages behind
their handles. Rows are deleted with their tree, so forks stay complete while the tree lives.
"""

from typing import Final

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE cone_cones (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        name TEXT NOT NULL UNIQUE,
        tree INTEGER NOT NULL REFERENCES arbor_trees (key) ON DELETE CASCADE,
        head INTEGER NOT NULL REFERENCES arbor_nodes (key),
        model_id TEXT NOT NULL,
        system_message BLOB,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX cone_cones_tree ON cone_cones (tree);
    CREATE INDEX cone_cones_head ON cone_cones (head);

    CREATE TABLE cone_messages (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        tree INTEGER NOT NULL REFERENCES arbor_trees (key) ON DELETE CASCADE,
        role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
        name TEXT NOT NULL,
        content TEXT NOT NULL,
        model TEXT,
        usage TEXT,
        created_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX cone_messages_tree ON cone_messages (tree);
    """,
)
