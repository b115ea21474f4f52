"""The outside world as both ways in see it: files, standard input, where the caller stands."""

from __future__ import annotations

import os
import sys

from synapse.errors import UsageError
from synapse.params import Sources
from synapse.values import is_text


def _read_file(name: str) -> str:
    try:
        with open(os.path.expanduser(name), "rb") as file:
            return file.read().decode()
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read: {error.strerror}",
            hint="A value that begins with '@' itself is written with '@@'",
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text") from None


_read: list[str] = []


def _read_stdin() -> str:
    # Remembered: the full way may read the same command line once more.
    if not _read:
        try:
            _read.append(sys.stdin.buffer.read().decode())
        except UnicodeDecodeError:
            raise UsageError("standard input is not UTF-8 text") from None
    return _read[0]


def new_sources() -> Sources:
    """Where `@file` and `-` read, for one reading of a command line."""
    return Sources(_read_file, _read_stdin)


sources = new_sources()


def caller_context() -> dict[str, object]:
    """The working directory and the environment, less what is not UTF-8."""
    try:
        directory: str | None = os.getcwd()
    except OSError:  # it was removed
        directory = None
    environment = {
        name: text for name, text in os.environ.items() if is_text(name) and is_text(text)
    }
    return {"cwd": directory, "env": environment}
