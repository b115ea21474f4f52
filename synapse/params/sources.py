"""The texts that `@file` and `-` stand for."""

from __future__ import annotations

import os
import sys

from synapse.errors import UsageError
from synapse.params.values import is_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The text of standard input. The same command line may be parsed twice, but stdin is read once.
_stdin: list[str] = []


def read_file(name: str) -> str:
    """Return the text of a file.

    Raises:
        UsageError: The file cannot be read, or is not UTF-8.
    """
    try:
        with open(os.path.expanduser(name), "rb") as file:
            return file.read().decode()
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read: {error.strerror}",
            hint="For a value that begins with '@', write '@@'",
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text") from None


def read_stdin() -> str:
    """Return the text of standard input.

    Raises:
        UsageError: It is not UTF-8.
    """
    if not _stdin:
        try:
            _stdin.append(sys.stdin.buffer.read().decode())
        except UnicodeDecodeError:
            raise UsageError("standard input is not UTF-8 text") from None
    return _stdin[0]


class Sources:
    """The files and the standard input that one parse of a command line reads."""

    def __init__(
        self,
        read_file: Callable[[str], str] = read_file,
        read_stdin: Callable[[], str] = read_stdin,
    ) -> None:
        self._read_file = read_file
        self._read_stdin = read_stdin
        # The flag whose value is standard input.
        self._stdin_flag = ""

    def text(self, flag: str, raw: str, *, literal_dash: bool) -> str:
        """Return the text of a value: of its file, of standard input, or the value itself.

        Raises:
            UsageError: The file cannot be read, standard input is read twice, or the value is not
                UTF-8.
        """
        if not is_text(raw):
            raise UsageError(f"{flag} is not UTF-8 text")
        if raw == "-" and not literal_dash:
            if self._stdin_flag:
                raise UsageError(f"{flag}: {self._stdin_flag} has taken standard input already")
            self._stdin_flag = flag
            return self._read_stdin()
        if raw.startswith("@@"):
            return raw[1:]
        return self._read_file(raw[1:]) if raw.startswith("@") else raw
