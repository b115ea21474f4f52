"""Measure the rows of the table and print each with its target.

`python -m tests.bench` measures all rows that have a place in `docs/performance.md`. A row says
whether its target is met, missed, or within the noise; nothing is asserted.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from subprocess import CalledProcessError
from typing import Final

from tests.bench import budget, machine, report
from tests.bench.row import Bench, Missing, Result, Row, Samples, Scenario, by_scenario, judge
from tests.bench.table import BY_NAME, MORE, ROWS
from tests.bench.versions import ROOT, UnknownCommit, Version, at_commit, current
from tests.clean_environment import clean

# A scenario that takes longer has met a hang.
SCENARIO_SECONDS: Final = 300.0
# The share of the usual amounts with `--small`.
SMALL: Final = 0.02
# The errors of a scenario whose server or client did not do its part.
FAILURES: Final = (AssertionError, ExceptionGroup, OSError, ValueError, CalledProcessError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="some rows, or `budget`")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--all", action="store_true", help="measure rows without a target too")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each comparison")
    parser.add_argument("--small", action="store_true", help="try the rows with little work")
    parser.add_argument("--against", metavar="COMMIT", help="measure this commit in the same run")
    parser.add_argument("--markdown", action="store_true", help="print a table for the docs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to a file")
    options = parser.parse_args(arguments)
    if options.list:
        for row in (*ROWS, *MORE):
            print(f"{row.name:<24} {row.what}" + (f", against {row.against}" * bool(row.against)))
        print(f"{'budget':<24} where the processor time of a call goes")
        return 0
    if unknown := [name for name in options.rows if name not in (*BY_NAME, "budget")]:
        parser.error(f"there is no row {', '.join(unknown)}: --list names them")
    # Variables of the shell must reach neither side.
    # Tests keep their files in memory. Durable writes are measured on a disk.
    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    clean()
    with tempfile.TemporaryDirectory() as scratch:
        versions = [current(Path(scratch))]
        if options.against:
            try:
                versions.append(at_commit(options.against, Path(scratch)))
            except UnknownCommit as problem:
                parser.error(str(problem))
        if "budget" in options.rows:
            rounds = options.rounds or budget.ROUNDS
            asyncio.run(budget.show(versions, Path(scratch), rounds))
            options.rows.remove("budget")
            if not options.rows:
                return 0
        rows = [BY_NAME[name] for name in options.rows] or [*ROWS, *(MORE if options.all else [])]
        scale = SMALL if options.small else 1.0
        run = Run(tuple(versions), options.rounds, scale, is_table=options.markdown)
        run.measure(rows)
    if options.json:
        written = report.as_json(run.results, run.samples, run.machine)
        options.json.write_text(json.dumps(written, indent=1, default=str))
    return int(run.has_failed)


class Run:
    """One run of the command."""

    def __init__(
        self, versions: tuple[Version, ...], rounds: int | None, scale: float, *, is_table: bool
    ) -> None:
        self._versions = versions
        self._rounds = rounds
        self._scale = scale
        self._is_table = is_table
        self.machine = machine.describe(machine.commit_of(ROOT))
        self.results: list[Result] = []
        # The samples of each scenario, by the name of its first row.
        self.samples: dict[str, dict[str, list[float]]] = {}
        # Whether a row could not be measured although nothing is missing.
        self.has_failed = False

    def measure(self, rows: Sequence[Row]) -> None:
        """Measure the rows and print them as they come, or a table in the end."""
        began = time.monotonic()
        self._print(machine.sentences(self.machine))
        for scenario, group in by_scenario(rows).items():
            for line in self._measure_group(scenario, group):
                self._print(line)
        order = [row.name for row in rows]
        self.results.sort(key=lambda result: order.index(result.row.name))
        minutes = (time.monotonic() - began) / 60
        self._print(f"\n{minutes:.1f} minutes, load {os.getloadavg()[0]:.1f} at the end")
        if self._is_table:
            print("\n".join(report.markdown(self.results)))

    def _measure_group(self, scenario: Scenario, group: list[Row]) -> list[str]:
        try:
            samples = asyncio.run(self._samples(scenario))
        except Missing as problem:
            results = [Result(row, skipped=str(problem)) for row in group]
            samples = Samples({})
        except FAILURES as problem:
            # The other rows are worth having, and the exit status tells.
            self.has_failed = True
            reason = f"failed: {type(problem).__name__}: {problem}"
            results = [Result(row, skipped=reason) for row in group]
            samples = Samples({})
        else:
            results = [judge(row, samples) for row in group]
        self.results += results
        self.samples[group[0].name] = samples.values
        lines = [line for result in results for line in report.text(result)]
        return ["", *lines, *(f"    ({note})" for note in samples.notes)]

    async def _samples(self, scenario: Scenario) -> Samples:
        async with AsyncExitStack() as stack:
            name = stack.enter_context(tempfile.TemporaryDirectory())
            await stack.enter_async_context(asyncio.timeout(SCENARIO_SECONDS))
            return await scenario(Bench(Path(name), self._versions, self._rounds, self._scale))

    def _print(self, line: str) -> None:
        """Print a line; beside a table, to standard error."""
        print(line, file=sys.stderr if self._is_table else sys.stdout, flush=True)


if __name__ == "__main__":
    # Servers are stopped too if the run is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
