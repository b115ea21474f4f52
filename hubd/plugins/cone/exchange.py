"""A question and its answer, as far as it has come.

The answer grows at the provider's pace; whoever reads along compares what it has shown with what
is there. So a slow reader holds up nobody but itself, and there is no queue to overflow.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from hubd.activation import ExecutionError
from hubd.plugins.cone.events import ChatComplete, ChatContent, ChatStart
from hubd.plugins.cone.providers.provider import well_formed

# No model gives a longer answer; it is held in memory.
MAX_ANSWER: Final = 4 * 1024 * 1024

ChatEvent = ChatStart | ChatContent | ChatComplete


class Exchange:
    """One chat. Written by the task that asks the provider, read by the one that called."""

    def __init__(self) -> None:
        # Set once the question is stored.
        self._start: ChatStart | None = None
        # Grows with every piece of the answer.
        self._pieces: list[str] = []
        self._length = 0
        # The first half of a character that a piece has ended with; the next one begins with it.
        self._half = ""
        # Set once the answer is stored.
        self._complete: ChatComplete | None = None
        # Set whenever one of these is another, and at the end.
        self._changed = asyncio.Event()

    @property
    def answer(self) -> str:
        """What was answered so far."""
        return "".join(self._pieces)

    def begin(self, start: ChatStart) -> None:
        """The question is stored."""
        self._start = start
        self._changed.set()

    def add(self, piece: str) -> None:
        """The answer goes on.

        Raises:
            ExecutionError: It is longer than any answer should be.
        """
        piece = self._half + piece
        self._half = piece[-1:] if "\ud800" <= piece[-1:] <= "\udbff" else ""
        self._append(piece.removesuffix(self._half))

    def end(self) -> None:
        """The answer is whole; nothing is added any more."""
        self._append(self._half)

    def finish(self, complete: ChatComplete) -> None:
        """The answer is stored."""
        self._complete = complete

    def _append(self, piece: str) -> None:
        if piece:
            self._length += len(piece)
            # What is too long is not even shown.
            if self._length > MAX_ANSWER:
                raise ExecutionError(
                    f"the answer is longer than {MAX_ANSWER} characters",
                    suggestion="Ask for less at a time",
                )
            self._pieces.append(well_formed(piece))
            self._changed.set()

    async def events(self, writing: asyncio.Task[None]) -> AsyncIterator[ChatEvent]:
        """What happens, at the pace of whoever reads, until the task that writes has ended.

        Raises:
            HubError: What that task failed with.
        """
        writing.add_done_callback(lambda _: self._changed.set())
        begun = False
        shown = offset = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            ended = writing.done()
            if self._start is not None and not begun:
                begun = True
                yield self._start
            if shown < len(self._pieces):
                fresh = self._pieces[shown:]
                shown += len(fresh)
                content = "".join(fresh)
                yield ChatContent(content=content, offset=offset)
                offset += len(content)
            if ended and shown == len(self._pieces):
                break
        writing.result()
        assert self._complete is not None
        yield self._complete
