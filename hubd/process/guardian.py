"""A small program that ends the children of hubd if hubd is killed.

The system sends a signal only to the child itself when hubd dies. The guardian therefore reads the
marks of running children from a pipe. The pipe ends with hubd, and the guardian then ends all
processes of the children that still ran. After an ordinary stop there are none.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hubd.process.tree import Identity, find_session, find_tree, kill_tree, send_signal

# Seconds between SIGTERM and SIGKILL. The caller is gone, so nothing waits for the result.
GRACE_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.05

# The directory of the package is an argument, because the program sees no PYTHONPATH.
_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from hubd.process.guardian import main; main(sys.stdin.fileno())"
)
_PACKAGE: Final = str(Path(__file__).parent.parent.parent)

log = logging.getLogger(__name__)


class Guardian:
    """Hubd's side: starts the program with the first child, and again if it has ended."""

    def __init__(self) -> None:
        # The running children by their marks.
        self._children: dict[str, Identity] = {}
        # Set while the program runs.
        self._program: subprocess.Popen[bytes] | None = None

    def add(self, mark: str, child: Identity | None = None) -> None:
        """Guard a child: its mark before it starts, then its identity too."""
        self._children[mark] = child or Identity(0, "")
        self._send(_line(mark, self._children[mark]))

    def remove(self, mark: str) -> None:
        """Forget a child that has ended."""
        self._children.pop(mark, None)
        self._send(f"{mark}\n")

    def _send(self, line: str) -> None:
        try:
            if self._program is None or self._program.poll() is not None:
                self._start()
                line = "".join(_line(mark, child) for mark, child in self._children.items())
            assert self._program is not None
            assert self._program.stdin is not None
            os.write(self._program.stdin.fileno(), line.encode())
        except OSError as error:
            # The children run; only a killed hubd would leave them behind.
            log.warning("child processes may outlive a hubd that is killed: %s", error)

    def _start(self) -> None:
        if self._program is not None and self._program.stdin is not None:
            self._program.stdin.close()
        self._program = subprocess.Popen(
            [sys.executable, "-I", "-c", _CODE, _PACKAGE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            bufsize=0,
            # Signals for hubd's group are not for the guardian.
            start_new_session=True,
        )
        assert self._program.stdin is not None
        # A guardian that was stopped must not stop hubd.
        os.set_blocking(self._program.stdin.fileno(), False)


# All children of the process share one guardian.
GUARDIAN: Final = Guardian()


def _line(mark: str, child: Identity) -> str:
    return f"{mark} {child.pid} {child.started}\n"


def main(pipe: int) -> None:
    """Read the children until hubd ends, then end the rest."""
    children: dict[str, Identity] = {}
    with os.fdopen(pipe, encoding="utf-8") as lines:
        for line in lines:
            mark, _, rest = line.rstrip("\n").partition(" ")
            pid, _, started = rest.partition(" ")
            if pid:
                children[mark] = Identity(int(pid), started)
            else:
                children.pop(mark, None)
    end_all(children)


def end_all(children: Mapping[str, Identity]) -> None:
    """End children by their marks with all their processes: SIGTERM, then SIGKILL."""
    processes = _running(children)
    for process in processes:
        send_signal(process, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while processes and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
        processes = _running(children)
    for mark, child in children.items():
        kill_tree(child, mark, find_session(child))


def _running(children: Mapping[str, Identity]) -> set[Identity]:
    return {
        process
        for mark, child in children.items()
        for process in find_tree(child, mark, find_session(child))
    }
