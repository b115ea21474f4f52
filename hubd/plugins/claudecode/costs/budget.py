"""The budget of a session: the most that its chats may cost, and the most rounds of its agent."""

from typing import Any, NamedTuple

from hubd.activation import Conflict
from hubd.plugins.claudecode.costs.usage import Spent


class Budget(NamedTuple):
    """The rest of a session's budget; None for no limit."""

    turns: int | None = None
    cost_usd: float | None = None


def remaining(name: str, options: dict[str, Any], spent: Spent) -> Budget:
    """Return the rest of a budget.

    Args:
        name: The name of the session, for the message.
        options: The options of the session.
        spent: What its chats have used.

    Raises:
        Conflict: Nothing is left.
    """
    max_turns, max_cost = options.get("max_turns"), options.get("max_cost")
    if max_turns is not None and spent.turns >= max_turns:
        raise Conflict(
            f"session '{name}' has used {spent.turns} of its {max_turns} turns",
            suggestion="Raise the budget with max_turns, or use another session",
        )
    if max_cost is not None and spent.cost_usd >= max_cost:
        raise Conflict(
            f"session '{name}' has spent ${spent.cost_usd:.4f} of its ${max_cost:.4f}",
            suggestion="Raise the budget with max_cost, or use another session",
        )
    return Budget(
        None if max_turns is None else max_turns - spent.turns,
        None if max_cost is None else max_cost - spent.cost_usd,
    )
