"""The answer of one chat while it arrives.

The answer grows at the provider's pace. The reader compares the pieces that it has sent with those
that exist, so a slow reader delays only itself, and no queue can overflow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from hubd.activation import ExecutionError
from hubd.plugins.cone import events as cone_events
from hubd.plugins.cone.providers.provider import well_formed

# Characters. An answer is held in memory, and no model gives a longer one.
MAX_ANSWER: Final = 4 * 1024 * 1024


class Answer:
    """The answer of one chat: written by the task that asks the provider, read by the call."""

    def __init__(self) -> None:
        # Set when the question is stored.
        self._start: cone_events.ChatStart | None = None
        self._pieces: list[str] = []
        self._length = 0
        # The first half of a surrogate pair at the end of a piece; the next piece has the rest.
        self._half = ""
        # Set when the answer is stored.
        self._complete: cone_events.ChatComplete | None = None
        # Set when one of these changes, and when the writing task ends.
        self._changed = asyncio.Event()

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._pieces)

    def begin(self, start: cone_events.ChatStart) -> None:
        """Report that the question is stored."""
        self._start = start
        self._changed.set()

    def add(self, piece: str) -> None:
        """Append a piece of the answer.

        Raises:
            ExecutionError: The answer is too long.
        """
        piece = self._half + piece
        self._half = piece[-1:] if "\ud800" <= piece[-1:] <= "\udbff" else ""
        self._append(piece.removesuffix(self._half))

    def end(self) -> None:
        """Report that the last piece was added."""
        self._append(self._half)

    def finish(self, complete: cone_events.ChatComplete) -> None:
        """Report that the answer is stored."""
        self._complete = complete

    def _append(self, piece: str) -> None:
        if piece:
            self._length += len(piece)
            # The piece that exceeds the limit is not sent either.
            if self._length > MAX_ANSWER:
                raise ExecutionError(
                    f"the answer is longer than {MAX_ANSWER} characters",
                    suggestion="Ask for a shorter answer",
                )
            self._pieces.append(well_formed(piece))
            self._changed.set()

    async def events(
        self, writing: asyncio.Task[None]
    ) -> AsyncIterator[cone_events.ChatStart | cone_events.ChatContent | cone_events.ChatComplete]:
        """Yield the events of the chat at the reader's pace, until the writing task ends.

        Raises:
            HubError: The writing task failed.
        """
        writing.add_done_callback(lambda _: self._changed.set())
        begun = False
        sent = offset = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            ended = writing.done()
            if self._start is not None and not begun:
                begun = True
                yield self._start
            if sent < len(self._pieces):
                fresh = self._pieces[sent:]
                sent += len(fresh)
                content = "".join(fresh)
                yield cone_events.ChatContent(content=content, offset=offset)
                offset += len(content)
            if ended and sent == len(self._pieces):
                break
        writing.result()
        assert self._complete is not None
        yield self._complete
