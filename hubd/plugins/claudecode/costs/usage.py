"""Tokens and costs: read from an agent's result lines, stored by turn and model, and summed up.

Prices are the agent's own. The hub never computes a cost from tokens.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from pydantic_core import to_json

from hubd.plugins.claudecode.protocol.messages import ResultLine
from hubd.storage.by_id import rows_by_id
from hubd.storage.database import Database, Tx
from hubd.storage.readers import Value

Grouping = Literal["session", "model", "day"]

# The tokens of a turn: the name of the column, and its name in the agent's result line.
TOKENS: Final = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
}
# The sums of turns.
COLUMNS: Final = ("turns", *TOKENS, "cost_usd")
_TOTALS: Final = ", ".join(f"t.{name}" for name in COLUMNS)
_OF_TURNS: Final = f"""
    SELECT u.stream, {", ".join(f"u.{name}" for name in COLUMNS[1:])}
    FROM claudecode_turns AS t JOIN claudecode_usage AS u ON u.stream = t.stream WHERE t.blob
"""


class ModelUsage(NamedTuple):
    """The tokens and the cost of one model in one turn."""

    model: str
    # In the order of `TOKENS`.
    tokens: tuple[int, ...]
    cost_usd: float


class Spent(NamedTuple):
    """What a session has used so far."""

    # Rounds of the agent, as its result lines count them.
    turns: int
    cost_usd: float


def by_model(
    usage: Mapping[str, Any], cost_usd: float | None, models: object, model: str
) -> list[ModelUsage]:
    """Return the tokens and costs of a turn by model.

    Args:
        usage: The tokens of the whole turn.
        cost_usd: The cost of the whole turn.
        models: The field `modelUsage` of the result line, which has any shape.
        model: The model of the turn, for a result line without that field.
    """
    if isinstance(models, dict) and models:
        return [
            ModelUsage(
                name,
                tuple(_count(entry.get(field)) for field in TOKENS.values()),
                _cost(entry.get("costUSD")),
            )
            for name, entry in models.items()
            if isinstance(entry, dict)
        ]
    return [ModelUsage(model, tuple(_count(usage.get(name)) for name in TOKENS), _cost(cost_usd))]


def end_turn(
    tx: Tx,
    stream: int,
    session_id: bytes,
    result: ResultLine | None,
    turn: Mapping[str, Any],
    now: int,
) -> None:
    """Store the tokens and the cost of a turn, and add the cost to its session.

    A turn may end twice, if its chat continued in another process. The second end replaces the
    first.

    Args:
        tx: The running transaction.
        stream: The key of the stream.
        session_id: The session.
        result: The agent's result line, or None without one.
        turn: The data of the turn.
        now: The time in seconds.
    """
    tokens = result.usage if result else {}
    cost = result.cost_usd if result else None
    tx.execute(
        "UPDATE claudecode_sessions SET cost_usd = cost_usd + ?1 - coalesce("
        "(SELECT t.cost_usd FROM claudecode_turns AS t WHERE t.stream = ?2), 0) WHERE id = ?3",
        cost or 0.0,
        stream,
        session_id,
    )
    tx.execute(
        "UPDATE claudecode_turns SET usage = ?, cost_usd = ?, num_turns = ? WHERE stream = ?",
        to_json(tokens).decode(),
        cost,
        result.num_turns if result else None,
        stream,
    )
    tx.execute("DELETE FROM claudecode_usage WHERE stream = ?", stream)
    if result is None:
        return
    day = datetime.fromtimestamp(now).date().isoformat()
    model = str(turn.get("model") or turn.get("engine"))
    columns = ", ".join(("stream", "model", "session_id", "day", *TOKENS, "cost_usd"))
    for entry in by_model(tokens, cost, result.raw.get("modelUsage"), model):
        values: list[Value] = [stream, entry.model, session_id, day, *entry.tokens, entry.cost_usd]
        marks = ", ".join("?" * len(values))
        tx.execute(f"INSERT INTO claudecode_usage ({columns}) VALUES ({marks})", *values)


async def grouped(
    db: Database, by: Grouping, session_id: bytes | None = None
) -> list[dict[str, Any]]:
    """Return the sums of one session, or of all, the highest cost first; days in order."""
    scope, condition = session_id or b"", ""
    if by == "session" and session_id is not None:
        # The sums of a session are a row of the sums of all.
        scope, condition = b"", "AND t.label = ?3"
    order = "t.label" if by == "day" else "t.cost_usd DESC, t.turns DESC"
    return await db.fetch_all(
        f"SELECT t.label, s.name, {_TOTALS} FROM claudecode_usage_totals AS t "
        "LEFT JOIN claudecode_sessions AS s ON s.id = t.label "
        f"WHERE t.scope = ?1 AND t.grouping = ?2 {condition} ORDER BY {order}",
        scope,
        by,
        *((session_id,) if condition else ()),
    )


async def total(db: Database, session_id: bytes | None = None) -> dict[str, Any]:
    """Return the sums of one session, or of all."""
    by, label = ("all", "") if session_id is None else ("session", session_id)
    row = await db.fetch_one(
        f"SELECT {_TOTALS} FROM claudecode_usage_totals AS t "
        "WHERE t.scope = x'' AND t.grouping = ? AND t.label = ?",
        by,
        label,
    )
    return row or dict.fromkeys(COLUMNS, 0)


async def of_turns(db: Database, turn_blobs: Iterable[bytes]) -> dict[str, Any]:
    """Return the sums of some turns, such as those of a branch."""
    rows = await rows_by_id(db, _OF_TURNS, turn_blobs)
    streams = {row[0] for row in rows}
    columns = zip(*(row[1:] for row in rows), strict=True) if rows else [()] * len(COLUMNS[1:])
    return dict(zip(COLUMNS, (len(streams), *map(sum, columns)), strict=True))


async def spent(db: Database, session_id: bytes) -> Spent:
    """Return what a session has used so far."""
    [row] = await db.fetch_rows(
        "SELECT coalesce(sum(num_turns), 0), coalesce(sum(cost_usd), 0) FROM claudecode_turns "
        "WHERE session_id = ?",
        session_id,
    )
    return Spent(*row)


def _count(value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62
    return int(str(value)) if is_count else 0


def _cost(value: object) -> float:
    is_cost = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return float(str(value)) if is_cost else 0.0
