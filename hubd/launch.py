"""Starting and stopping the daemon from outside: `hubd start`, `stop`, `restart`, `status`."""

import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Final

from hubd import __version__, instance, local
from hubd.errors import HubError, StartupFailed, Timeout, Unavailable
from hubd.wire.defaults import Paths

# A start normally takes half a second; a slow disk or many plugins may need longer.
START_SECONDS: Final = 20.0
# The daemon ends itself within ten seconds of being asked.
STOP_SECONDS: Final = 12.0
ANSWER_SECONDS: Final = 2.0
# Between two looks at something another process does.
PAUSE_SECONDS: Final = 0.01
CONFLICT: Final = 7


def status(paths: Paths) -> dict[str, Any]:
    """The one object of `hubd status --json`."""
    record = instance.running_record(paths)
    answer = info(paths)
    facts = record or {}
    return {
        "running": answer is not None,
        "pid": facts.get("pid"),
        "version": facts.get("version", __version__),
        "home": paths.data,
        "socket": paths.socket,
        "ws_url": facts.get("ws_url"),
        "mcp_url": facts.get("mcp_url"),
        "token_file": facts.get("token_file", paths.token),
        "plexus_hash": answer["plexus_hash"] if answer else None,
        "uptime_seconds": round(time.time() - facts["started_at"], 3) if record else None,
        "failed_plugins": [
            {"plugin": failed["plugin"], "reason": failed["reason"]}
            for failed in (answer or {}).get("failed_plugins", ())
        ],
    }


def start(paths: Paths, options: list[str], directory: str | None = None) -> bool:
    """Start a daemon unless one runs, and return when calls are answered.

    Args:
        paths: Whose daemon.
        options: Its command line.
        directory: Where it looks for plugins; the current one if not given.

    Returns:
        Whether it was this call that started it.

    Raises:
        StartupFailed: It cannot run; carries what it said.
    """
    if info(paths):
        return False
    child = _spawn(options, directory)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        code = child.poll()
        if code is not None and code != CONFLICT:
            raise _failure(child, code)
        if answer := info(paths):
            if answer["pid"] != child.pid:
                # Ours still waits for the lock, and would take it after a `hubd stop`.
                child.kill()
                child.wait()
                return False
            return True
        # Of several starts at once one wins, and the others wait for the winner; but it may
        # fail, or have been one that was just stopping.
        if code == CONFLICT and not instance.is_locked(paths):
            child = _spawn(options, directory)
        time.sleep(PAUSE_SECONDS)
    raise StartupFailed(
        f"hubd does not answer {START_SECONDS:g} s after its start", suggestion="See: hubd logs"
    )


def stop(paths: Paths, *, force: bool = False) -> bool:
    """Stop the daemon and wait for its end.

    Returns:
        Whether one was running.

    Raises:
        Timeout: It is still there.
        Unavailable: It cannot be told to stop.
    """
    record = instance.running_record(paths)
    if record is None:
        if not instance.is_locked(paths):
            return False
        raise Unavailable("the daemon is just starting; try again in a moment")
    watch = _watch(int(record["pid"]))
    try:
        os.kill(int(record["pid"]), signal.SIGKILL if force else signal.SIGTERM)
    except ProcessLookupError:
        pass
    except OSError as error:
        raise Unavailable(f"pid {record['pid']} cannot be stopped: {error.strerror}") from error
    deadline = time.monotonic() + STOP_SECONDS
    while instance.is_locked(paths):
        if time.monotonic() > deadline:
            raise Timeout(
                f"pid {record['pid']} is still running {STOP_SECONDS:g} s after SIGTERM",
                suggestion="hubd stop --force",
            )
        time.sleep(PAUSE_SECONDS)
    if watch is not None:
        # It has let go of the home; now it only has to end.
        select.select([watch], [], [], max(0.0, deadline - time.monotonic()))
        os.close(watch)
    return True


def _watch(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has those."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def restart(paths: Paths, home: list[str], options: list[str]) -> None:
    """Stop and start again.

    Args:
        paths: Whose daemon.
        home: The option that names its home, if one was given.
        options: New options besides it; none keeps those of the daemon that runs.

    Raises:
        HubError: As `stop` and `start`.
    """
    record = instance.running_record(paths) or {}
    stop(paths)
    if options:
        start(paths, [*home, *options])
    else:
        start(paths, [*home, *record.get("options", ())], record.get("directory"))


def _spawn(options: list[str], directory: str | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # -P: what lies in the current directory is not imported in place of our own modules.
        [sys.executable, "-P", "-m", "hubd", "run", "--detached", *options],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # The daemon writes to it only until it is ready, and never more than a pipe holds.
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _failure(child: subprocess.Popen[bytes], status: int) -> StartupFailed:
    """What the process said before it exited."""
    assert child.stderr is not None
    lines = child.stderr.read().decode(errors="replace").strip().splitlines()
    message = lines[0].removeprefix("hubd: ") if lines else f"hubd exited with status {status}"
    advice = lines[1].strip() if len(lines) == 2 else "See: hubd logs"
    return StartupFailed(message, suggestion=advice, status=status)


def info(paths: Paths) -> dict[str, Any] | None:
    """What the daemon says of itself, with its pid, or None."""
    record = instance.running_record(paths)
    if record is None:
        return None
    try:
        items = list(local.call(paths.socket, "_info", {}, timeout_seconds=ANSWER_SECONDS))
    except HubError:
        return None
    contents: list[dict[str, Any]] = [item["content"] for item in items if item["type"] == "data"]
    return {**contents[0], "pid": record["pid"]} if contents else None
