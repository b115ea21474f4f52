"""A method that has waited is told from one that never waits."""

import asyncio

from hubd.plexus.turns import Turns


async def test_the_number_stays_until_the_event_loop_has_had_a_turn() -> None:
    turns = Turns()
    first = turns.number()
    assert turns.number() == first
    await asyncio.sleep(0)
    second = turns.number()
    assert second != first
    await asyncio.sleep(0)
    assert turns.number() != second


async def test_an_idle_loop_is_not_woken() -> None:
    turns = Turns()
    number = turns.number()
    for _ in range(5):
        await asyncio.sleep(0)
    # One callback for one question, and none after it.
    assert turns.number() == number + 1
