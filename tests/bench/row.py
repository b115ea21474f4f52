"""A row of the benchmark: the two sides, the target, and the verdict of the samples."""

import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from tests.bench.versions import Version

# The end of a side's name if it runs the version that `--against` names.
BEFORE: Final = "@before"

Verdict = Literal["met", "missed", "within noise", "no target"]


class Missing(Exception):
    """A program or a library that a row needs is not here. The text names it and the remedy."""


@dataclass(frozen=True)
class Target:
    """A bound for the median of the ratios."""

    sign: Literal["<=", ">="]
    value: float

    def __str__(self) -> str:
        return f"{self.sign} {self.value:g}"

    def holds_for(self, value: float) -> bool:
        """Return whether a value is on the good side of the bound."""
        return value <= self.value if self.sign == "<=" else value >= self.value


@dataclass(frozen=True)
class Quartiles:
    """The middle half of some values."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Quartiles":
        """Return the quartiles of at least one value."""
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(low, median, high)

    @property
    def spread(self) -> float:
        """The width of the middle half as a share of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


@dataclass
class Samples:
    """The values of a scenario: for each side one value for each round, in order."""

    values: dict[str, list[float]]
    # Sides that could not run, and why.
    missing: dict[str, str] = field(default_factory=dict)
    # Lines to print below the rows.
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """The surroundings of a scenario.

    Attributes:
        directory: An empty directory, removed after the scenario.
        versions: This version, and the one of `--against`.
        rounds: The number of rounds; None for each scenario's own.
        scale: The share of the usual amounts of data and of work, at most 1.
    """

    directory: Path
    versions: tuple[Version, ...]
    rounds: int | None = None
    scale: float = 1.0

    def count(self, usual: int, least: int = 1) -> int:
        """Return a scaled amount."""
        return max(least, int(usual * self.scale))

    def rounds_or(self, usual: int) -> int:
        """Return the number of rounds."""
        return self.rounds or usual


Scenario = Callable[[Bench], Awaitable[Samples]]


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        name: The name on the command line.
        what: The work that is measured.
        against: The work that it is compared with. Empty if the target is a value with a unit.
        target: The bound, or None for a row that only informs.
        unit: The unit of the values of both sides.
        scenario: Measures the sides. Rows with the same scenario share one measurement.
        ours: The side of the hub.
        baseline: The other side. With a `*` at its end, the one with the highest median of
            all sides that begin like this. None if the target is a value.
    """

    name: str
    what: str
    against: str
    target: Target | None
    unit: str
    scenario: Scenario
    ours: str
    baseline: str | None


@dataclass(frozen=True)
class Result:
    """The figures and the verdict of one row."""

    row: Row
    # Why the row was not measured, or None.
    skipped: str | None = None
    # The ratios of the rounds, or the values if there is no baseline.
    ratio: Quartiles | None = None
    ours: Quartiles | None = None
    baseline: Quartiles | None = None
    # The name of the side that was chosen as the baseline.
    chosen: str = ""
    # The same ratio for the version of `--against`, and now over before.
    before: Quartiles | None = None
    change: Quartiles | None = None
    verdict: Verdict = "no target"


def judge(row: Row, samples: Samples) -> Result:
    """Compare the sides of a row round by round.

    If the target lies within the middle half of the ratios, the samples can't tell.
    """
    chosen = _baseline(row, samples)
    for side in (row.ours, chosen):
        if side is not None and side not in samples.values:
            return Result(row, skipped=samples.missing.get(side, f"{side} was not measured"))
    values = samples.values
    against = None if chosen is None else values[chosen]
    ratio = Quartiles.of(_ratios(values[row.ours], against))
    old = values.get(row.ours + BEFORE)
    # Growth is compared with the small amount of the same version.
    old_against = values.get(f"{chosen}{BEFORE}", against)
    return Result(
        row,
        ratio=ratio,
        ours=Quartiles.of(values[row.ours]),
        baseline=None if against is None else Quartiles.of(against),
        chosen=chosen or "",
        before=None if old is None else Quartiles.of(_ratios(old, old_against)),
        change=None if old is None else Quartiles.of(_ratios(values[row.ours], old)),
        verdict=_verdict(row.target, ratio),
    )


def _baseline(row: Row, samples: Samples) -> str | None:
    if row.baseline is None or not row.baseline.endswith("*"):
        return row.baseline
    beginning = row.baseline[:-1]
    medians = {
        name: statistics.median(values)
        for name, values in samples.values.items()
        if name.startswith(beginning)
    }
    missing = [name for name in samples.missing if name.startswith(beginning)]
    if not medians:
        return missing[0] if missing else beginning
    return max(medians, key=lambda name: medians[name])


def _ratios(ours: Sequence[float], against: Sequence[float] | None) -> list[float]:
    if against is None:
        return list(ours)
    return [mine / other for mine, other in zip(ours, against, strict=True)]


def _verdict(target: Target | None, ratio: Quartiles) -> Verdict:
    if target is None:
        return "no target"
    ends = {target.holds_for(ratio.low), target.holds_for(ratio.high)}
    if len(ends) == 2:
        return "within noise"
    return "met" if ends.pop() else "missed"


def by_scenario(rows: Sequence[Row]) -> Mapping[Scenario, list[Row]]:
    """Group rows that share a measurement."""
    groups: dict[Scenario, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.scenario, []).append(row)
    return groups
