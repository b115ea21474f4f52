"""Coroutines that must be awaited work everywhere a coroutine does, and nowhere else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hubd.storage.must_await import must_await


@must_await
async def doubled(n: int) -> int:
    """Return twice the number."""
    await asyncio.sleep(0)
    if n < 0:
        raise ValueError("negative")
    return 2 * n


WAYS: list[Callable[[Any], Awaitable[Any]]] = [
    lambda coroutine: coroutine,
    asyncio.create_task,
    lambda coroutine: asyncio.gather(coroutine),
    lambda coroutine: asyncio.wait_for(coroutine, 10),
    lambda coroutine: asyncio.shield(coroutine),
]


async def test_every_way_to_await_gives_the_result_or_the_error() -> None:
    for way in WAYS:
        result = await way(doubled(21))
        assert result in (42, [42])
        with pytest.raises(ValueError, match="negative"):
            await way(doubled(-1))


async def test_cancelling_the_task_ends_the_wait() -> None:
    task = asyncio.create_task(doubled(1))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("use", [bool, list, lambda value: value["n"], lambda value: value and 1])
def test_a_use_without_await_is_refused_by_name(use: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"doubled\(…\) was used without `await`"):
        use(doubled(1))
