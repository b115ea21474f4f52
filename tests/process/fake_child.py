#!/usr/bin/env python3
"""A child process that misbehaves: the first argument names the behaviour.

Standard library only, so that it starts fast: it is run with -I -S.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

# Longer than any test.
FOREVER_SECONDS = 120
HELD_BACK = 7


def say(text: str) -> None:
    write(1, text.encode() + b"\n")


def write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def wait_forever() -> None:
    signal.alarm(FOREVER_SECONDS)
    while True:
        signal.pause()


def read_to_the_end() -> None:
    while os.read(0, 65536):
        pass


def sleeper(*, detached: bool, environment: Mapping[str, str] | None = None) -> int:
    """Start a process that sleeps, holds our pipes and ignores signals; return its pid."""
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"signal.alarm({FOREVER_SECONDS})\n"
        "os.write(int(sys.argv[1]), str(os.getpid()).encode())\n"
        "while True: signal.pause()\n"
    )
    if detached:
        # Its parent ends, and it moves to a new session.
        code = f"import os\nif os.fork(): os._exit(0)\nos.setsid()\n{code}"
    reader, writer = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, str(writer)], pass_fds=[writer], env=environment
    )
    os.close(writer)
    pid = int(os.read(reader, 32))
    if detached:
        child.wait()
    return pid


def echo() -> None:
    """Copy stdin to stdout."""
    while data := os.read(0, 65536):
        write(1, data)


def copy(file: str, size: str) -> None:
    """Write the bytes of a file in parts of a size."""
    descriptor = os.open(file, os.O_RDONLY)
    while part := os.read(descriptor, int(size)):
        write(1, part)


def huge(size: str) -> None:
    """Write a line of a size, then a short one."""
    for _ in range(int(size) // 65536):
        write(1, b"x" * 65536)
    write(1, b"x" * (int(size) % 65536))
    say("")
    say("after")


def flood(size: str) -> None:
    """Write lines until the pipe is full; then exit with HELD_BACK."""
    os.set_blocking(1, False)
    written = 0
    while written < int(size):
        if not select.select([], [1], [], 0.5)[1]:
            write(2, str(written).encode())
            os._exit(HELD_BACK)
        try:
            written += os.write(1, b"y" * 1023 + b"\n")
        except BlockingIOError:
            continue


def stubborn() -> None:
    """Ignore the input, SIGTERM and SIGINT."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    say("ready")
    wait_forever()


def stubborn_parent() -> None:
    """Do the same, with a child in this group and one in another session."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(f"{sleeper(detached=False)} {sleeper(detached=True)}")
    wait_forever()


def stubborn_parent_of_unmarked() -> None:
    """Do the same, with a child that has an empty environment."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(f"{sleeper(detached=False, environment={})}")
    wait_forever()


def parent(ending: str) -> None:
    """Leave two processes behind: exit, crash, or exit at the end of the input."""
    say(f"{sleeper(detached=False)} {sleeper(detached=True)}")
    if ending == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "eof":
        read_to_the_end()
    os._exit(0)


def hidden_parent() -> None:
    """Leave a process behind that holds our pipes and has no mark."""
    say(f"{sleeper(detached=True, environment={})}")


def polite() -> None:
    """End on SIGTERM with a message; ignore the end of the input."""

    def leave(*_: object) -> None:
        say("terminated")
        os._exit(143)

    signal.signal(signal.SIGTERM, leave)
    say("ready")
    wait_forever()


def full() -> None:
    """Write more than a pipe holds, then end."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    say("ready")
    huge("10000000")
    os._exit(9)


def deaf() -> None:
    """Never read the input."""
    say("ready")
    wait_forever()


def late() -> None:
    """Copy stdin to stdout, but only after a signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    say("ready")
    signal.sigwait([signal.SIGUSR1])
    echo()


def crash(words: str) -> None:
    """Write to stderr and end by a signal."""
    write(2, words.encode())
    os.kill(os.getpid(), signal.SIGABRT)


def close_output() -> None:
    """Close stdout and run until the input ends."""
    say("last")
    os.close(1)
    read_to_the_end()
    os._exit(5)


def alternating() -> None:
    """Write to stdout and stderr in turns, each time after a byte of input."""
    number = 0
    while os.read(0, 1):
        write(1 + number % 2, f"{number}".encode())
        number += 1


def flood_both(size: str) -> None:
    """Do the same as `flood` on both outputs in turns."""
    for descriptor in (1, 2):
        os.set_blocking(descriptor, False)
    written = 0
    while written < int(size):
        if not select.select([], [1, 2], [], 0.5)[1]:
            os._exit(HELD_BACK)
        for descriptor in (1, 2):
            try:
                written += os.write(descriptor, b"y" * 1024)
            except BlockingIOError:
                continue


def noisy(size: str) -> None:
    """Write much to stderr, then a line to stdout."""
    write(2, b"e" * int(size) + b"\nthe end \xe2\x82\xac")
    say("done")


def surroundings() -> None:
    """Write the working directory and the environment."""
    say(str(Path.cwd()))
    for name, text in sorted(os.environ.items()):
        say(f"{name}={text}")


BEHAVIOURS: Mapping[str, Callable[..., None]] = {
    behaviour.__name__: behaviour
    for behaviour in (
        echo,
        copy,
        huge,
        flood,
        stubborn,
        stubborn_parent,
        stubborn_parent_of_unmarked,
        parent,
        hidden_parent,
        polite,
        full,
        deaf,
        late,
        crash,
        close_output,
        alternating,
        flood_both,
        noisy,
        surroundings,
    )
}

if __name__ == "__main__":
    BEHAVIOURS[sys.argv[1]](*sys.argv[2:])
