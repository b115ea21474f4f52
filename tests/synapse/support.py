"""What the tests of the command line share: running it, in a pipe or at a terminal of its own."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support import PATIENCE_SECONDS, environment

# What the wheel installs as `synapse`; -P, because there it does not lie beside our modules.
LAUNCHER = Path(__file__).parent.parent.parent / "synapse" / "launcher.py"
SYNAPSE = (sys.executable, "-P", str(LAUNCHER))
# A synapse to which SIGUSR1 is a Ctrl-C that comes between the interpreter's last look and a wait:
# `interrupt_main` notes it, but wakes nobody.
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
PLUGIN = ("--plugin", "tests.synapse.plugin_for_cli:Cli")
LATER_PLUGIN = ("--plugin", "tests.synapse.plugin_for_cli:CliLater")

Result = subprocess.CompletedProcess[str]

# What Rich may send to a terminal: attributes, erasing, moving and hiding the cursor.
_OWN_SEQUENCES = re.compile(r"\x1b\[(?:[0-9;]*[mKAHJ]|\?25[hl])")
_COLOURS = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment in which only the home selects the hub, without a terminal's type."""
    inherited = {name: text for name, text in environment().items() if name != "TERM"}
    return {**inherited, "HUBD_HOME": str(home), **more}


def synapse(
    *arguments: str, home: Path, stdin: str | None = None, cwd: str | None = None, **env: str
) -> Result:
    """Run the command to its end, without a terminal."""
    return subprocess.run(
        [*SYNAPSE, *arguments],
        # Nothing to read, unless it is said; and never a person to ask.
        input=stdin or "",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env=clean_environment(home, **env),
        cwd=cwd,
        check=False,
    )


def path_with_synapse(home: Path) -> str:
    """A PATH on which `synapse` is a command."""
    directory = home.parent / "bin"
    directory.mkdir(exist_ok=True)
    launcher = directory / "synapse"
    launcher.write_text(f'#!/bin/sh\nexec "{SYNAPSE[0]}" -P "{LAUNCHER}" "$@"\n')
    launcher.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def shell(script: str, *, home: Path, program: str = "bash", **env: str) -> Result:
    """Run a script that knows `synapse` as a command on its path."""
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
    """The one line that a failed command says; fails if it said anything more than a hint."""
    assert result.returncode == status, (result.stdout, result.stderr)
    assert result.stdout == ""
    first, *others = result.stderr.splitlines()
    assert first.startswith("synapse: "), result.stderr
    assert len(others) <= 1, result.stderr
    assert all(line.startswith("         ") for line in others), result.stderr
    return first.removeprefix("synapse: ")


def wait_for_stop(home: Path) -> None:
    """Stop a daemon that a command has started by itself."""
    subprocess.run(
        [sys.executable, "-m", "hubd", "--home", str(home), "stop"],
        capture_output=True,
        env=environment(),
        timeout=60,
        check=True,
    )


class Terminal:
    """A command on a pseudo-terminal that is its controlling terminal, so that Ctrl-C works."""

    def __init__(
        self,
        *arguments: str,
        home: Path,
        columns: int = 80,
        stdout: Path | None = None,
        program: tuple[str, ...] = SYNAPSE,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        name = os.ttyname(slave)
        # The leader of a new session gets the first terminal it opens as its own.
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
        # Everything that was read, and how much of it `until` has passed.
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
        """All that the terminal got so far."""
        return self._seen.decode(errors="replace").replace("\r\n", "\n")

    def until(self, wanted: str) -> None:
        """Read until something appears after what `until` found before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (place := self._seen.find(wanted.encode(), self._passed)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"ended without {wanted!r}: {self.text!r}")
        self._passed = place + len(wanted.encode())

    def type(self, text: str) -> None:
        """Press keys; character 3 is Ctrl-C, 4 the end of input."""
        os.write(self._master, text.encode())

    def send_signal(self, number: int) -> None:
        """Send the command a signal that no key stands for."""
        self._process.send_signal(number)

    def finish(self) -> tuple[int, str]:
        """The exit status, and all that the terminal got."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        return self._process.wait(PATIENCE_SECONDS), self.text

    def _read(self, deadline: float) -> bool:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([self._master], [], [], max(left, 0))
        if not ready:
            raise AssertionError(f"nothing more came: {self.text!r}")
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux: everybody at the other end is gone
            return False
        self._seen += data
        return bool(data)


def at_terminal(*arguments: str, home: Path, columns: int = 80, **env: str) -> tuple[int, str]:
    """Run a command that needs no typing at a terminal: its exit status and all it showed."""
    with Terminal(*arguments, home=home, columns=columns, env=env) as terminal:
        return terminal.finish()


def without_own_sequences(text: str) -> str:
    """What a terminal got, less what Rich itself may send."""
    return _OWN_SEQUENCES.sub("", text)


def has_colour(text: str) -> bool:
    """Whether any sequence sets a colour."""
    return bool(_COLOURS.search(text))
