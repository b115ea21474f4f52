"""From nothing to the first answer, and the memory of an idle daemon, as ratios.

`python -m tests.bench.startup`
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hubd.wire import client as wire_client
from hubd.wire.paths import Paths
from tests.support import HUBD, environment

ROUNDS = 11
# The interpreter itself, not a shim in front of it.
PYTHON = sys.executable
BARE = (
    "import sys, asyncio, pydantic, websockets.asyncio.server; print(flush=True); sys.stdin.read()"
)


def pass_seconds() -> float:
    """How long the interpreter takes to do nothing."""
    began = time.perf_counter()
    subprocess.run([PYTHON, "-c", "pass"], check=True)
    return time.perf_counter() - began


def ready_seconds(home: Path, program: Sequence[str] = HUBD) -> tuple[float, int]:
    """How long a daemon takes until it has answered a call; and its memory then, in KiB."""
    paths = Paths(str(home))
    began = time.perf_counter()
    command = [*program, "run", "--detached", "--home", str(home), "--port", "0"]
    process = subprocess.Popen(command, env=environment())
    try:
        while True:
            try:
                list(wire_client.call(paths.socket, "echo.ping", {}))
                break
            except wire_client.ClientError:
                time.sleep(0.001)
        elapsed = time.perf_counter() - began
        # Until the rest of the start-up is done as well.
        time.sleep(0.5)
        return elapsed, resident_kib(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def bare_kib() -> int:
    """The memory of a process that has only loaded the libraries."""
    with subprocess.Popen(
        [PYTHON, "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return resident_kib(process.pid)


def resident_kib(pid: int) -> int:
    """Resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def main() -> None:
    """Measure and print."""
    idle: list[float] = []
    ready: list[float] = []
    memory: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        for number in range(ROUNDS):
            idle.append(pass_seconds())
            seconds, kib = ready_seconds(Path(name) / str(number % 2))
            ready.append(seconds)
            memory.append(kib)
    base, took = statistics.median(idle), statistics.median(ready)
    print(f"python -c pass        {base * 1000:7.1f} ms")
    print(f"daemon ready (unix)   {took * 1000:7.1f} ms   x{took / base:.1f}  (target: <= 20)")
    bare, used = bare_kib(), statistics.median(memory)
    print(f"bare process          {bare / 1024:7.1f} MiB")
    print(f"idle daemon           {used / 1024:7.1f} MiB  x{used / bare:.2f}  (target: <= 1.6)")


if __name__ == "__main__":
    main()
