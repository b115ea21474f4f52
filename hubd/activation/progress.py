"""Progress of a long method, at most once a second."""

import time
from collections.abc import Callable
from typing import Final

from hubd.activation.host import Host

# Seconds before the first report, and between two reports.
REPORT_SECONDS: Final = 1.0


class Progress:
    """Report how far a method is: after the first second, then at most once a second.

    A method that takes less than a second reports nothing, so `update` may be called for every
    row:

        progress = Progress(self.host, "importing nodes")
        for done, row in enumerate(rows):
            ...
            await progress.update(done, len(rows))
    """

    def __init__(
        self, host: Host, message: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start measuring.

        Args:
            host: The plugin's host, which sends the reports to the caller.
            message: The work in progress, such as "importing nodes".
            clock: The current time in seconds.
        """
        self._host = host
        self._message = message
        self._clock = clock
        # The time of the next report.
        self._due = clock() + REPORT_SECONDS

    async def update(self, done: int, total: int | None = None) -> None:
        """Report how much is done, if a report is due.

        Args:
            done: The number of finished units.
            total: The number of all units, if it is known; it gives the percentage.
        """
        if self._clock() < self._due:
            return
        if total:
            await self._host.progress(f"{self._message}: {done} of {total}", 100 * done / total)
        else:
            await self._host.progress(f"{self._message}: {done}")
        # A caller that reads slowly delays the report itself; the next second starts after it.
        self._due = self._clock() + REPORT_SECONDS
