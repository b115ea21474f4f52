"""`synapse self doctor`: check everything that a call needs."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from hubd.wire import checks
from hubd.wire.checks import Finding
from synapse.commands.status import ask_info
from synapse.errors import CommandError
from synapse.hub.cache import load
from synapse.hub.hubs import LocalHub

if TYPE_CHECKING:
    from synapse.hub.hubs import Hub


def examine(hub: Hub) -> list[Finding]:
    """Return the findings: the hub first, then the installation, then the terminal."""
    is_local = isinstance(hub, LocalHub)
    info = None
    try:
        info = ask_info(hub)
        daemon = checks.daemon(info, hub.address)
        if info is None and not is_local:
            daemon = Finding("daemon", False, f"no answer at {hub.address}")
    except CommandError as error:
        daemon = Finding("daemon", False, error.message)
    return [
        checks.program("synapse"),
        daemon,
        checks.versions("synapse", info),
        _cache(hub, info),
        *(checks.installation(hub.paths) if is_local else checks.surroundings(hub.paths)),
        _terminal(),
    ]


def _cache(hub: Hub, info: dict[str, Any] | None) -> Finding:
    cache = load(hub.cache_file)
    if cache is None:
        return Finding("schema cache", True, "empty; the next call fills it")
    if info and info.get("plexus_hash") not in (None, cache.hash):
        return Finding("schema cache", True, "older than the hub; the next call renews it")
    return Finding("schema cache", True, f"{len(cache.paths())} namespaces, {hub.cache_file}")


def _terminal() -> Finding:
    size = shutil.get_terminal_size()
    kind = "a terminal" if sys.stdout.isatty() else "no terminal"
    colour = "no colour" if os.environ.get("NO_COLOR") else "colour"
    term = os.environ.get("TERM", "unset")
    return Finding("terminal", True, f"{kind}, {size.columns} columns, TERM={term}, {colour}")
