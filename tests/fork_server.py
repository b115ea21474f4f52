"""Start daemons as forks of a process that has imported hubd already.

Imports are two thirds of the CPU time that the start of a daemon takes, and the tests start
hundreds of daemons. A forked daemon has its own environment, directory, umask, standard streams
and exit status. Its command line and environment in /proc are those of this program.
"""

import asyncio
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Final

ROOT: Final = Path(__file__).parent.parent
# Bounds the environment of a daemon.
MAX_REQUEST_BYTES: Final = 128 * 1024


class ForkedProcess:
    """A process that the server has started, with the part of `Popen` that tests use."""

    def __init__(self, pid: int, report: BinaryIO, stderr: BinaryIO) -> None:
        self.pid = pid
        self.stderr = stderr
        self.returncode: int | None = None
        # Carries one line at the end of the process: its exit status.
        self._report = report

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status, negative if a signal ended it."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._report, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("hubd", timeout or 0.0)
            self.returncode = int(self._report.readline())
            self._report.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal if the process still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The client's end of the server. The server ends when this process ends.

    Args:
        environment: The environment in which the server imports modules.
        modules: Modules that it imports beside those that each daemon imports at its start.
    """

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", *modules],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**environment, "PYTHONPATH": str(ROOT)},
                cwd=ROOT,
            )

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], stdout: int | None = None
    ) -> ForkedProcess:
        """Run the hubd command in the current directory; its standard error is a pipe.

        Args:
            arguments: The arguments of `hubd`.
            environment: All of its environment.
            stdout: A descriptor for its standard output. Default: /dev/null.
        """
        os.umask(umask := os.umask(0))
        request = {
            "arguments": arguments,
            "environment": environment,
            "cwd": str(Path.cwd()),
            "umask": umask,
        }
        null = os.open(os.devnull, os.O_RDWR)
        errors, stderr = os.pipe()
        report, status = os.pipe()
        try:
            descriptors = [null, null if stdout is None else stdout, stderr, status]
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
        finally:
            for descriptor in (null, stderr, status):
                os.close(descriptor)
        # Unbuffered, because `wait` polls the descriptor.
        reader = os.fdopen(report, "rb", buffering=0)
        return ForkedProcess(int(reader.readline()), reader, os.fdopen(errors, "rb"))

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run the hubd command until it has ended and its output is closed."""
        output, stdout = os.pipe()
        process = self.start(arguments, environment, stdout)
        os.close(stdout)
        parts: tuple[list[bytes], list[bytes]] = ([], [])
        deadline = time.monotonic() + timeout
        with (
            os.fdopen(output, "rb", buffering=0) as reader,
            process.stderr,
            selectors.DefaultSelector() as selector,
        ):
            selector.register(reader, selectors.EVENT_READ, parts[0])
            selector.register(process.stderr, selectors.EVENT_READ, parts[1])
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready and time.monotonic() >= deadline:
                    process.kill()
                    raise subprocess.TimeoutExpired(["hubd", *arguments], timeout)
                for key, _ in ready:
                    key.data.append(os.read(key.fd, 65536))
                    if not key.data[-1]:
                        selector.unregister(key.fileobj)
        status = process.wait(timeout)
        printed, errors = (b"".join(each).decode() for each in parts)
        return subprocess.CompletedProcess(["hubd", *arguments], status, printed, errors)

    def close(self) -> None:
        """End the server and wait for its end."""
        self._socket.close()
        self._process.wait()


class _Server:
    """Forks at each request and reports the exit status of each child."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        # The report pipe of each child, by process id.
        self._reports: dict[int, int] = {}

    def serve(self) -> dict[str, Any]:
        """Return the request in each child; exit in the parent when the client has ended."""
        ended, wake = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The client handles an interrupt from the terminal, and then closes its socket.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            ready, _, _ = select.select([self._requests.fileno(), ended], [], [])
            if ended in ready:
                os.read(ended, 1024)
                self._report_ended()
            if self._requests.fileno() in ready:
                message, descriptors, _, _ = socket.recv_fds(self._requests, MAX_REQUEST_BYTES, 4)
                if not message:
                    sys.exit()
                *streams, report = descriptors
                pid = os.fork()
                if pid == 0:
                    _become_child(streams)
                    request: dict[str, Any] = json.loads(message)
                    return request
                for descriptor in streams:
                    os.close(descriptor)
                self._reports[pid] = report
                self._write(report, pid)

    def _report_ended(self) -> None:
        while self._reports:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            report = self._reports.pop(pid)
            self._write(report, os.waitstatus_to_exitcode(status))
            os.close(report)

    @staticmethod
    def _write(report: int, number: int) -> None:
        with suppress(BrokenPipeError):  # the test does not wait for this process
            os.write(report, f"{number}\n".encode())


def _become_child(streams: Sequence[int]) -> None:
    """Take the streams of the request, and undo the settings of the server."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)


def _import_hubd(more: Sequence[str]) -> None:
    """Import the modules that each daemon imports at its start, and more."""
    from tests import schema_file

    # Else each fork would build the schemas that are not built at import.
    schema_file.build()
    transports = ("hubd.mcp.transports.http", "hubd.rpc.websocket")
    for target in ("hubd.cli", "hubd.daemon.run", *transports, *more):
        importlib.import_module(target)
    with TemporaryDirectory() as directory:
        asyncio.run(_start_hub(Path(directory, "hub.db")))
    assert threading.active_count() == 1, "only the calling thread is in a fork"
    gc.collect()
    gc.freeze()


async def _start_hub(path: Path) -> None:
    """Start the plugins and stop them. Some classes generate their methods at their first use."""
    from hubd.plexus.discovery import sources
    from hubd.plexus.host import PlexusHost
    from hubd.plexus.lifecycle import plugins
    from hubd.plexus.root import build_hub
    from hubd.storage.database import Database
    from tests.storage import migrated_database

    migrated_database.provide(path)
    async with Database(path) as database:
        hub = build_hub(database=database)
        async with plugins(hub, PlexusHost(hub), sources(())):
            pass


def main() -> None:
    """Serve; in each child, run `python -m hubd` with the arguments of the request."""
    requests = socket.socket(fileno=os.dup(0))
    os.set_inheritable(requests.fileno(), False)
    _import_hubd(sys.argv[1:])
    request = _Server(requests).serve()
    requests.detach()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    sys.argv = ["hubd", *request["arguments"]]
    # As the interpreter does for `-m`.
    sys.path[0] = request["cwd"]
    runpy.run_module("hubd", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
