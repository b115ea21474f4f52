"""Run synapse for a test: in this process, in its own process, or at a pseudo-terminal."""

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hubd.wire.client import UnixConnection
from synapse.hub.websocket import WebSocketConnection
from synapse.main import main
from synapse.params import sources
from tests.support import PATIENCE_SECONDS, environment

# The script that the wheel installs as `synapse`; -P, because it is not beside our modules there.
LAUNCHER = Path(__file__).parent.parent.parent / "synapse" / "launcher.py"
SYNAPSE = (sys.executable, "-P", str(LAUNCHER))
# A synapse in which SIGUSR1 is a Ctrl-C just before a wait: `interrupt_main` sets the signal, but
# does not interrupt the wait.
MISSES_SIGNALS = (
    sys.executable,
    "-c",
    """
import _thread, signal, sys, threading
from synapse.main import main

def interrupt():
    signal.sigwait([signal.SIGUSR1])
    _thread.interrupt_main()

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
threading.Thread(target=interrupt, daemon=True).start()
sys.exit(main())
""",
)
PLUGIN = (
    *("--plugin", "tests.synapse.plugin_for_cli:Cli"),
    *("--plugin", "tests.synapse.plugin_for_views:Views"),
    *("--plugin", "tests.synapse.screens.plugin:Studio"),
)
LATER_PLUGIN = ("--plugin", "tests.synapse.plugin_for_cli:CliLater")

Result = subprocess.CompletedProcess[str]

# The sequences that Rich may send: attributes, erasing, moving and hiding the cursor.
_OWN_SEQUENCES = re.compile(r"\x1b\[(?:[0-9;]*[mKAHJ]|\?25[hl])")
_COLOURS = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment in which only the home selects the hub, without a terminal's type."""
    inherited = {name: text for name, text in environment().items() if name != "TERM"}
    return {**inherited, "HUBD_HOME": str(home), "PAGER": "cat", **more}


def synapse(
    *arguments: str, home: Path, stdin: str | None = None, cwd: str | None = None, **env: str
) -> Result:
    """Run a command to its end in this process, without a terminal.

    It takes a tenth of the time of a process. Tests of signals, pipes or the process itself use
    `synapse_process`, `shell` or `Terminal`.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    variables = clean_environment(home, **env)
    with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ, variables, clear=True):
        patch.setattr(sys, "argv", ["synapse", *arguments])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((stdin or "").encode()), "utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(sources, "_stdin", [])
        if cwd is not None:
            patch.chdir(cwd)
        with _limit(60), _closed_connections(patch):
            status = main()
    texts = [_text(stream) for stream in (out, err)]
    return subprocess.CompletedProcess(["synapse", *arguments], status, *texts)


def _text(stream: io.TextIOWrapper) -> str:
    """Return the text of a stream, with the line ends that `subprocess` gives."""
    stream.flush()
    stream.seek(0)
    return stream.read().replace("\r\n", "\n").replace("\r", "\n")


@contextmanager
def _closed_connections(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the connections at the end, as the end of a process does."""
    opened: list[Any] = []

    def note(connect: Callable[..., None]) -> Callable[..., None]:
        def connect_and_note(self: Any, *arguments: Any, **options: Any) -> None:
            connect(self, *arguments, **options)
            opened.append(self)

        return connect_and_note

    for kind in (UnixConnection, WebSocketConnection):
        patch.setattr(kind, "__init__", note(kind.__init__))
    try:
        yield
    finally:
        for connection in opened:
            connection.close()


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    """Fail a test that takes longer."""

    def fail(*_: object) -> None:
        raise AssertionError(f"synapse did not end within {seconds} s")

    previous = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def synapse_process(
    *arguments: str, home: Path, stdin: str | None = None, cwd: str | None = None, **env: str
) -> Result:
    """Run a command to its end in its own process, without a terminal."""
    return subprocess.run(
        [*SYNAPSE, *arguments],
        input=stdin or "",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env=clean_environment(home, **env),
        cwd=cwd,
        check=False,
    )


