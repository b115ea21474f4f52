"""The environment of a child process."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.paths import HOME_VARIABLE, default_data

# Variables that hold secrets of the hub.
_SECRET: Final = lazy_pattern(r"(HUBD|SYNAPSE)_.*(TOKEN|KEY|SECRET|PASSWORD)", re.ASCII)


def child_environment(environ: Mapping[str, str], database: Path | None) -> dict[str, str]:
    """Return an environment without the hub's secrets.

    HUBD_HOME names this hub, so that `synapse` finds it. The default hub needs no name.

    Args:
        environ: The caller's environment, or the daemon's.
        database: The database of this hub, if it has one.
    """
    kept = {name: text for name, text in environ.items() if not _SECRET.fullmatch(name)}
    if database is None:
        return kept
    kept.pop(HOME_VARIABLE, None)
    home = str(database.parent)
    if home != default_data():
        kept[HOME_VARIABLE] = home
    return kept
