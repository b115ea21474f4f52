"""The status of the hub and of the schema cache."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from hubd import __version__
from synapse.errors import NoDaemon
from synapse.hub import refresh
from synapse.hub.cache import load

if TYPE_CHECKING:
    from synapse.hub.hubs import Hub

# The time that the hub has to answer.
ANSWER_SECONDS = 5.0


def hub_status(hub: Hub) -> dict[str, Any]:
    """Return whether the hub answers, and what it reports; never start a daemon."""
    info = ask_info(hub)
    return {
        "running": info is not None,
        "hub": hub.address,
        "name": info.get("backend") if info else None,
        "version": info.get("version") if info else None,
        "plexus_hash": info.get("plexus_hash") if info else None,
    }


def ask_info(hub: Hub) -> dict[str, Any] | None:
    """Return the hub's `_info`; None if no hub answers.

    Raises:
        CommandError: The hub refuses the connection, or the server is not a hub.
    """
    try:
        connection = hub.connect_if_running(timeout=ANSWER_SECONDS)
        if connection is None:
            return None
        info = refresh.ask(connection, "_info")
        connection.close()
    except (NoDaemon, TimeoutError):
        return None
    return info


def cache_status(hub: Hub, refresh_now: bool, clear: bool) -> dict[str, Any]:
    """Return the state of the cache, after it was cleared or refreshed."""
    if clear and os.path.exists(hub.cache_file):
        os.unlink(hub.cache_file)
    if refresh_now:
        refresh.refresh(hub.cache_file, hub.connect())
    cache = load(hub.cache_file)
    return {
        "file": hub.cache_file,
        "hash": cache.hash if cache else None,
        "namespaces": len(cache.paths()) if cache else 0,
        "methods": sum(len(cache.methods(path)) for path in cache.paths()) if cache else 0,
        "age_seconds": round(time.time() - os.stat(hub.cache_file).st_mtime) if cache else None,
    }


def versions(hub: Hub) -> dict[str, Any]:
    """Return the versions of synapse and of the hub."""
    info = ask_info(hub)
    return {"synapse": __version__, "hub": info.get("version") if info else None}
