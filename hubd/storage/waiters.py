"""Wait for a write without polling."""

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Waiters:
    """The waiting readers by topic. A topic is any value that writers and readers agree on."""

    def __init__(self) -> None:
        self._events: dict[Hashable, set[asyncio.Event]] = {}

    @contextmanager
    def waiting_for(self, topic: Hashable) -> Iterator[asyncio.Event]:
        """Yield an event that is set by each write to the topic; the reader clears it.

        Enter the block before reading the current rows, so that no later write is missed.
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
        """Wake the readers of a topic, because it was written."""
        for event in self._events.get(topic, ()):
            event.set()
