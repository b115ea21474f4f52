"""The hub's own tables, as migrations in the order in which they came. Append only.

Trees. A node is a row that never changes, but for its label. Nodes that follow each other
without a branch are one *segment*, named by the key of its first node; a node's place is
(segment, depth). So a chain is read by one range of an index, a branch costs one row, and only
the first node of a segment says who its parent is: for all others it is the place before.
"""

from typing import Final

HUB_MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE hub_migrations (
        owner TEXT NOT NULL,
        number INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        applied_at INTEGER NOT NULL,
        PRIMARY KEY (owner, number)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE arbor_trees (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        metadata TEXT,
        state TEXT NOT NULL CHECK (
            state IN ('importing', 'active', 'scheduled', 'archived', 'purging')),
        state_since INTEGER NOT NULL,
        root INTEGER NOT NULL,
        created_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX arbor_trees_ending ON arbor_trees (state, state_since) WHERE state <> 'active';

    CREATE TABLE arbor_owners (
        tree INTEGER NOT NULL REFERENCES arbor_trees (key) ON DELETE CASCADE,
        owner TEXT NOT NULL,
        count INTEGER NOT NULL CHECK (count > 0),
        PRIMARY KEY (tree, owner)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE arbor_history (
        key INTEGER PRIMARY KEY,
        tree_id BLOB NOT NULL,
        step TEXT NOT NULL,
        owner TEXT,
        count INTEGER,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX arbor_history_tree ON arbor_history (tree_id);

    CREATE TABLE arbor_origins (
        key INTEGER PRIMARY KEY,
        plugin_id BLOB NOT NULL,
        plugin TEXT NOT NULL,
        version TEXT NOT NULL,
        method TEXT NOT NULL,
        UNIQUE (plugin, version, method)
    ) STRICT;

    CREATE TABLE arbor_nodes (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL,
        tree INTEGER NOT NULL,
        segment INTEGER NOT NULL,
        depth INTEGER NOT NULL,
        lane INTEGER NOT NULL,
        parent INTEGER REFERENCES arbor_nodes (key),
        text TEXT,
        origin INTEGER REFERENCES arbor_origins (key),
        meta TEXT,
        label TEXT,
        metadata TEXT,
        created_at INTEGER NOT NULL,
        CHECK ((text IS NULL) <> (origin IS NULL))
    ) STRICT;
    CREATE UNIQUE INDEX arbor_nodes_id ON arbor_nodes (id);
    CREATE UNIQUE INDEX arbor_nodes_place ON arbor_nodes (segment, depth);
    CREATE INDEX arbor_nodes_branch ON arbor_nodes (parent) WHERE parent IS NOT NULL;
    CREATE INDEX arbor_nodes_segment ON arbor_nodes (tree) WHERE segment = key;
    """,
)