def path_with_synapse(home: Path) -> str:
    """Return a PATH with the command `synapse`."""
    directory = home.parent / "bin"
    directory.mkdir(exist_ok=True)
    launcher = directory / "synapse"
    launcher.write_text(f'#!/bin/sh\nexec "{SYNAPSE[0]}" -P "{LAUNCHER}" "$@"\n')
    launcher.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def shell(script: str, *, home: Path, program: str = "bash", **env: str) -> Result:
    """Run a shell script that can call `synapse`."""
    path = path_with_synapse(home)
    return subprocess.run(
        [program, "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env=clean_environment(home, **{"PATH": path, "HOME": str(home.parent), **env}),
        cwd=home.parent,
        check=False,
    )


def refusal(result: Result, status: int) -> str:
    """Return the message of a failed command, which may have one more line with a hint."""
    assert result.returncode == status, (result.stdout, result.stderr)
    assert result.stdout == ""
    first, *others = result.stderr.splitlines()
    assert first.startswith("synapse: "), result.stderr
    assert len(others) <= 1, result.stderr
    assert all(line.startswith("         ") for line in others), result.stderr
    return first.removeprefix("synapse: ")


def wait_for_stop(home: Path) -> None:
    """Stop a daemon that a command has started."""
    subprocess.run(
        [sys.executable, "-m", "hubd", "--home", str(home), "stop"],
        capture_output=True,
        env=environment(),
        timeout=60,
        check=True,
    )


class Terminal:
    """A command with a pseudo-terminal as its controlling terminal, so that Ctrl-C works."""

    def __init__(
        self,
        *arguments: str,
        home: Path,
        columns: int = 80,
        stdout: Path | None = None,
        program: tuple[str, ...] = SYNAPSE,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._master, slave = _open_terminal(columns)
        name = os.ttyname(slave)
        # The first terminal that the leader of a new session opens becomes its controlling one.
        script = 'exec <"$0" >"$1" 2>"$0"; shift; exec "$@"'
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", script, name, str(stdout or name), *program, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=clean_environment(home, **{"TERM": "xterm-256color", **(env or {})}),
        )
        os.close(slave)
        # All output so far, and the length of it that `until` has passed.
        self._seen = b""
        self._passed = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """The output so far."""
        return self._seen.decode(errors="replace").replace("\r\n", "\n")

    def until(self, wanted: str) -> None:
        """Read until a text appears after the last one that `until` found."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (place := self._seen.find(wanted.encode(), self._passed)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"ended without {wanted!r}: {self.text!r}")
        self._passed = place + len(wanted.encode())

    def type(self, text: str) -> None:
        """Type keys; character 3 is Ctrl-C, character 4 the end of input."""
        os.write(self._master, text.encode())

    def send_signal(self, number: int) -> None:
        """Send a signal to the command."""
        self._process.send_signal(number)

    @property
    def settings(self) -> list[Any]:
        """The settings of the terminal, such as whether it echoes."""
        return termios.tcgetattr(self._master)

    def until_settings(self, wanted: list[Any]) -> None:
        """Wait until the terminal has some settings."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.settings != wanted:
            assert time.monotonic() < deadline, "the settings did not change"
            time.sleep(0.01)

    def resize(self, columns: int, lines: int = 50) -> None:
        """Change the size of the terminal."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def finish(self, *, before: list[Any] | None = None) -> tuple[int, str]:
        """Return the exit status and the whole output.

        Args:
            before: The settings of the terminal that must be restored in the end.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        status = self._process.wait(PATIENCE_SECONDS)
        assert before is None or self.settings == before
        return status, self.text

    def _read(self, deadline: float) -> bool:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([self._master], [], [], max(left, 0))
        if not ready:
            raise AssertionError(f"nothing more came: {self.text!r}")
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux: the other end is closed.
            return False
        self._seen += data
        return bool(data)


def at_terminal(*arguments: str, home: Path, columns: int = 80, **env: str) -> tuple[int, str]:
    """Run a command without questions at a terminal, in this process.

    Returns:
        The exit status, and everything that the terminal got.
    """
    master, slave = _open_terminal(columns)
    received: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # Linux: the other end is closed.
            while data := os.read(master, 65536):
                received.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    variables = clean_environment(home, **{"TERM": "xterm-256color", **env})
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            mock.patch.dict(os.environ, variables, clear=True),
            _standard_streams(patch, slave),
            _limit(60),
            _closed_connections(patch),
        ):
            patch.setattr(sys, "argv", ["synapse", *arguments])
            status = main()
    finally:
        os.close(slave)
        reader.join(PATIENCE_SECONDS)
        os.close(master)
    return status, b"".join(received).decode(errors="replace").replace("\r\n", "\n")


@contextmanager
def _standard_streams(patch: pytest.MonkeyPatch, terminal: int) -> Iterator[None]:
    """Let the descriptors 0 to 2, and the streams of `sys`, lead to a terminal."""
    saved = [os.dup(number) for number in range(3)]
    for number in range(3):
        os.dup2(terminal, number)
    streams = [os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")]
    try:
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
            patch.setattr(sys, f"__{name}__", stream)
        yield
    finally:
        for stream in streams:
            stream.close()
        for number, descriptor in enumerate(saved):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _open_terminal(columns: int) -> tuple[int, int]:
    """Return both ends of a new pseudo-terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    return master, slave


def without_own_sequences(text: str) -> str:
    """Return the output without the sequences of Rich."""
    return _OWN_SEQUENCES.sub("", text)


def has_colour(text: str) -> bool:
    """Return whether a sequence sets a colour."""
    return bool(_COLOURS.search(text))
