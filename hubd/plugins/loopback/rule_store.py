"""The SQL of rules.

The functions with a `tx` belong to the caller's transaction. To decide a call, read the usable
rules, decide and count the uses in one transaction, so that no rule changes in between.
"""

from typing import Any, Final

from hubd.errors import Ambiguous, Conflict, NotFound
from hubd.plugins.loopback.rules.rule import NewRule, Rule
from hubd.storage import ids
from hubd.storage.database import Database, Tx

# The most rules at a time: every call is compared with each of them.
MAX_RULES: Final = 1000

_SELECT: Final = (
    "SELECT effect, tool, pattern, scope, expires_at, uses_left, resolved, added_by, id, key, "
    "created_at FROM loopback_rules"
)
_USABLE: Final = "(expires_at IS NULL OR expires_at > ?1) AND (uses_left IS NULL OR uses_left > 0)"
_ADVICE: Final = "List the rules with `synapse loopback rules-list`"


def add(tx: Tx, new: NewRule, now: int) -> Rule:
    """Store a rule. Return the stored rule, or an equal one without limits that exists already.

    Rules that are expired or used up are removed first.

    Raises:
        Conflict: There are too many rules.
    """
    tx.raw.execute(f"DELETE FROM loopback_rules WHERE NOT ({_USABLE})", (now,))
    values = (new.effect, new.tool, new.pattern, new.resolved, new.scope)
    if new.expires_at is None and new.uses_left is None:
        row = tx.raw.execute(
            f"{_SELECT} WHERE (effect, tool) = (?, ?) AND pattern IS ? AND resolved IS ? "
            "AND scope = ? AND expires_at IS NULL AND uses_left IS NULL",
            values,
        ).fetchone()
        if row is not None:
            return _rule(row)
    if tx.raw.execute("SELECT count(*) FROM loopback_rules").fetchone()[0] >= MAX_RULES:
        raise Conflict(
            f"there are {MAX_RULES} rules, which is the most",
            suggestion="Remove some with `synapse loopback rules-remove`",
        )
    rule_id = ids.uuid4()
    tx.raw.execute(
        "INSERT INTO loopback_rules (effect, tool, pattern, resolved, scope, expires_at, "
        "uses_left, added_by, id, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, new.expires_at, new.uses_left, new.added_by, rule_id, now),
    )
    return _rule(tx.raw.execute(f"{_SELECT} WHERE id = ?", (rule_id,)).fetchone())


def remove(tx: Tx, written: str) -> Rule:
    """Remove the rule with this id, or with these first digits of an id, and return it.

    Raises:
        NotFound, Ambiguous: No rule matches, or several do.
    """
    span = ids.span(written)
    rows: list[tuple[Any, ...]] = []
    if span is not None:
        rows = tx.raw.execute(f"{_SELECT} WHERE id BETWEEN ? AND ? LIMIT 2", span).fetchall()
    if not rows:
        raise NotFound(f"no rule '{written[:80]}'", suggestion=_ADVICE)
    if len(rows) > 1:
        raise Ambiguous(
            f"more than one rule has an id that starts with {written}",
            available=[ids.text(_rule(row).id) for row in rows],
        )
    rule = _rule(rows[0])
    tx.raw.execute("DELETE FROM loopback_rules WHERE key = ?", (rule.key,))
    return rule


def usable(tx: Tx, now: int) -> list[Rule]:
    """Return all rules that are not expired or used up."""
    return list(map(_rule, tx.raw.execute(f"{_SELECT} WHERE {_USABLE}", (now,))))


def use(tx: Tx, rule_id: bytes, now: int) -> bool:
    """Count one use of a rule.

    Returns:
        False if the rule is removed, expired or used up. The caller then decides again.
    """
    row = tx.raw.execute(
        f"SELECT key, uses_left FROM loopback_rules WHERE {_USABLE} AND id = ?2", (now, rule_id)
    ).fetchone()
    if row is None:
        return False
    key, uses_left = row
    if uses_left is not None:
        tx.raw.execute("UPDATE loopback_rules SET uses_left = uses_left - 1 WHERE key = ?", (key,))
    return True


async def all_rules(db: Database) -> list[Rule]:
    """Return all rules, also those that are expired or used up, for explanations."""
    return list(map(_rule, await db.fetch_rows(f"{_SELECT} ORDER BY key")))


async def page(db: Database, before: int, limit: int, now: int) -> list[Rule]:
    """Return the usable rules with a smaller key, the newest first."""
    rows = await db.fetch_rows(
        f"{_SELECT} WHERE {_USABLE} AND key < ?2 ORDER BY key DESC LIMIT ?3", now, before, limit
    )
    return list(map(_rule, rows))


def _rule(row: tuple[Any, ...]) -> Rule:
    return Rule(*row)
