"""Tell a person that the running daemon is of another version than the installed program."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from hubd import __version__

if TYPE_CHECKING:
    from hubd.wire.paths import Paths

# The notice appears at most once in this time.
QUIET_SECONDS = 3600.0


def version_notice(paths: Paths) -> str | None:
    """Return the notice for a terminal; None if the versions agree, or it was shown lately."""
    try:
        with open(paths.record, encoding="utf-8") as file:
            running = json.load(file).get("version")
    except (OSError, ValueError, AttributeError):
        return None
    if not isinstance(running, str) or running == __version__ or not _is_due(paths.cache):
        return None
    return (
        f"the daemon runs version {running}, and {__version__} is installed; "
        "update it with: hubd restart"
    )


def _is_due(cache: str) -> bool:
    """Return whether the last notice is long ago, and note that it is shown now."""
    stamp = os.path.join(cache, "version-notice")
    try:
        if time.time() - os.stat(stamp).st_mtime < QUIET_SECONDS:
            return False
    except OSError:
        pass  # It was never shown.
    try:
        with open(stamp, "w"):
            pass
    except OSError:
        return False  # Without a stamp it would appear each time.
    return True
