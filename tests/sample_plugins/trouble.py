"""Plugins that behave in ways the built-in ones do not; real daemons load them by --plugin."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from hubd.activation import Activation, Event, Option, method
from hubd.storage.database import Tx


class Number(Event):
    n: int


class Text(Event):
    text: str


class Ended(Event):
    cleaned_up: bool


class Trouble(Activation, namespace="trouble", version="1.0.0"):
    """Misbehaves on request."""

    migrations = ("CREATE TABLE trouble_log (n INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT",)

    @method
    async def count(self, to: int = 1_000_000, pad: int = 0) -> AsyncIterator[Text]:
        """Count without ever waiting.

        Args:
            to: How far.
            pad: Bytes to add to each event.
        """
        for n in range(to):
            yield Text(text=f"{n}" + "x" * pad)

    @method
    async def hang(self, marker: str) -> AsyncIterator[Text]:
        """Say one thing, then wait for ever; leave a file behind on the way out.

        Args:
            marker: The file that `finally` makes.
        """
        try:
            yield Text(text="hanging")
            await asyncio.Event().wait()
        finally:
            Path(marker).touch()

    @method
    async def silent(self) -> AsyncIterator[Text]:
        """Never yield."""
        await asyncio.Event().wait()
        yield Text(text="unreachable")

    @method
    async def stubborn(self) -> AsyncIterator[Text]:
        """Swallow every cancellation and go on."""
        while True:
            try:
                yield Text(text="still here")
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    @method
    async def raises(self) -> AsyncIterator[Text]:
        """Yield once, then raise."""
        yield Text(text="so far so good")
        raise ValueError("a plugin's own mistake")

    @method
    async def exits(self) -> AsyncIterator[Text]:
        """Try to take the daemon down."""
        raise SystemExit("bye")
        yield Text(text="")

    @method
    async def wrong_type(self) -> AsyncIterator[Text]:
        """Yield what was not declared."""
        yield Number(n=1)  # type: ignore[misc]

    @method(streaming=False)
    async def twice(self) -> AsyncIterator[Number]:
        """Break the promise of one event."""
        yield Number(n=1)
        yield Number(n=2)

    @method(streaming=False)
    async def never(self) -> AsyncIterator[Number]:
        """Break it the other way."""
        if False:
            yield Number(n=1)

    @method(streaming=False, bidirectional=True)
    async def ask_confirm(
        self, default: bool | None = None, wait: float = 10.0
    ) -> AsyncIterator[Text]:
        """Ask yes or no."""
        answer = await self.host.confirm("Sure?", default=default, timeout_seconds=wait)
        yield Text(text=str(answer))

    @method(streaming=False, bidirectional=True)
    async def ask_all(self) -> AsyncIterator[Text]:
        """Ask one question of each kind."""
        sure = await self.host.confirm("Sure?")
        name = await self.host.prompt("Name?", placeholder="yours")
        [colour] = await self.host.select("Colour?", [Option("r", "Red"), Option("g", "Green")])
        extra = await self.host.custom({"any": "thing"})
        yield Text(text=f"{sure} {name} {colour} {extra}")

    @method(streaming=False)
    async def ask_undeclared(self) -> AsyncIterator[Text]:
        """Ask without having said so."""
        yield Text(text=str(await self.host.confirm("Sure?")))

    @method
    async def with_progress(self) -> AsyncIterator[Text]:
        """Tell progress between two events."""
        yield Text(text="first")
        await self.host.progress("half way", 50.0)
        yield Text(text="second")

    @method(streaming=False, needs_context=True)
    async def where(self) -> AsyncIterator[Text]:
        """Say where the caller stands."""
        context = self.host.context
        yield Text(text=f"{context.cwd} {context.env.get('GREETING')}")

    @method
    async def relay(self, to: str, message: str) -> AsyncIterator[Text]:
        """Call another method through the hub and pass its messages on."""
        async with self.host.call(to, message=message) as events:
            async for event in events:
                yield Text(text=event["message"])

    @method(streaming=False)
    async def write(self, text: str) -> AsyncIterator[Number]:
        """Store a row and answer with its number once it is on disk."""

        def insert(tx: Tx) -> int:
            cursor = tx.execute("INSERT INTO trouble_log (text) VALUES (?)", text)
            assert cursor.lastrowid is not None
            return cursor.lastrowid

        yield Number(n=await self.db.transaction(insert))

    @method
    async def read(self, after: int = 0) -> AsyncIterator[Number]:
        """List the rows."""
        sql = "SELECT n FROM trouble_log WHERE n > ? ORDER BY n"
        async for row in self.db.iterate(sql, after):
            yield Number(n=row["n"])
