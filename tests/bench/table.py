"""All rows in the order of the report."""

from typing import Final

from tests.bench.row import Row
from tests.bench.rows import (
    commands,
    followers,
    growth,
    handles,
    mcp,
    processor,
    producers,
    relay,
    startup,
    storage,
    transport,
    waits,
)

_MODULES: Final = (
    commands,
    startup,
    transport,
    storage,
    producers,
    processor,
    followers,
    growth,
    relay,
    handles,
    waits,
    mcp,
)

# The rows of a run.
ROWS: Final[list[Row]] = [row for module in _MODULES for row in module.ROWS]
# Rows that only run if they are named, or with `--all`.
MORE: Final[list[Row]] = [row for module in _MODULES for row in module.MORE]
BY_NAME: Final = {row.name: row for row in (*ROWS, *MORE)}
