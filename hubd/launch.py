"""Starting and stopping the daemon from outside: `hubd start`, `stop`, `restart`, `status`."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
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
    answer = info(paths) if record else None
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
    }


def start(paths: Paths, options: list[str]) -> bool:
    """Start a daemon unless one runs, and return when calls are answered.

    Returns:
        Whether it was this call that started it.

    Raises:
        StartupFailed: It cannot run; carries what it said.
    """
    if info(paths):
        return False
    command = [sys.executable, "-m", "hubd", "run", "--detached", *options]
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            code = child.poll()
            # Of several starts at once one wins; the others wait for the winner.
            if code is not None and code != CONFLICT:
                said.seek(0)
                text = said.read().decode(errors="replace").strip().removeprefix("hubd: ")
                raise StartupFailed(
                    text or f"hubd exited with status {code}", suggestion="See: hubd logs"
                )
            if info(paths):
                return code is None
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
    return True


def restart_options(paths: Paths, given: list[str]) -> list[str]:
    """The options to restart with: those given now, or those of the daemon that runs."""
    record = instance.running_record(paths)
    return given or list((record or {}).get("options", ()))


def info(paths: Paths) -> dict[str, Any] | None:
    """What the daemon says of itself, or None."""
    if not Path(paths.socket).exists():
        return None
    try:
        items = list(local.call(paths.socket, "_info", {}, timeout_seconds=ANSWER_SECONDS))
    except HubError:
        return None
    contents: list[dict[str, Any]] = [item["content"] for item in items if item["type"] == "data"]
    return contents[0] if contents else None
