"""A program that waits for the end of a pytest process and then kills the processes it started.

Its standard input is a pipe from that process. It finds the others in /proc by the variable that
marks them, so it needs no list of them and also finds daemons that a command started. Where there
is no /proc, it does nothing.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# A process that is waiting for a broken disk can't be killed.
PATIENCE_SECONDS = 10.0


def marked(mark: bytes) -> Iterator[int]:
    """Yield the processes of this user that have the mark in their environment."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # another user's process, or one that has just ended
            ended = b") Z " in (entry / "stat").read_bytes()
            if not ended and mark in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def main() -> None:
    """Wait, then kill until nothing is left."""
    sys.stdin.read()
    mark = f"TEST_RUN={sys.argv[1]}".encode()
    deadline = time.monotonic() + PATIENCE_SECONDS
    # Again and again: a command that is killed may just have started a daemon.
    while (pids := set(marked(mark)) - {os.getpid()}) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
