"""`hubd dev`: run a hub with a plugin under development, and restart it when its files change.

A change is checked in a separate process first. If the plugin can't be loaded, the old daemon
keeps running until the next change.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from importlib.machinery import PathFinder
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hubd.daemon.control import START_SECONDS, STOP_SECONDS, info
from hubd.errors import StartupFailed
from hubd.process.tree import launcher
from hubd.wire.paths import HOME_VARIABLE, Paths

# Seconds between two checks of the files.
POLL_SECONDS: Final = 0.2
# Directories with the files of many packages.
INSTALLED: Final = ("site-packages", "dist-packages")

# The modification time and the size of each file.
Snapshot = dict[Path, tuple[int, int]]


def develop(
    target: str,
    home: str | None,
    options: Sequence[str],
    say: Callable[[str], None],
    *,
    reload: bool,
) -> int:
    """Run a hub with a plugin until Ctrl-C and return the exit status.

    Args:
        target: The plugin, as `module:Class`.
        home: The home of the hub; by default a temporary one.
        options: More options of `hubd run`.
        say: Prints a message for the user.
        reload: Restart the daemon when a file of the plugin changes.

    Raises:
        StartupFailed: The daemon can't start, and `reload` is off.
    """
    # Like Ctrl-C, so that the daemon and the temporary home are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    temporary = TemporaryDirectory(prefix="hubd-dev-") if home is None else None
    with temporary or nullcontext(home) as directory:
        assert directory is not None
        session = _Session(target, Path(directory).absolute(), options, say)
        try:
            return session.watch() if reload else session.run_once()
        except KeyboardInterrupt:
            return 0
        finally:
            session.stop()


def check(target: str) -> None:
    """Load a plugin and print its namespace and version, or exit with its traceback."""
    from hubd.plexus.discovery import Source

    sys.path.insert(0, str(Path.cwd()))
    try:
        plugin = Source(target, "hubd dev").load()
    except BaseException:  # noqa: BLE001 -- the plugin's own code may raise anything
        traceback.print_exc()
        sys.exit(1)
    sys.stdout.write(f"{plugin.namespace} {plugin.version}")


class _Session:
    """The daemon of one `hubd dev`."""

    def __init__(
        self, target: str, home: Path, options: Sequence[str], say: Callable[[str], None]
    ) -> None:
        self._target = target
        self._home = home
        self._options = options
        self._say = say
        self._environment = {
            **os.environ,
            HOME_VARIABLE: str(home),
            # Python can't tell two versions of a file with the same second and size apart.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        # None while no daemon runs.
        self._daemon: subprocess.Popen[bytes] | None = None

    def run_once(self) -> int:
        """Run the daemon to its end."""
        if not self._restart():
            raise StartupFailed(
                f"the plugin {self._target} cannot be loaded",
                suggestion="Correct it; --reload waits for changes",
            )
        assert self._daemon is not None
        return self._daemon.wait()

    def watch(self) -> int:
        """Restart the daemon at each change of a file, until Ctrl-C."""
        before = snapshot(self._target)
        self._try_restart()
        while True:
            time.sleep(POLL_SECONDS)
            self._report_end()
            after = snapshot(self._target)
            if after == before:
                continue
            # Wait until the editor has written all files.
            while (settled := snapshot(self._target)) != after:
                after = settled
                time.sleep(POLL_SECONDS)
            names = sorted({path.name for path, _ in before.items() ^ after.items()})
            self._say(f"hubd: {', '.join(names)} changed")
            before = after
            self._try_restart()

    def stop(self) -> None:
        """Stop the daemon, if one runs."""
        daemon, self._daemon = self._daemon, None
        if daemon is None:
            return
        with suppress(ProcessLookupError):
            daemon.terminate()
        try:
            daemon.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def _try_restart(self) -> None:
        before = self._daemon
        try:
            ready = self._restart()
        except StartupFailed as error:
            self._say(f"hubd: {error.message}")
            ready = False
        if ready:
            return
        state = ""
        if self._daemon is None:
            state = "no daemon runs; "
        elif self._daemon is before:
            state = "the old version still runs; "
        self._say(f"hubd: {state}waiting for a change of the plugin's files")

    def _restart(self) -> bool:
        """Start the daemon with the plugin as it is now; False if the plugin can't be loaded.

        Raises:
            StartupFailed: The daemon does not start.
        """
        code = f"from hubd.daemon.dev import check; check({self._target!r})"
        checked = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            errors="replace",
            env=self._environment,
            check=False,
        )
        if checked.returncode:
            self._say(checked.stderr.rstrip())
            self._say(f"hubd: the plugin {self._target} cannot be loaded; see the traceback above")
            return False
        first = self._daemon is None
        self.stop()
        self._start()
        # A plugin may print while it is imported; its name is at the end.
        namespace, version = checked.stdout.split()[-2:]
        if self._report_failures():
            return False
        self._say(f"hubd: {namespace} {version} is {'ready' if first else 'reloaded'}")
        if first:
            self._say(f"hubd: try it: HUBD_HOME={self._home} synapse {namespace} --help")
        return True

    def _start(self) -> None:
        run = [sys.executable, "-m", "hubd", "run", "--home", str(self._home)]
        # The daemon ends with this process, also if it is killed.
        command = [*launcher(self._environment), *run, "--plugin", self._target, *self._options]
        self._daemon = subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL)
        paths = Paths(str(self._home))
        deadline = time.monotonic() + START_SECONDS
        while (answer := info(paths)) is None or answer["pid"] != self._daemon.pid:
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise StartupFailed("the daemon did not start; its messages are above")
            time.sleep(POLL_SECONDS / 10)

    def _report_failures(self) -> bool:
        """Print the reason if the daemon left the plugin out; return whether it did."""
        answer = info(Paths(str(self._home))) or {}
        reasons = [
            failed["reason"]
            for failed in answer.get("failed_plugins", ())
            if failed["plugin"] == self._target
        ]
        for reason in reasons:
            self._say(f"hubd: the daemon runs without the plugin {self._target}: {reason}")
        return bool(reasons)

    def _report_end(self) -> None:
        if self._daemon is not None and (status := self._daemon.poll()) is not None:
            self._daemon = None
            self._say(f"hubd: the daemon ended with status {status}; waiting for a change")


def snapshot(target: str) -> Snapshot:
    """Return the state of a plugin's files, without importing them.

    These are all Python files of its package, or of the directory of a single module.
    """
    files: Snapshot = {}
    for path in _files(target.partition(":")[0].partition(".")[0]):
        with suppress(FileNotFoundError):
            stat = path.stat()
            files[path] = (stat.st_mtime_ns, stat.st_size)
    return files


def _files(name: str) -> list[Path]:
    importlib.invalidate_caches()
    spec = PathFinder.find_spec(name, [str(Path.cwd()), *sys.path])
    if spec is None:
        with suppress(ImportError, ValueError):
            # An editable installation adds a finder.
            spec = importlib.util.find_spec(name)
    if spec is None:
        return list(Path.cwd().glob("*.py"))
    if spec.submodule_search_locations is not None:
        return [
            file for root in spec.submodule_search_locations for file in Path(root).rglob("*.py")
        ]
    module = Path(spec.origin or "")
    if module.parent.name in INSTALLED:
        return [module]
    return list(module.parent.glob("*.py"))
