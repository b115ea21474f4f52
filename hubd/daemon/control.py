"""Control the daemon from outside: `hubd start`, `stop`, `restart` and `status`."""

import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Final

from hubd import __version__
from hubd.daemon import instance
from hubd.errors import StartupFailed, Timeout, Unavailable
from hubd.wire import client
from hubd.wire.paths import Paths

# The longest wait for a start. It takes half a second, longer with a slow disk or many plugins.
START_SECONDS: Final = 20.0
# The longest wait for a stop. The daemon ends itself within ten seconds.
STOP_SECONDS: Final = 12.0
ANSWER_SECONDS: Final = 2.0
# Seconds between two checks of another process.
PAUSE_SECONDS: Final = 0.01
CONFLICT: Final = 7
# A starting daemon prints this and the name of each plugin on stderr before it loads it.
LOADING: Final = "hubd: loading "


def status(paths: Paths) -> dict[str, Any]:
    """Return the object of `hubd status --json`."""
    record = instance.running_record(paths) or {}
    answer = info(paths)
    started_at = record.get("started_at")
    return {
        "running": answer is not None,
        "pid": instance.owner(paths),
        "version": record.get("version", __version__),
        "home": paths.data,
        "socket": paths.socket,
        "ws_url": record.get("ws_url"),
        "mcp_url": record.get("mcp_url"),
        # None if the daemon needs no token, or has not created one yet.
        "token_file": record.get("token_file", paths.token if _size(paths.token) else None),
        "plexus_hash": answer["plexus_hash"] if answer else None,
        "uptime_seconds": round(time.time() - started_at, 3) if started_at else None,
        "failed_plugins": [
            {"plugin": failed["plugin"], "reason": failed["reason"]}
            for failed in (answer or {}).get("failed_plugins", ())
        ],
    }


def start(paths: Paths, options: list[str], directory: str | None = None) -> bool:
    """Start a daemon unless one runs, and return when it answers.

    Args:
        paths: The files of the hub.
        options: The daemon's command line.
        directory: The directory in which the daemon looks for plugins; by default the current one.

    Returns:
        Whether this call started the daemon.

    Raises:
        StartupFailed: The daemon failed to start. The message is the daemon's own.
    """
    if info(paths):
        return False
    child = _Child(paths, options, directory)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        code = child.process.poll()
        lost = code == CONFLICT and child.plugin is None
        if code is not None and not lost:
            raise child.failure(code)
        if answer := info(paths):
            if answer["pid"] != child.process.pid:
                # The child still waits for the lock, and would take it after a `hubd stop`.
                child.process.kill()
                child.process.wait()
                return False
            return True
        # One of several concurrent starts gets the lock, and the others wait for it. It may have
        # failed, or it was a daemon that was stopping.
        if lost and not instance.is_locked(paths):
            child = _Child(paths, options, directory)
        time.sleep(PAUSE_SECONDS)
    raise child.silence(instance.owner(paths))


def stop(paths: Paths, *, force: bool = False) -> bool:
    """Stop the daemon and wait for its end.

    Returns:
        Whether a daemon was running.

    Raises:
        Timeout: The daemon still runs.
        Unavailable: The daemon cannot be signalled.
    """
    pid = instance.owner(paths)
    if pid is None:
        if not instance.is_locked(paths):
            return False
        raise Unavailable(
            f"a daemon has locked {paths.data}, but its process can't be found",
            suggestion="Try again in a moment, or end the process `hubd run`",
        )
    watch = _watch(pid)
    try:
        os.kill(pid, signal.SIGKILL if force else signal.SIGTERM)
    except ProcessLookupError:
        pass
    except OSError as error:
        raise Unavailable(f"pid {pid} cannot be stopped: {error.strerror}") from error
    deadline = time.monotonic() + STOP_SECONDS
    while instance.is_locked(paths):
        if time.monotonic() > deadline:
            raise Timeout(
                f"pid {pid} is still running {STOP_SECONDS:g} s after SIGTERM",
                suggestion="hubd stop --force",
            )
        time.sleep(PAUSE_SECONDS)
    if watch is not None:
        # The lock is released. Wait until the process has ended.
        select.select([watch], [], [], max(0.0, deadline - time.monotonic()))
        os.close(watch)
    return True


