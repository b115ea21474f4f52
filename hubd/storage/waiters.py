"""Wait for a write without polling."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Called with the rows that a commit added to a topic. None: it changed something else too.
Listener = Callable[[Sequence[Any] | None], None]


class Waiters:
    """The waiting readers by topic. A topic is any value that writers and readers agree on."""

    def __init__(self) -> None:
        self._events: dict[Hashable, set[asyncio.Event]] = {}
        self._listeners: dict[Hashable, Listener] = {}

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

    @contextmanager
    def listening_to(self, topic: Hashable, listener: Listener) -> Iterator[None]:
        """Pass the added rows of each commit to a listener, before readers wake.

        A topic has one listener at most. Use the block as that of `waiting_for`.
        """
        assert topic not in self._listeners
        self._listeners[topic] = listener
        try:
            yield
        finally:
            del self._listeners[topic]

    def wake(self, topic: Hashable) -> None:
        """Wake the readers of a topic."""
        for event in self._events.get(topic, ()):
            event.set()

    def commit(
        self, topics: Sequence[Hashable], news: Iterable[tuple[Hashable, Sequence[Any]]]
    ) -> None:
        """Wake the readers of topics after a commit; its listeners come first.

        Args:
            topics: The topics, one for each change.
            news: The added rows of some of these changes, with their topics.
        """
        # Most topics of a large group have no reader.
        for topic in self._listeners.keys() & topics:
            additions = [rows for each, rows in news if each == topic]
            rows = [row for rows in additions for row in rows]
            self._listeners[topic](rows if len(additions) == topics.count(topic) else None)
        for topic in self._events.keys() & topics:
            self.wake(topic)
