"""Tokens and costs by session, branch, model and day, and the budget of a session."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.plugins.claudecode.costs.budget import remaining
from hubd.plugins.claudecode.costs.usage import Spent, by_model, end_turn
from hubd.plugins.claudecode.protocol.messages import ResultLine
from tests.plugins.claudecode.chat_support import Failure, World, run, say, world
from tests.plugins.claudecode.scripted_chat import NOW, begin_chat, claude_hub
from tests.support import call_events

MODELS = {
    "big": {"inputTokens": 10, "outputTokens": 5, "costUSD": 0.5, "contextWindow": 1},
    "small": {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokens": 3, "costUSD": 0.25},
}


def result(cost: float | None, models: Any = None, rounds: int = 2) -> ResultLine:
    usage = {"input_tokens": 11, "output_tokens": 7}
    raw = {} if models is None else {"modelUsage": models}
    return ResultLine("success", False, "x", None, usage, cost, rounds, None, None, raw)


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "offline") as each:
        yield each


async def test_costs_are_summed_by_model_and_day(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as (hub, plugin):
        chat = await begin_chat(plugin)
        key, session_id = chat.stream.key, chat.session.id
        for ending in (result(9.0), result(0.75, MODELS)):
            # The second end replaces the first.
            await plugin.db.transaction(
                lambda tx, ending=ending: end_turn(tx, key, session_id, ending, {}, NOW)  # type: ignore[misc]
            )
        [usage] = await call_events(hub, "claudecode.usage", by="model")
        assert [(row["label"], row["cost_usd"], row["turns"]) for row in usage["rows"]] == [
            ("big", 0.5, 1),
            ("small", 0.25, 1),
        ]
        assert (usage["turns"], usage["cost_usd"], usage["input_tokens"]) == (1, 0.75, 11)
        assert usage["cache_read_input_tokens"] == 3
        [by_day] = await call_events(hub, "claudecode.usage", by="day")
        assert [row["label"] for row in by_day["rows"]] == ["2023-11-14"]
        [page] = await call_events(hub, "claudecode.list")
        assert page["sessions"][0]["cost_usd"] == 0.75


async def test_a_branch_has_the_turns_on_its_path(here: World) -> None:
    await here.chat(say("one"))
    await here.one("fork", name="s", new_name="other")
    await here.chat(say("two"))
    await here.chat(say("three"))
    await here.chat(say("else"), name="other")
    usage = await here.one("usage", name="s", by="branch")
    assert [(row["label"], row["turns"]) for row in usage["rows"]] == [("s", 3), ("other", 2)]
    assert usage["turns"] == 4
    by_session = await here.one("usage")
    turns = {row["label"]: row["turns"] for row in by_session["rows"]}
    assert turns == {"s": 3, "other": 1}
    with pytest.raises(Failure, match="a branch belongs to a session"):
        await here.one("usage", by="branch")


async def test_a_session_stops_at_its_budget_of_turns(here: World) -> None:
    # The agent needs a second round for the result of its call.
    ended = await here.chat(run("true"), say("done"), max_turns=1, allowed_tools=["Bash"])
    assert ended.status == "failed"
    assert "maximum number of turns (1)" in ended.events[-1]["message"]
    with pytest.raises(Failure, match="of its 1 turns") as refused:
        await here.chat(say("more"))
    assert refused.value.code == "conflict"
    ended = await here.chat(say("more"), max_turns=20)
    assert ended.status == "complete"


@given(st.integers(0, 10), st.floats(0, 10), st.integers(1, 10), st.floats(0.01, 10))
def test_no_chat_may_exceed_the_rest_of_a_budget(
    turns: int, cost: float, max_turns: int, max_cost: float
) -> None:
    from hubd.errors import Conflict

    options = {"max_turns": max_turns, "max_cost": max_cost}
    try:
        rest = remaining("s", options, Spent(turns, cost))
    except Conflict:
        assert turns >= max_turns or cost >= max_cost
    else:
        assert rest.turns is not None
        assert rest.cost_usd is not None
        assert 0 < rest.turns == max_turns - turns
        assert 0 < rest.cost_usd <= max_cost
    assert remaining("s", {}, Spent(turns, cost)) == (None, None)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_result_lines_of_any_shape_give_valid_sums(value: object) -> None:
    for models in (value, {"m": value}, {"m": {"inputTokens": value, "costUSD": value}}):
        for entry in by_model({"input_tokens": value}, None, models, "x"):
            assert all(isinstance(count, int) and count >= 0 for count in entry.tokens)
            assert entry.cost_usd >= 0


@pytest.mark.soak
async def test_claude_stops_at_the_cost_of_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch, "claude") as here:
        ended = await here.chat(run("echo 1"), run("echo 2"), say("done"), max_cost=0.000001)
        assert ended.status == "failed", ended.events[-1]
        assert "budget" in ended.events[-1]["message"].lower()
        with pytest.raises(Failure, match="has spent"):
            await here.chat(say("more"))
