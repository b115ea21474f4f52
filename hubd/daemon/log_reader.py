"""Read the daemon's log from outside: its last lines, then the new ones."""

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# Seconds between two reads of a log that is followed.
FOLLOW_SECONDS: Final = 0.2


def last_lines(path: Path, count: int, *, follow: bool) -> Iterator[str | None]:
    """Yield the last lines of a log, and with `follow` the new lines of it and its successors.

    None means that no line is left at the moment.
    """
    log = path.open(encoding="utf-8", errors="replace")
    try:
        yield from (line.rstrip("\n") for line in deque(log, count))
        while follow:
            yield from (line.rstrip("\n") for line in log)
            yield None
            time.sleep(FOLLOW_SECONDS)
            if path.exists() and path.stat().st_ino != os.fstat(log.fileno()).st_ino:
                # The lines between the last read and the rotation.
                yield from (line.rstrip("\n") for line in log)
                log.close()
                log = path.open(encoding="utf-8", errors="replace")
    finally:
        log.close()


def readable(line: str) -> str:
    """Return a line of the log in readable form; any other line unchanged."""
    try:
        entry = json.loads(line)
        written_at, level, message = entry.pop("time"), entry.pop("level"), entry.pop("message")
    except (ValueError, KeyError, AttributeError):
        return line
    entry.pop("logger", None)
    trace = entry.pop("trace", None)
    extra = "".join(f" {name}={value}" for name, value in entry.items())
    return f"{written_at} {level:<7} {message}{extra}" + (f"\n{trace}" if trace else "")