def _watch(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None if unsupported."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def restart(paths: Paths, home: list[str], options: list[str]) -> None:
    """Stop the daemon and start it again.

    Args:
        paths: The files of the hub.
        home: The option `--home`, if it was given.
        options: The other options; by default those of the running daemon.

    Raises:
        HubError: For the reasons of `stop` and `start`.
    """
    record = instance.running_record(paths) or {}
    stop(paths)
    if options:
        start(paths, [*home, *options])
    else:
        start(paths, [*home, *record.get("options", ())], record.get("directory"))


class _Child:
    """A daemon that is starting."""

    def __init__(self, paths: Paths, options: list[str], directory: str | None) -> None:
        self._paths = paths
        self._log_size = _size(paths.log)
        # Its output on stderr so far.
        self._printed = b""
        self.process = subprocess.Popen(
            # -P: modules in the current directory don't replace the hub's.
            [sys.executable, "-P", "-m", "hubd", "run", "--detached", *options],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            # The daemon writes to it only until it is ready, and never more than a pipe can hold.
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)

    @property
    def plugin(self) -> str | None:
        """The plugin that it loads or loaded last; None before the first one."""
        plugins = [line for line in self._lines() if line.startswith(LOADING)]
        return plugins[-1].removeprefix(LOADING) if plugins else None

    def failure(self, status: int) -> StartupFailed:
        """Return the error of a daemon that has ended."""
        lines = [line for line in self._lines() if not line.startswith(LOADING)]
        if self.plugin is not None and not any(line.startswith("hubd: ") for line in lines):
            last = f": {lines[-1]}" if lines else ""
            return StartupFailed(
                f"the plugin {self.plugin} ended the daemon while it was loaded "
                f"({_ending(status)}){last}",
                suggestion="Correct this plugin, or start without it",
            )
        message = lines[0].removeprefix("hubd: ") if lines else f"hubd {_ending(status)}"
        if message.startswith("Traceback "):
            message = f"hubd failed: {lines[-1]}"
        advice = lines[1].strip() if len(lines) == 2 else self._advice()
        return StartupFailed(message, suggestion=advice, status=max(status, 0))

    def silence(self, owner: int | None) -> StartupFailed:
        """Return the error of a daemon that does not answer in time."""
        if owner not in (None, self.process.pid):
            return StartupFailed(
                f"the daemon of {self._paths.data} (pid {owner}) does not answer "
                f"on {self._paths.socket}",
                suggestion="hubd stop, or hubd stop --force",
            )
        where = f" while it loads the plugin {self.plugin}" if self.plugin else ""
        return StartupFailed(
            f"hubd does not answer {START_SECONDS:g} s after its start{where}",
            suggestion=self._advice(),
        )

    def _lines(self) -> list[str]:
        assert self.process.stderr is not None
        self._printed += self.process.stderr.read() or b""
        return self._printed.decode(errors="replace").strip().splitlines()

    def _advice(self) -> str | None:
        """Suggest the log if this start has written to it."""
        return "See: hubd logs" if _size(self._paths.log) > self._log_size else None


def _ending(status: int) -> str:
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"exited with status {status}"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 -- a text
    except OSError:
        return 0


def page_link(paths: Paths) -> str:
    """Return a new address of the page.

    Raises:
        NoPage: The daemon refused.
        Unavailable: The daemon does not answer.
    """
    from hubd.wire.page_link import ask

    try:
        with client.UnixConnection(paths.socket, ANSWER_SECONDS) as connection:
            return ask(connection)
    except (client.ClientError, TimeoutError) as error:
        raise Unavailable(
            f"the daemon gave no address: {error or 'no answer'}", suggestion="See: hubd logs"
        ) from error


def info(paths: Paths) -> dict[str, Any] | None:
    """Return the daemon's answer to `_info`, with its pid, or None."""
    pid = instance.owner(paths)
    if pid is None:
        return None
    try:
        items = list(client.call(paths.socket, "_info", {}, timeout_seconds=ANSWER_SECONDS))
    except client.ClientError:
        return None
    contents: list[dict[str, Any]] = [item["content"] for item in items if item["type"] == "data"]
    return {**contents[0], "pid": pid} if contents else None
