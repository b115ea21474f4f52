"""What synapse knows of the hub and of what it remembers."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from hubd import __version__
from synapse import refresh
from synapse.cache import load
from synapse.errors import NoDaemon

if TYPE_CHECKING:
    from synapse.hubs import Hub

# A hub that is well answers at once.
ANSWER_SECONDS = 5.0


def look(hub: Hub) -> dict[str, Any]:
    """Whether the hub answers. Never starts one."""
    info = ask_info(hub)
    return {
        "running": info is not None,
        "hub": hub.address,
        "name": info.get("backend") if info else None,
        "version": info.get("version") if info else None,
        "plexus_hash": info.get("plexus_hash") if info else None,
    }


def ask_info(hub: Hub) -> dict[str, Any] | None:
    """What the hub says of itself; None if nobody answers.

    Raises:
        CommandError: It does not want us, or is not a hub.
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


def look_at_cache(hub: Hub, refresh_now: bool, clear: bool) -> dict[str, Any]:
    """What is remembered of a hub's schema."""
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
    """Ours and the hub's."""
    info = ask_info(hub)
    return {"synapse": __version__, "hub": info.get("version") if info else None}
