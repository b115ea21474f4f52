"""Comparing ways of doing the same work on a noisy machine.

All sides run in short slices, taking turns, so that a change of the machine meets all of them.
"""

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

# A slice does some work and returns its units.
Slice = Callable[[], Awaitable[int]]

# No further round begins after this time, if there are enough for quartiles.
MAX_SECONDS: Final = 60.0
ENOUGH_ROUNDS: Final = 3


async def units_per_second(sides: Mapping[str, Slice], rounds: int) -> dict[str, list[float]]:
    """Return the rate of each side in each round."""
    seconds = await seconds_per_unit(sides, rounds)
    return {name: [1 / each for each in values] for name, values in seconds.items()}


async def seconds_per_unit(sides: Mapping[str, Slice], rounds: int) -> dict[str, list[float]]:
    """Return the cost of each side in each round. A round before the first one warms up."""
    samples: dict[str, list[float]] = {name: [] for name in sides}
    end = time.monotonic() + MAX_SECONDS
    for number in range(rounds + 1):
        if number > ENOUGH_ROUNDS and time.monotonic() > end:
            break
        # Every other round in reverse, so that no side always follows the same one.
        for name in list(sides) if number % 2 else reversed(list(sides)):
            began = time.perf_counter()
            units = await sides[name]()
            if number:
                samples[name].append((time.perf_counter() - began) / units)
    return samples


async def rates(sides: Mapping[str, Slice], rounds: int = 15) -> dict[str, float]:
    """Return the median rate of each side in units per second."""
    samples = await units_per_second(sides, rounds)
    return {name: statistics.median(values) for name, values in samples.items()}


def scaled(samples: Mapping[str, list[float]], factor: float) -> dict[str, list[float]]:
    """Return the samples in another unit."""
    return {name: [value * factor for value in values] for name, values in samples.items()}
