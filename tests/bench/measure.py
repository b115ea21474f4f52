"""Comparing two ways of doing the same work on a noisy machine.

Both sides run in short slices, taking turns. The report is the ratio of the medians.
"""

import statistics
import time
from collections.abc import Awaitable, Callable

Slice = Callable[[], Awaitable[int]]


async def rates(sides: dict[str, Slice], rounds: int = 15) -> dict[str, float]:
    """The median rate of each side in units of work per second; a slice returns its units."""
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, work in sides.items():
            began = time.perf_counter()
            units = await work()
            if number:  # the first round warms up
                samples[name].append(units / (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in samples.items()}


def report(title: str, measured: dict[str, float], unit: str, against: str, target: str) -> None:
    """One block: every side's rate and its ratio to the side it is compared with."""
    print(f"\n{title}  (target: {target})")
    for name, rate in measured.items():
        print(f"  {name:<44} {rate:>12,.0f} {unit}   x{rate / measured[against]:.2f}")
