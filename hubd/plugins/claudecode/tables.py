"""The plugin's own tables, as migrations. Append only.

Conversations are in the tables of Arbor and of streams. These tables hold sessions, blobs (the data
behind handles), turns and their costs, processes of running chats, imports, and queued chats.
"""

from typing import Final

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE claudecode_sessions (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        name TEXT NOT NULL UNIQUE,
        tree INTEGER NOT NULL REFERENCES arbor_trees (key) ON DELETE CASCADE,
        head INTEGER NOT NULL REFERENCES arbor_nodes (key),
        working_dir TEXT NOT NULL,
        options TEXT NOT NULL,
        engine TEXT,
        native_id TEXT,
        native_head INTEGER,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX claudecode_sessions_tree ON claudecode_sessions (tree);
    CREATE INDEX claudecode_sessions_head ON claudecode_sessions (head);

    CREATE TABLE claudecode_blobs (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        tree INTEGER NOT NULL REFERENCES arbor_trees (key) ON DELETE CASCADE,
        blob_type TEXT NOT NULL,
        data TEXT NOT NULL,
        complete INTEGER NOT NULL,
        created_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX claudecode_blobs_tree ON claudecode_blobs (tree);

    CREATE TABLE claudecode_turns (
        stream INTEGER PRIMARY KEY REFERENCES chat_streams (key) ON DELETE CASCADE,
        blob BLOB NOT NULL,
        session_id BLOB NOT NULL,
        engine TEXT NOT NULL,
        usage TEXT,
        cost_usd REAL
    ) STRICT;
    CREATE INDEX claudecode_turns_session ON claudecode_turns (session_id);

    CREATE TABLE claudecode_runs (
        stream INTEGER PRIMARY KEY REFERENCES chat_streams (key) ON DELETE CASCADE,
        pid INTEGER NOT NULL,
        started TEXT NOT NULL
    ) STRICT;

    CREATE TABLE claudecode_imports (
        native_id TEXT PRIMARY KEY,
        session_id BLOB NOT NULL REFERENCES claudecode_sessions (id) ON DELETE CASCADE,
        last_uuid TEXT NOT NULL
    ) STRICT;
    CREATE INDEX claudecode_imports_session ON claudecode_imports (session_id);

    CREATE TABLE claudecode_queue (
        stream INTEGER PRIMARY KEY REFERENCES chat_streams (key) ON DELETE CASCADE,
        request TEXT NOT NULL
    ) STRICT;
    """,
    # The prompt of each chat as lists show it, also of chats that wait or never began.
    """
    CREATE TABLE claudecode_prompts (
        stream INTEGER PRIMARY KEY REFERENCES chat_streams (key) ON DELETE CASCADE,
        prompt TEXT NOT NULL
    ) STRICT;
    INSERT INTO claudecode_prompts (stream, prompt)
        SELECT t.stream, substr(replace(b.data ->> 'prompt', char(10), ' '), 1, 200)
        FROM claudecode_turns AS t JOIN claudecode_blobs AS b ON b.id = t.blob
        WHERE b.data ->> 'prompt' IS NOT NULL;
    INSERT OR IGNORE INTO claudecode_prompts (stream, prompt)
        SELECT stream, substr(replace(request ->> 'prompt', char(10), ' '), 1, 200)
        FROM claudecode_queue WHERE request ->> 'prompt' IS NOT NULL;
    """,
    # Approvals, the callers that started sessions, and what a chat needs to continue without its
    # process: its request, its native session file and its environment's source.
    """
    CREATE TABLE claudecode_approvals (
        key INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        asker TEXT NOT NULL,
        session_id BLOB,
        session_name TEXT,
        stream INTEGER REFERENCES chat_streams (key) ON DELETE SET NULL,
        tool_use_id TEXT NOT NULL,
        agent_id TEXT,
        tool_name TEXT NOT NULL,
        input TEXT NOT NULL,
        working_dir TEXT,
        approver TEXT NOT NULL,
        ancestors TEXT NOT NULL,
        escalate_at INTEGER,
        deadline_at INTEGER NOT NULL,
        status TEXT NOT NULL,
        call_state TEXT NOT NULL,
        message TEXT,
        updated_input TEXT,
        decided_by TEXT,
        created_at INTEGER NOT NULL,
        resolved_at INTEGER,
        told INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX claudecode_approvals_pending ON claudecode_approvals (key)
        WHERE status = 'pending';
    CREATE INDEX claudecode_approvals_stream ON claudecode_approvals (stream, tool_use_id);
    CREATE INDEX claudecode_approvals_session ON claudecode_approvals (session_id, key);
    CREATE INDEX claudecode_approvals_call ON claudecode_approvals (tool_use_id);

    ALTER TABLE claudecode_sessions ADD COLUMN parent TEXT;

    CREATE TABLE claudecode_requests (
        stream INTEGER PRIMARY KEY REFERENCES chat_streams (key) ON DELETE CASCADE,
        request TEXT NOT NULL,
        native_file TEXT
    ) STRICT;
    """,
    # The sums of a session's turns, so that a list of sessions reads no turns.
    """
    ALTER TABLE claudecode_sessions ADD COLUMN turns INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE claudecode_sessions ADD COLUMN cost_usd REAL NOT NULL DEFAULT 0;
    UPDATE claudecode_sessions SET
        turns = (SELECT count(*) FROM claudecode_turns AS t
            WHERE t.session_id = claudecode_sessions.id),
        cost_usd = (SELECT coalesce(sum(t.cost_usd), 0) FROM claudecode_turns AS t
            WHERE t.session_id = claudecode_sessions.id);
    """,
    # The tokens and the cost of each turn by model, and the rounds of the agent in it.
    """
    ALTER TABLE claudecode_turns ADD COLUMN num_turns INTEGER;
    CREATE TABLE claudecode_usage (
        stream INTEGER NOT NULL REFERENCES claudecode_turns (stream) ON DELETE CASCADE,
        model TEXT NOT NULL,
        session_id BLOB NOT NULL,
        day TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cache_read_input_tokens INTEGER NOT NULL,
        cache_creation_input_tokens INTEGER NOT NULL,
        cost_usd REAL NOT NULL,
        PRIMARY KEY (stream, model)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX claudecode_usage_session ON claudecode_usage (session_id);
    INSERT INTO claudecode_usage (stream, model, session_id, day, input_tokens, output_tokens,
            cache_read_input_tokens, cache_creation_input_tokens, cost_usd)
        SELECT t.stream, coalesce(b.data ->> 'model', t.engine), t.session_id,
            date(b.created_at, 'unixepoch', 'localtime'),
            coalesce(t.usage ->> 'input_tokens', 0), coalesce(t.usage ->> 'output_tokens', 0),
            coalesce(t.usage ->> 'cache_read_input_tokens', 0),
            coalesce(t.usage ->> 'cache_creation_input_tokens', 0), coalesce(t.cost_usd, 0)
        FROM claudecode_turns AS t JOIN claudecode_blobs AS b ON b.id = t.blob
        WHERE t.usage IS NOT NULL;
    """,
    # The session that wrote a blob. Sessions that fork share a tree.
    "ALTER TABLE claudecode_blobs ADD COLUMN session_id BLOB",
    # The sums of the turns' tokens and costs, so that they need no scan: of each session, model and
    # day, and for each session of each model and day. Triggers keep them, because turns are also
    # removed with their trees. A turn with several models counts once, except by model.
    """
    CREATE INDEX claudecode_turns_blob ON claudecode_turns (blob);
    CREATE TABLE claudecode_usage_totals (
        -- The session; empty for all sessions.
        scope BLOB NOT NULL,
        grouping TEXT NOT NULL,
        -- The id of a session, a model, a day, or nothing.
        label ANY NOT NULL,
        turns INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cache_read_input_tokens INTEGER NOT NULL,
        cache_creation_input_tokens INTEGER NOT NULL,
        cost_usd REAL NOT NULL,
        PRIMARY KEY (scope, grouping, label)
    ) STRICT, WITHOUT ROWID;
    CREATE VIEW claudecode_usage_groups AS
        SELECT u.*, x'' AS scope, 'all' AS grouping, '' AS label FROM claudecode_usage AS u
        UNION ALL SELECT u.*, x'', 'session', u.session_id FROM claudecode_usage AS u
        UNION ALL SELECT u.*, x'', 'model', u.model FROM claudecode_usage AS u
        UNION ALL SELECT u.*, x'', 'day', u.day FROM claudecode_usage AS u
        UNION ALL SELECT u.*, u.session_id, 'model', u.model FROM claudecode_usage AS u
        UNION ALL SELECT u.*, u.session_id, 'day', u.day FROM claudecode_usage AS u;
    INSERT INTO claudecode_usage_totals (scope, grouping, label, turns, input_tokens,
            output_tokens, cache_read_input_tokens, cache_creation_input_tokens, cost_usd)
        SELECT scope, grouping, label, count(DISTINCT stream), sum(input_tokens),
            sum(output_tokens), sum(cache_read_input_tokens), sum(cache_creation_input_tokens),
            sum(cost_usd)
        FROM claudecode_usage_groups GROUP BY scope, grouping, label;
    CREATE TRIGGER claudecode_usage_added AFTER INSERT ON claudecode_usage BEGIN
        INSERT INTO claudecode_usage_totals (scope, grouping, label, turns, input_tokens,
                output_tokens, cache_read_input_tokens, cache_creation_input_tokens, cost_usd)
            SELECT scope, grouping, label, grouping = 'model' OR NOT EXISTS (
                    SELECT 1 FROM claudecode_usage AS o
                    WHERE o.stream = new.stream AND o.model <> new.model
                ), input_tokens, output_tokens, cache_read_input_tokens,
                cache_creation_input_tokens, cost_usd
            FROM claudecode_usage_groups WHERE stream = new.stream AND model = new.model
            ON CONFLICT (scope, grouping, label) DO UPDATE SET
                turns = turns + excluded.turns,
                input_tokens = input_tokens + excluded.input_tokens,
                output_tokens = output_tokens + excluded.output_tokens,
                cache_read_input_tokens =
                    cache_read_input_tokens + excluded.cache_read_input_tokens,
                cache_creation_input_tokens =
                    cache_creation_input_tokens + excluded.cache_creation_input_tokens,
                cost_usd = cost_usd + excluded.cost_usd;
    END;
    CREATE TRIGGER claudecode_usage_removed BEFORE DELETE ON claudecode_usage BEGIN
        UPDATE claudecode_usage_totals SET
            turns = turns - (grouping = 'model' OR NOT EXISTS (
                SELECT 1 FROM claudecode_usage AS o
                WHERE o.stream = old.stream AND o.model <> old.model
            )),
            input_tokens = input_tokens - old.input_tokens,
            output_tokens = output_tokens - old.output_tokens,
            cache_read_input_tokens = cache_read_input_tokens - old.cache_read_input_tokens,
            cache_creation_input_tokens =
                cache_creation_input_tokens - old.cache_creation_input_tokens,
            cost_usd = cost_usd - old.cost_usd
        WHERE (scope, grouping, label) IN (
            SELECT scope, grouping, label FROM claudecode_usage_groups
            WHERE stream = old.stream AND model = old.model
        );
        DELETE FROM claudecode_usage_totals WHERE turns = 0 AND (scope, grouping, label) IN (
            SELECT scope, grouping, label FROM claudecode_usage_groups
            WHERE stream = old.stream AND model = old.model
        );
    END;
    """,
)
