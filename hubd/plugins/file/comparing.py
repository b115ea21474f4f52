"""The difference of two contents, in bounded time."""

import asyncio
import json
import sys
from typing import Final, NamedTuple

from hubd.activation import ExecutionError, Host, Timeout
from hubd.plugins.file.differ import MAX_LINES

# Bytes of each text. Larger ones are only compared as a whole.
MAX_DIFF_BYTES: Final = 4 * 1024 * 1024
DIFF_SECONDS: Final = 20.0
DIFFER: Final = (sys.executable, "-m", "hubd.plugins.file.differ")


class Difference(NamedTuple):
    """The difference of two texts."""

    # A unified diff.
    text: str
    added: int
    removed: int
    # Whether lines of the diff were left out.
    truncated: bool


async def compare(host: Host, first: bytes, second: bytes) -> Difference:
    """Compare two texts line by line.

    Raises:
        Timeout: They differ too much.
        ExecutionError: The comparison failed.
    """
    try:
        async with (
            asyncio.timeout(DIFF_SECONDS),
            host.process(
                DIFFER, cwd="/", stdin=b"%d\n%s%s" % (len(first), first, second), name="the diff"
            ) as child,
        ):
            lines: list[str] = [json.loads(line) async for line in child.lines()]
            if await child.wait():
                raise ExecutionError(f"the comparison failed: {child.stderr_tail[-200:]}")
    except TimeoutError:
        raise Timeout(
            f"the texts could not be compared in {DIFF_SECONDS:.0f} seconds",
            suggestion="Restore both snapshots, and compare the files with another program",
        ) from None
    diff = lines[:MAX_LINES]
    # The first two lines are the header.
    body = diff[2:]
    return Difference(
        "".join(diff),
        sum(line.startswith("+") for line in body),
        sum(line.startswith("-") for line in body),
        len(lines) > MAX_LINES,
    )
