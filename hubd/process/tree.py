"""A child process and all its descendants: how hubd finds them and ends them.

Every process of a child inherits a mark in its environment. Orphans stay below the child, because
the launcher makes it a subreaper. When it ends, they become children of hubd. Orphans without the
mark then keep running, because they may come from another program that a plugin started. A child's
identity can be stored, so that the next hubd ends the processes of a killed one.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

# SIGTERM ends `claude` and the processes of its tools within 1.6 s on average, 3.5 s at most.
TERM_SECONDS: Final = 6.0
# SIGKILL takes milliseconds, unless a disk hangs; then a longer wait doesn't help.
KILL_SECONDS: Final = 2.0
# Seconds between two checks of processes that are not our children.
PAUSE_SECONDS: Final = 0.01

MARK_VARIABLE: Final = "HUBD_STREAM"
PROC: Final = Path("/proc")
LAUNCHER: Final = Path(__file__).with_name("launcher.py")

log = logging.getLogger(__name__)

# Whether orphans of ended children become children of this process.
_adopting = False


class Identity(NamedTuple):
    """A process. The system reuses a pid, but not with the same start time.

    `started` is opaque. It is empty if the system doesn't report it.
    """

    pid: int
    started: str


def identity(pid: int) -> Identity:
    """Return the identity of the process that has this pid now."""
    stat = read_stat(pid)
    return Identity(pid, stat.started if stat else "")


def launcher(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments before a command that tie its process to this thread.

    The system sends SIGTERM to the process when the thread ends, and its orphans stay below it.
    """
    if not can_launch():
        return ()
    locale = "keep" if "LC_CTYPE" in env else "drop"
    return (sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), locale)


@cache
def can_launch() -> bool:
    """Return whether the launcher works here, which needs Linux's prctl."""
    if sys.platform == "linux" and sys.executable and find_spec("_ctypes") is not None:
        return True
    log.warning("child processes may outlive a hubd that is killed: this system has no prctl")
    return False


def adopt_orphans() -> None:
    """Let orphans of ended children become children of this process, on Linux."""
    global _adopting
    if sys.platform != "linux" or not can_launch():
        return
    # As in the launcher: importing ctypes takes longer than the rest of a start's work here.
    import _ctypes

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    pr_set_child_subreaper = 36
    _adopting = _ctypes.call_function(prctl, (pr_set_child_subreaper, 1, 0, 0, 0)) == 0


def is_adopting() -> bool:
    """Return whether orphans of ended children become children of this process."""
    return _adopting


async def reap(pid: int, started: str, mark: str | None = None) -> bool:
    """End a child that an earlier hubd left behind, and all its descendants.

    Does nothing to another process that has the same pid. Cancelling does not stop it.

    Args:
        pid: The pid of the stored identity.
        started: The start time of the stored identity.
        mark: The child's mark, to find descendants that outlived the child.

    Returns:
        Whether a process was running.
    """
    return await asyncio.to_thread(_reap, Identity(pid, started), mark)


def _reap(child: Identity, mark: str | None) -> bool:
    if not find_tree(child, mark):
        return False
    send_signal(child, signal.SIGTERM)
    deadline = time.monotonic() + TERM_SECONDS
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    kill_tree(child, mark)
    return True


def kill_tree(child: Identity, mark: str | None, known: Iterable[Identity] = ()) -> None:
    """Send SIGKILL to a child, its descendants and all processes with its mark, until none runs.

    Args:
        child: The child; it may have ended already.
        mark: Its mark.
        known: Processes that were descendants of the child before it ended.
    """
    if not PROC.is_dir():
        # Processes that left the group can't be found.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        return
    deadline = time.monotonic() + KILL_SECONDS
    # Repeated, because a process that was just starting is only found the next time.
    while (processes := find_tree(child, mark, known)) and time.monotonic() < deadline:
        for process in processes:
            send_signal(process, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)
    _reap_orphans()


def send_signal(process: Identity, number: signal.Signals) -> None:
    """Signal this process only, even if it ends meanwhile and the system reuses its pid."""
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


def find_tree(child: Identity, mark: str | None, known: Iterable[Identity] = ()) -> list[Identity]:
    """Return the running processes among a child, its descendants and those with its mark."""
    stats = _all_stats()
    running = {pid: stat for pid, stat in stats.items() if not stat.is_dead}
    children: dict[int, list[int]] = {}
    for pid, stat in running.items():
        children.setdefault(stat.parent, []).append(pid)
    todo = [pid for pid in running if mark is not None and _has_mark(pid, mark)]
    todo += [process.pid for process in (child, *known) if is_running(process)]
    processes: dict[int, Identity] = {}
    while todo:
        pid = todo.pop()
        if pid in running and pid not in processes and pid != os.getpid():
            processes[pid] = Identity(pid, running[pid].started)
            todo += children.get(pid, [])
    return list(processes.values())


def find_session(child: Identity) -> list[Identity]:
    """Return the processes of the session that a child leads, or led until a moment ago.

    No other process gets the child's pid while the session exists. Later another one might, so
    this is not for children that ended long ago.
    """
    stats = _all_stats()
    leader = stats.get(child.pid)
    if leader is not None and leader.started != child.started:
        return []
    return [
        Identity(pid, stat.started)
        for pid, stat in stats.items()
        if child.pid and stat.session == child.pid
    ]


def _reap_orphans() -> None:
    """Wait for each ended orphan by its pid. Other code waits for its own children."""
    for pid, stat in _all_stats().items():
        if stat.is_dead and _is_orphan(pid, stat):
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _is_orphan(pid: int, stat: "Stat") -> bool:
    """Return whether a process became a child of hubd because its parent ended.

    The descendants of a child are in other sessions than hubd. A session leader may be a direct
    child that a plugin started by other means, so it doesn't count.
    """
    return _adopting and stat.parent == os.getpid() and stat.session not in (os.getsid(0), pid)


def is_running(process: Identity) -> bool:
    """Return whether this process runs. Its pid may belong to another one."""
    stat = read_stat(process.pid)
    return stat is not None and not stat.is_dead and stat.started == process.started


class Stat(NamedTuple):
    """The state of a process at one instant. A dead one exists until its parent waits for it."""

    parent: int
    session: int
    # The start time in clock ticks since the boot.
    ticks: int
    is_dead: bool

    @property
    def started(self) -> str:
        """The start time of an identity."""
        return f"{_boot()}/{self.ticks}"


def _all_stats() -> dict[int, Stat]:
    pids = [int(entry.name) for entry in PROC.glob("[0-9]*")]
    return {pid: stat for pid in pids if (stat := read_stat(pid))}


def read_stat(pid: int) -> Stat | None:
    """Return the state of the process that has this pid now; None if there is none."""
    try:
        # Without a file object, because connections wait for it.
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(descriptor, 4096)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    # The fields from the third on. The second is a name that may contain anything.
    fields = text.rpartition(b")")[2].split()
    if len(fields) < 20:
        return None  # the process ended meanwhile
    return Stat(int(fields[1]), int(fields[3]), int(fields[19]), fields[0] in b"ZX")


@cache
def _boot() -> str:
    """Return the id of the boot: start times are relative to it, and pids begin again with it."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _has_mark(pid: int, mark: str) -> bool:
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{MARK_VARIABLE}={mark}".encode() in environment.split(b"\0")
