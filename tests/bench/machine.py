"""The machine: its cores, its load, and how much its speed varies."""

import os
import platform
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.bench.row import Quartiles

ROOT: Final = Path(__file__).parent.parent.parent
SLICES: Final = 30
# Work of about 3 ms.
STEPS: Final = 50_000
SYNCS: Final = 10


def describe(commit: str) -> dict[str, Any]:
    """Measure the same work again and again. Its spread is the noise of the machine."""
    with tempfile.TemporaryDirectory() as name:
        processor = Quartiles.of([_seconds(_count) for _ in range(SLICES)])
        disk = Quartiles.of([_seconds(lambda: _sync(Path(name))) for _ in range(SLICES)])
    return {
        "commit": commit,
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "processor_spread": processor.spread,
        "sync_ms": disk.median / SYNCS * 1000,
        "sync_spread": disk.spread,
    }


def sentences(machine: Mapping[str, Any]) -> str:
    """Return the description in words."""
    load, cores = machine["load"][0], machine["cores"]
    quiet = "" if load < cores / 2 else "; the machine is not quiet, so trust no verdict"
    return (
        f"commit {machine['commit']}, {cores} cores, Python {machine['python']}, "
        f"SQLite {machine['sqlite']}\n"
        f"noise of the machine alone: processor {machine['processor_spread']:.0%}, "
        f"one fdatasync of 512 bytes {machine['sync_ms']:.2f} ms {machine['sync_spread']:.0%}, "
        f"load {load:.1f}{quiet}"
    )


def commit_of(directory: Path) -> str:
    """Return the commit of a work tree, with a mark if files differ from it."""
    command = ["git", "-C", str(directory), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def processor_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process, in user and kernel mode.

    On Linux each process has a clock, of which `/proc/PID/stat` shows only hundredths of a second.
    Its number is the process id, inverted, before the three bits of the kind of clock.
    """
    return time.clock_gettime((~pid << 3) | 2)


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _count() -> None:
    total = 0
    for number in range(STEPS):
        total += number


def _sync(directory: Path) -> None:
    with (directory / "synced").open("ab", buffering=0) as file:
        for _ in range(SYNCS):
            file.write(bytes(512))
            os.fdatasync(file.fileno())
