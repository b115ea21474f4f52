"""Waiting for something to be written, without polling for it."""

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Waiters:
    """Who waits for which topic. A topic is any value that writers and readers agree upon."""

    def __init__(self) -> None:
        self._events: dict[Hashable, set[asyncio.Event]] = {}

    @contextmanager
    def waiting_for(self, topic: Hashable) -> Iterator[asyncio.Event]:
        """An event that is set whenever the topic is written; whoever waits clears it.

        Begin before reading what is there: what is written after that reading sets it.
        """
        event = asyncio.Event()
        events = self._events.setdefault(topic, set())
        events.add(event)
        try:
            yield event
        finally:
            events.discard(event)
            if not events:
                self._events.pop(topic, None)

    def wake(self, topic: Hashable) -> None:
        """The topic was written."""
        for event in self._events.get(topic, ()):
            event.set()
