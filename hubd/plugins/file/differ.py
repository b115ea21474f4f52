"""Compare two texts, in a process of its own: `python -m hubd.plugins.file.differ`.

The comparison of hostile texts takes very long, and a thread could not be stopped. Standard input
is the length of the first text and a line end, then both texts. Each line of standard output is a
line of the unified diff, as JSON.
"""

import json
import sys
from itertools import islice
from typing import Final

# Lines of a diff; the rest is left out.
MAX_LINES: Final = 20_000
# Follows a last line without a line end, as in the output of `diff -u`.
NO_NEWLINE: Final = "\\ No newline at end of file"


def main() -> None:
    """Read the texts, and print the lines of their difference."""
    length = int(sys.stdin.buffer.readline())
    first = _lines(sys.stdin.buffer.read(length).decode())
    second = _lines(sys.stdin.buffer.read().decode())
    # Imported here, because the start of the daemon does not need it.
    import difflib

    lines = difflib.unified_diff(first, second, "from", "to")
    for line in islice(lines, MAX_LINES + 1):
        print(json.dumps(line))  # noqa: T201


def _lines(text: str) -> list[str]:
    """Split a text at line feeds only. `str.splitlines` knows many other line ends."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, f"{last}\n{NO_NEWLINE}\n"] if last else lines


if __name__ == "__main__":
    main()
