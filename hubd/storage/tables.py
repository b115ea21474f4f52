"""The hub's tables, as migrations. Append only: released migrations never change.

Trees. A node is a row that never changes, except its label. Consecutive nodes without a branch are
one *segment*, numbered by the key of its first node. The place of a node is (segment, depth).
A chain is one range of an index, and a branch is one row. Only the first node of a segment stores
its parent; the parent of any other node is the place before it. Keys ascend in order of creation.
Ids do not: an imported node keeps its id, which contains a time, and the clock may be set back.

Removing a tree deletes its row and all rows that refer to it at once. `arbor_purges` lists the
tree until its nodes are removed, in many small steps. The key of a tree is never reused.

Streams. An event has the key and the id of its node. The events of a stream are one segment, so
the place of its node follows from the event's number. The first node of the segment is the
stream's root, and its last is the stream's head. Keys of streams are never used again.

Blobs. A content is stored once, however many rows of plugins refer to it; `refs` counts them. A
small content is one part. A larger one is a file, or many parts in the copy that a backup makes.
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
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id BLOB NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        metadata TEXT,
        state TEXT NOT NULL CHECK (
            state IN ('importing', 'active', 'scheduled', 'archived')),
        state_since INTEGER NOT NULL,
        root INTEGER NOT NULL,
        created_at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE arbor_purges (tree INTEGER PRIMARY KEY, tree_id BLOB NOT NULL) STRICT;
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
    """
    CREATE TABLE chat_streams (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        session_id BLOB NOT NULL,
        tree INTEGER NOT NULL REFERENCES arbor_trees (key) ON DELETE CASCADE,
        status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'awaiting_permission',
            'complete', 'failed', 'cancelled', 'interrupted')),
        anchor INTEGER REFERENCES arbor_nodes (key),
        segment INTEGER,
        depth INTEGER,
        first_seq INTEGER NOT NULL DEFAULT 0,
        next_seq INTEGER NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL,
        started_at INTEGER,
        ended_at INTEGER,
        error TEXT
    ) STRICT;
    CREATE INDEX chat_streams_session ON chat_streams (session_id);
    CREATE INDEX chat_streams_tree ON chat_streams (tree);
    CREATE INDEX chat_streams_anchor ON chat_streams (anchor);
    CREATE INDEX chat_streams_open ON chat_streams (status) WHERE ended_at IS NULL;

    CREATE TABLE chat_events (
        key INTEGER PRIMARY KEY REFERENCES arbor_nodes (key) ON DELETE CASCADE,
        stream INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        event_type TEXT NOT NULL,
        event_data TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX chat_events_seq ON chat_events (stream, seq);

    CREATE TABLE chat_consumers (
        stream INTEGER NOT NULL REFERENCES chat_streams (key) ON DELETE CASCADE,
        name TEXT NOT NULL,
        position INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (stream, name)
    ) STRICT, WITHOUT ROWID;
    """,
    # For nodes of lane `main` only: their order of creation, and the last four digits of their ids.
    """
    CREATE INDEX arbor_nodes_created ON arbor_nodes (tree, key, depth) WHERE lane = 0;
    CREATE INDEX arbor_nodes_ending ON arbor_nodes (tree, substr(hex(id), 29)) WHERE lane = 0;
    """,
    """
    CREATE TABLE hub_blobs (
        digest BLOB PRIMARY KEY,
        size INTEGER NOT NULL,
        refs INTEGER NOT NULL CHECK (refs >= 0),
        place TEXT NOT NULL CHECK (place IN ('rows', 'file'))
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX hub_blobs_released ON hub_blobs (digest) WHERE refs = 0;

    CREATE TABLE hub_blob_parts (
        key INTEGER PRIMARY KEY,
        digest BLOB NOT NULL REFERENCES hub_blobs (digest) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        content BLOB NOT NULL,
        UNIQUE (digest, number)
    ) STRICT;
    """,
    # Contents that belong to a tree, until the tree is removed.
    """
    CREATE TABLE hub_tree_blobs (
        tree INTEGER NOT NULL,
        digest BLOB NOT NULL REFERENCES hub_blobs (digest),
        refs INTEGER NOT NULL CHECK (refs > 0),
        PRIMARY KEY (tree, digest)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX hub_tree_blobs_digest ON hub_tree_blobs (digest);
    """,
    # Rows that changed after they were indexed for the search.
    """
    CREATE TABLE hub_search_changes (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        source TEXT NOT NULL,
        row_key INTEGER NOT NULL
    ) STRICT;
    """,
    # An index less for each event. A hub that died while it removed events left them without the
    # segment of their stream. The keys of streams are counted, because events may outlive them.
    """
    CREATE TABLE chat_stream_keys (newest INTEGER NOT NULL) STRICT;
    INSERT INTO chat_stream_keys (newest) SELECT max(
        coalesce((SELECT max(key) FROM chat_streams), 0),
        coalesce((SELECT max(stream) FROM chat_events), 0));
    UPDATE chat_streams SET segment = (
        SELECT n.segment FROM chat_events AS e JOIN arbor_nodes AS n ON n.key = e.key
        WHERE e.stream = chat_streams.key LIMIT 1) WHERE segment IS NULL;
    DROP INDEX chat_events_seq;
    """,
)
