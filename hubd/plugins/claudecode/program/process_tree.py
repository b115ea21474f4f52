"""A child process and all that it has started: how they are found, and how none is left behind.

Three things see to it. The child gets SIGTERM when hubd dies, from the system itself; every process
that it starts inherits a mark in its environment, by which those are found that outlive it; and an
identity can be kept, by which the next hubd ends what is left.
"""

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

# SIGTERM ends `claude` and the processes of its tools; this took 1.6 s, and 3.5 s at its longest.
TERM_SECONDS: Final = 6.0
# SIGKILL is a matter of milliseconds, unless a disk hangs; then waiting does not help either.
KILL_SECONDS: Final = 2.0
# Between two looks at processes that are not our children.
PAUSE_SECONDS: Final = 0.01

MARK_VARIABLE: Final = "HUBD_STREAM"
PROC: Final = Path("/proc")

log = logging.getLogger("hubd.claudecode")


class Identity(NamedTuple):
    """A process for certain: pids are used again, a pid together with a start is not.

    `started` is opaque, and empty where the system does not tell.
    """

    pid: int
    started: str


def identity(pid: int) -> Identity:
    """The process that has this pid now."""
    facts = _facts(pid)
    return Identity(pid, facts.started if facts else "")


@cache
def parent_death_signal() -> tuple[str, ...]:
    """What to put before a command so that the system ends it when our thread dies.

    A program of util-linux that sets the signal and becomes the command: 1 ms. Python code
    between fork and exec could deadlock in a process with threads, and copying the page tables
    of a large daemon takes longer; an interpreter as a launcher takes 11 ms.
    """
    setpriv = shutil.which("setpriv")
    if sys.platform == "linux" and setpriv is not None:
        prefix = (setpriv, "--pdeathsig", "TERM", "--")
        # That of busybox has the name and not the option.
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
            return prefix
    log.warning("no setpriv --pdeathsig: an agent may outlive a hubd that is killed")
    return ()


async def reap(pid: int, started: str, mark: str | None = None) -> bool:
    """End a child that an earlier hubd left behind, and all that it has started.

    Does nothing to a process that merely has the same pid. Cancelling does not stop it.

    Args:
        pid: Of the identity that was kept.
        started: The same.
        mark: The child's mark, by which also those are found that have outlived the child.

    Returns:
        Whether there was anything to end.
    """
    return await asyncio.to_thread(_reap, Identity(pid, started), mark)


def _reap(child: Identity, mark: str | None) -> bool:
    if not _family(child, mark):
        return False
    send_signal(child, signal.SIGTERM)
    deadline = time.monotonic() + TERM_SECONDS
    while _is_running(child) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    kill_family(child, mark)
    return True


def kill_family(child: Identity, mark: str | None) -> None:
    """SIGKILL for a child, its descendants and all that bear its mark, until none is left."""
    if not PROC.is_dir():
        # No way to find those that have left the group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        return
    deadline = time.monotonic() + KILL_SECONDS
    # Again and again: what was just being started is only found the next time.
    while (family := _family(child, mark)) and time.monotonic() < deadline:
        for process in family:
            send_signal(process, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)


def send_signal(process: Identity, number: signal.Signals) -> None:
    """To this process and no other, even if it ends and its pid is used again meanwhile."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform != "linux":
            os.kill(process.pid, number)
            return
        descriptor = os.pidfd_open(process.pid)
        try:
            if identity(process.pid) == process:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _family(child: Identity, mark: str | None) -> list[Identity]:
    """A child, its descendants and all that bear its mark, as far as they run."""
    pids = [int(entry.name) for entry in PROC.glob("[0-9]*")]
    running = {pid: facts for pid in pids if (facts := _facts(pid)) and not facts.is_dead}
    children: dict[int, list[int]] = {}
    for pid, facts in running.items():
        children.setdefault(facts.parent, []).append(pid)
    todo = [pid for pid in running if mark is not None and _bears(pid, mark)]
    if _is_running(child):
        todo.append(child.pid)
    family: dict[int, Identity] = {}
    while todo:
        pid = todo.pop()
        if pid in running and pid not in family and pid != os.getpid():
            family[pid] = Identity(pid, running[pid].started)
            todo += children.get(pid, [])
    return list(family.values())


def _is_running(process: Identity) -> bool:
    facts = _facts(process.pid)
    return facts is not None and not facts.is_dead and facts.started == process.started


class _Facts(NamedTuple):
    """Of a process, at one instant. A dead one is there until its parent takes note."""

    parent: int
    started: str
    is_dead: bool


def _facts(pid: int) -> _Facts | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # Fields from the third on; the second is a name that may hold anything, brackets too.
    fields = text.rpartition(")")[2].split()
    return _Facts(int(fields[1]), f"{_boot()}/{fields[19]}", fields[0] in "ZX")


@cache
def _boot() -> str:
    """Start times are counted from the boot, and pids begin again with it."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _bears(pid: int, mark: str) -> bool:
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{MARK_VARIABLE}={mark}".encode() in environment.split(b"\0")
