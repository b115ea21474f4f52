"""What synapse knows of the hub and of what it remembers."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from hubd import __version__
from synapse import refresh
from synapse.cache import load
from synapse.client import items
from synapse.errors import CommandError

if TYPE_CHECKING:
    from synapse.hubs import Hub


def look(hub: Hub) -> dict[str, Any]:
    """Whether the hub answers. Never starts one."""
    info = ask_info(hub)
    return {
        "running": info is not None,
        "hub": hub.address,
        "name": info["backend"] if info else None,
        "version": info["version"] if info else None,
        "plexus_hash": info["plexus_hash"] if info else None,
    }


def ask_info(hub: Hub) -> dict[str, Any] | None:
    """What the hub says of itself, or None."""
    try:
        connection = hub.connect_if_running(timeout=5.0)
        if connection is None:
            return None
        connection.send(b'{"jsonrpc":"2.0","id":1,"method":"_info","params":{}}')
        contents = [item["content"] for item in items(connection) if item["type"] == "data"]
        connection.close()
    except (CommandError, TimeoutError):
        return None
    info: dict[str, Any] = contents[0]
    return info


def look_at_cache(hub: Hub, refresh_now: bool, clear: bool) -> dict[str, Any]:
    """What is remembered of a hub's schema."""
    if clear and os.path.exists(hub.cache_file):
        os.unlink(hub.cache_file)
    if refresh_now:
        refresh.refresh(hub, hub.connect())
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
    return {"synapse": __version__, "hub": info["version"] if info else None}
