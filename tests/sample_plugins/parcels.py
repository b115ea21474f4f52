"""A plugin that records whether its events were sent."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from hubd.activation import Activation, Event, Unavailable, method
from tests.support import PATIENCE_SECONDS


class Parcel(Event):
    text: str


class Parcels(Activation, namespace="parcels", version="1.0.0"):
    """Sends texts and keeps the receipts."""

    def __init__(self) -> None:
        super().__init__()
        self.started = asyncio.Event()
        self.may_send = asyncio.Event()
        self.may_send.set()
        # One entry per call: the argument of the `after_sent` callback.
        self.receipts: asyncio.Queue[bool] = asyncio.Queue()

    async def receipt(self) -> bool:
        """Return the next receipt."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.receipts.get()

    @method(streaming=False)
    async def send(self, size: int = 1) -> AsyncIterator[Parcel]:
        """Send a text when the test allows it."""
        self.host.after_sent(self.receipts.put)
        self.started.set()
        await self.may_send.wait()
        yield Parcel(text="x" * size)

    @method
    async def send_two(self) -> AsyncIterator[Parcel]:
        """Send two texts."""
        self.host.after_sent(self.receipts.put)
        yield Parcel(text="first")
        yield Parcel(text="second")

    @method
    async def send_and_fail(self) -> AsyncIterator[Parcel]:
        """Send a text and fail."""
        self.host.after_sent(self.receipts.put)
        yield Parcel(text="x")
        raise Unavailable("no more")

    @method
    async def send_with_plain_callback(self) -> Parcel:
        """Send a text; the callback is not async."""

        def plain(delivered: bool) -> None:
            self.receipts.put_nowait(delivered)

        mistaken: Any = plain
        self.host.after_sent(mistaken)
        return Parcel(text="x")

    @method(streaming=False)
    async def lose_the_receipt(self) -> AsyncIterator[Parcel]:
        """Send a text; storing the receipt fails."""

        async def store(delivered: bool) -> None:
            raise Unavailable(f"the disk is full: {delivered}")

        self.host.after_sent(store)
        yield Parcel(text="x")

    @method
    async def forward(self, of: str, limit: int = 10) -> AsyncIterator[Parcel]:
        """Send the first texts of another method."""
        async with self.host.call(of) as events:
            async for event in events:
                limit -= 1
                yield Parcel(text=event["text"])
                if not limit:
                    break
