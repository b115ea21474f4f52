"""The stored sums of tokens and costs equal those of a scan over all turns."""

import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.plexus.hub import Hub
from hubd.plugins.claudecode.costs.usage import COLUMNS, end_turn
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.protocol.messages import ResultLine
from hubd.plugins.claudecode.tables import MIGRATIONS
from hubd.storage.arbor import references, tree
from hubd.storage.database import Database, Tx
from tests.plugins.claudecode.chat_support import World, run, say, world
from tests.plugins.claudecode.scripted_chat import NOW, begin_chat, claude_hub, in_a_hub
from tests.support import call_events, examples

SESSIONS = ("a", "b", "c")
DAY = 24 * 60 * 60
# The parts of the migration that adds the sums.
USAGE_TOTALS = (
    "TRIGGER claudecode_usage_added",
    "TRIGGER claudecode_usage_removed",
    "VIEW claudecode_usage_groups",
    "TABLE claudecode_usage_totals",
    "INDEX claudecode_turns_blob",
)

model_usage = st.fixed_dictionaries(
    {"inputTokens": st.integers(0, 9), "costUSD": st.sampled_from([0, 0.25, 0.125, 3])}
)
results = st.none() | st.dictionaries(st.sampled_from(["big", "small"]), model_usage)
# The end of a turn, again or for the first time; the deletion of a session; that of its tree.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.sampled_from(SESSIONS), results, st.integers(0, 2)),
        st.tuples(st.just("end_again"), st.sampled_from(SESSIONS), results, st.integers(0, 2)),
        st.tuples(st.just("delete"), st.sampled_from(SESSIONS), st.none(), st.just(0)),
        st.tuples(st.just("purge"), st.sampled_from(SESSIONS), st.none(), st.just(0)),
    ),
    max_size=12,
)


def result(models: Any) -> ResultLine:
    raw = {"modelUsage": models}
    usage = {"output_tokens": 3}
    return ResultLine("success", False, "x", None, usage, 1.0, 1, None, None, raw)


async def scan(db: Database, column: str, session_id: bytes | None) -> dict[Any, tuple[Any, ...]]:
    """Sum up the rows of all turns, by a column."""
    sums = ", ".join(f"sum({name})" for name in COLUMNS[1:])
    rows = await db.fetch_rows(
        f"SELECT {column}, count(DISTINCT stream), {sums} FROM claudecode_usage "
        f"WHERE ?1 IS NULL OR session_id = ?1 GROUP BY {column}",
        session_id,
    )
    return {row[0]: row[1:] for row in rows}


async def check(hub: Hub, db: Database) -> None:
    """Compare the results of the method with a scan."""
    table_rows = await db.fetch_rows("SELECT id, name FROM claudecode_sessions")
    for session_id, name in [(None, None), *table_rows]:
        for by in ("session", "model", "day"):
            where = {} if name is None else {"name": name}
            [usage] = await call_events(hub, "claudecode.usage", by=by, **where)
            expected = await scan(db, "session_id" if by == "session" else by, session_id)
            rows = {_label(row): [row[name] for name in COLUMNS] for row in usage["rows"]}
            assert rows == {_text(label): list(sums) for label, sums in expected.items()}
            everything = await scan(db, "''", session_id)
            total = everything.get("", (0,) * len(COLUMNS))
            assert [usage[name] for name in COLUMNS] == list(total)


def _label(row: dict[str, Any]) -> str:
    return str(row["session_id"].replace("-", "") if row["session_id"] else row["label"])


def _text(label: bytes | str) -> str:
    return label.hex() if isinstance(label, bytes) else label


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "offline") as each:
        yield each


@given(steps)
@examples(15)
def test_the_sums_equal_a_scan_after_ends_continuations_and_deletions(actions: list[Any]) -> None:
    async def example(hub: Hub, plugin: ClaudeCode) -> None:
        newest: dict[str, tuple[int, bytes]] = {}
        for action, name, models, days in actions:
            if action == "end" or (action == "end_again" and name not in newest):
                chat = await begin_chat(plugin, name)
                newest[name] = chat.stream.key, chat.session.id
                plugin.queue._places.running.pop(chat.stream.key)
            step: Callable[[Tx], None] | None = None
            if action in ("end", "end_again"):
                stream, session_id = newest[name]
                step = partial(
                    end_turn,
                    stream=stream,
                    session_id=session_id,
                    result=None if models is None else result(models),
                    turn={"engine": "x"},
                    now=NOW + days * DAY,
                )
            elif newest.pop(name, None):
                step = partial(_remove, name=name, action=action)
            if step is not None:
                await plugin.db.transaction(step)
            await check(hub, plugin.db)

    with tempfile.TemporaryDirectory() as directory:
        in_a_hub(Path(directory), example)


def _remove(tx: Tx, name: str, action: str) -> None:
    row = tx.fetch_one(
        "SELECT s.key, s.tree, t.id FROM claudecode_sessions AS s "
        "JOIN arbor_trees AS t ON t.key = s.tree WHERE s.name = ?",
        name,
    )
    assert row is not None
    tx.execute("DELETE FROM claudecode_sessions WHERE key = ?", row["key"])
    if action == "purge":
        tree.remove(tx, row["tree"], row["id"])
        while references.purge(tx):
            pass


async def test_sums_of_turns_from_before_the_sums_were_stored_are_added(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as (hub, plugin):
        for name, models in (("a", ["big", "small"]), ("b", ["big"])):
            chat = await begin_chat(plugin, name)
            ended = result({model: {"inputTokens": 2, "costUSD": 0.5} for model in models})
            await plugin.db.transaction(
                lambda tx, chat=chat, ended=ended: end_turn(  # type: ignore[misc]
                    tx, chat.stream.key, chat.session.id, ended, {}, NOW
                )
            )
        await plugin.db.transaction(_undo_migration)
        await plugin.db.migrate("claudecode", MIGRATIONS)
        await check(hub, plugin.db)


def _undo_migration(tx: Tx) -> None:
    for what in USAGE_TOTALS:
        tx.execute(f"DROP {what}")
    tx.execute("DELETE FROM hub_migrations WHERE owner = 'claudecode' AND number = 7")


async def test_the_sums_equal_a_scan_after_a_fork_a_failure_and_a_deletion(here: World) -> None:
    await here.chat(say("one"))
    await here.one("fork", name="s", new_name="other")
    await here.chat(say("two"), name="other")
    failed = await here.chat(run("true"), say("done"), max_turns=2, allowed_tools=["Bash"])
    assert failed.status == "failed"
    assert here.hub.database is not None
    await check(here.hub, here.hub.database)
    await here.one("delete", name="other")
    await check(here.hub, here.hub.database)
