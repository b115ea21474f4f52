"""Plugins for the tests of messages and of the event loop; real daemons load them by --plugin."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from hubd.activation import Activation, Event, method


class Accepted(Event):
    """The params of a call."""

    number: int
    # The size of `anything` as JSON.
    size: int


class Accepting(Activation, namespace="accepting", version="1.0.0"):
    """Takes params of several types."""

    @method(streaming=False, aliases={"number": ["count"]})
    async def accept(
        self, number: int, text: str = "", id: UUID | None = None, anything: Any = None
    ) -> AsyncIterator[Accepted]:
        """Return what was received."""
        yield Accepted(number=number, size=len(json.dumps(anything)))
