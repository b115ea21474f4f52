"""The `console` blocks of a Markdown page: run them in a terminal, compare what they print.

A line that begins with `$ ` is a command; the lines below it are its output. `…` stands for any
text in a line, and for any number of lines if it is alone on its line. All commands of a page run
in one shell, so that variables live from one block to the next.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.screen import screen

COLUMNS = 100
ROWS = 50
# Printed before the exit status of each command.
_MARK = "\x1e"


@dataclass
class Example:
    """One command and the output that the page shows for it."""

    command: str
    expected: list[str] = field(default_factory=list)


def examples_of(page: Path) -> list[Example]:
    """Return the commands of a page in order."""
    examples: list[Example] = []
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            examples.append(Example(line.removeprefix("$ ")))
        else:
            examples[-1].expected.append(line)
    return examples


def run(
    examples: list[Example],
    directory: Path,
    environment: Mapping[str, str],
    *,
    columns: int = COLUMNS,
    styles: bool = False,
) -> list[str]:
    """Run the commands in one shell on a pseudo-terminal.

    Returns:
        The output of each; with `styles`, colours and other styles are kept.
    """
    commands = [f"{example.command}\nprintf '{_MARK}%s\\n' $?\n" for example in examples]
    script = directory / "examples.sh"
    script.write_text("".join(commands))
    terminal, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    shell = subprocess.Popen(
        ["bash", str(script)],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        cwd=directory,
        env={**environment, "TERM": "xterm-256color"},
    )
    os.close(slave)
    printed = b""
    try:
        while part := os.read(terminal, 65536):
            printed += part
    except OSError:
        pass  # Linux reports the end of a pseudo-terminal as an error.
    finally:
        os.close(terminal)
        shell.wait()
    text = printed.decode().replace("\r\n", "\n")
    parts = [re.sub(r"\A\d+\n", "", part) for part in text.split(_MARK)][: len(examples)]
    return ["\n".join(screen(part, None, styles=styles)) for part in parts]


def difference(example: Example, printed: str) -> str | None:
    """Return both texts if the output does not match the page."""
    lines = ["(?:.*\n)*" if line == "…" else _pattern(line) + r"\s*\n" for line in example.expected]
    if re.fullmatch("".join(lines), printed):
        return None
    expected = "\n".join(example.expected)
    return f"$ {example.command}\n--- the page shows\n{expected}\n--- printed\n{printed}"


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…"))
