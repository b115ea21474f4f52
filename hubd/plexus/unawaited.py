"""Report coroutines that were never awaited: their code never ran.

Python only warns about them, on standard error. Here the warning becomes an error in the log that
names the method, and a call whose own code forgot the `await` fails.
"""

import inspect
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from hubd.plexus.dispatch import current_call

log = logging.getLogger("hubd.plexus")

_NEVER_AWAITED: Final = re.compile(r"coroutine '(?P<name>[^']+)' was never awaited")


@contextmanager
def warnings_in_log() -> Iterator[None]:
    """Send warnings to the log for as long as the block lasts."""
    with warnings.catch_warnings():
        # Each time, not once for each line: every lost call counts.
        warnings.filterwarnings("always", _NEVER_AWAITED.pattern, RuntimeWarning)
        warnings.showwarning = _report
        yield


def _report(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    call = current_call.get(None)
    during = f" during {call.method}" if call else ""
    lost = _NEVER_AWAITED.search(str(message))
    if lost is None:
        log.warning("%s: %s (%s:%d)%s", category.__name__, message, filename, lineno, during)
        return
    problem = f"{lost['name']}(…) was never awaited, so it did not run ({filename}:{lineno})"
    log.error("%s%s; write `await` before it", problem, during)
    # Garbage of other calls may be collected here. Only the method's own file is certain.
    spec = call.spec if call else None
    if call and spec and inspect.unwrap(spec.function).__code__.co_filename == filename:
        call.unawaited = problem
