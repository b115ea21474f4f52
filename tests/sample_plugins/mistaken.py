"""Plugins with common mistakes, for a real daemon with --plugin."""

import asyncio
import os
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any

from hubd.activation import Activation, Event, method
from hubd.storage.database import Tx

sys.stdout.write("printed during the import\n")


class Said(Event):
    text: str


async def insert_async(tx: Tx) -> None:
    tx.execute("INSERT INTO forgetful_rows (text) VALUES ('lost')")


def insert_generator(tx: Tx) -> Any:
    yield tx.execute("INSERT INTO forgetful_rows (text) VALUES ('lost')")


FUNCTIONS: dict[str, Callable[[Tx], Any]] = {
    "async": insert_async,
    "generator": insert_generator,
    "lambda": lambda tx: insert_async(tx),
}


class Forgetful(Activation, namespace="forgetful", version="1.0.0"):
    """Forgets `await`, and prints."""

    migrations = ("CREATE TABLE forgetful_rows (text TEXT) STRICT",)

    @method(bidirectional=True)
    async def confirm(self) -> AsyncIterator[Said]:
        """Use a question without `await` as a condition."""
        if self.host.confirm("Sure?"):
            yield Said(text="confirmed")

    @method
    async def write(self) -> AsyncIterator[Said]:
        """Write a row without `await`."""
        self.db.execute("INSERT INTO forgetful_rows (text) VALUES ('lost')")  # type: ignore[unused-coroutine]
        yield Said(text="written")

    @method
    async def read(self) -> AsyncIterator[Said]:
        """Read a row without `await`."""
        row: Any = self.db.fetch_one("SELECT count(*) AS n FROM forgetful_rows")
        yield Said(text=str(row["n"]))

    @method
    async def transact(self, how: str) -> AsyncIterator[Said]:
        """Run a transaction with an async function or a generator."""
        await self.db.transaction(FUNCTIONS[how])
        yield Said(text="written")

    @method
    async def rows(self) -> AsyncIterator[Said]:
        """Count the rows with `await`."""
        row = await self.db.fetch_one("SELECT count(*) AS n FROM forgetful_rows")
        assert row is not None
        yield Said(text=str(row["n"]))

    @method
    async def output(self) -> AsyncIterator[Said]:
        """Write to every output of a process."""
        sys.stdout.write("to stdout\n")
        sys.stderr.write("to stderr\n")
        sys.stdout.buffer.write(b"bytes\n")
        warnings.warn("careful", stacklevel=1)
        os.write(1, b"to descriptor 1\n")
        os.write(2, b"to descriptor 2\n")
        yield Said(text="done")


class DiesLater(Activation, namespace="dies", version="1.0.0"):
    """Its background work fails after the start."""

    async def lifespan(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._fail())
            yield

    async def _fail(self) -> None:
        raise ValueError("background work broke")


class FailsToStart(Activation, namespace="unstarted", version="1.0.0"):
    """Cannot start."""

    async def lifespan(self) -> AsyncIterator[None]:
        raise OSError("no such device")
        yield
