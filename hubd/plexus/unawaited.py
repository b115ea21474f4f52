"""Report coroutines that were never awaited: their code never ran.

Python only warns about them, on standard error. Here the warning becomes an error in the log that
names the method, and the call of that method fails.
"""

import inspect
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from hubd.plexus.dispatch import current_call
from hubd.wire.lazy_pattern import lazy_pattern

log = logging.getLogger(__name__)

_NEVER_AWAITED: Final = lazy_pattern(r"coroutine '(?P<name>[^']+)' was never awaited")


@contextmanager
def warnings_in_log() -> Iterator[None]:
    """Send warnings to the log for as long as the block lasts."""
    with warnings.catch_warnings():
        # Every time, not once for each line of code.
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
    # Python warns when it collects the coroutine, perhaps during another call. The call fails
    # only if the warning names the file of its method.
    spec = call.spec if call else None
    if call and spec and inspect.unwrap(spec.function).__code__.co_filename == filename:
        call.unawaited = problem
