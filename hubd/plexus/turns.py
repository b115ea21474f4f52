"""Count the turns of the event loop, to find methods that never wait."""

import asyncio


class Turns:
    """Counts turns of the event loop, because asyncio has no counter.

    One callback per turn serves all methods. Turns in which no method asks do not count.
    """

    def __init__(self) -> None:
        self._number = 0
        # Whether `_advance` is going to be called in the next turn.
        self._is_scheduled = False

    def number(self) -> int:
        """Return a number that changes when the loop has had a turn."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._advance)
        return self._number

    def _advance(self) -> None:
        self._number += 1
        self._is_scheduled = False
