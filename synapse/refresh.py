"""Getting a hub's whole schema, and remembering it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from synapse.cache import Cache, load, store
from synapse.client import items
from synapse.errors import CommandError

if TYPE_CHECKING:
    from synapse.client import Connection
    from synapse.hubs import Hub

# A hub whose plugins change while it is being read is read again.
TRIES = 3

# A hub runs only so many calls of one client at once.
AT_ONCE = 100

NOT_A_HUB = "what answers there does not speak the hub's protocol"
# What reading an answer of another shape raises.
BROKEN = (AttributeError, KeyError, TypeError, ValueError)


def current(hub: Hub, connection: Connection) -> Cache:
    """The cache, made anew if the hub has changed since.

    Raises:
        CommandError: As `refresh`.
    """
    info = ask(connection, "_info")
    cache = load(hub.cache_file)
    if cache is not None and cache.hash == info.get("plexus_hash"):
        return cache
    return refresh(hub, connection, info)


def refresh(hub: Hub, connection: Connection, info: dict[str, Any] | None = None) -> Cache:
    """Read everything from the hub and remember it.

    Raises:
        CommandError: The hub does not describe itself, or the cache cannot be written.
    """
    info = info or ask(connection, "_info")
    try:
        root = info["backend"]
        for _ in range(TRIES):
            schemas = _schemas(connection, root)
            if schemas[root]["hash"] == ask(connection, f"{root}.hash")["value"]:
                break
        return store(hub.cache_file, root, info["version"], schemas)
    except BROKEN:
        raise CommandError(NOT_A_HUB) from None
    except OSError as error:
        raise CommandError(f"the cache cannot be written: {error}") from None


def _schemas(connection: Connection, root: str) -> dict[str, dict[str, Any]]:
    """Every namespace's schema; a whole level of the tree, if it is not too wide, at once."""
    schemas: dict[str, dict[str, Any]] = {}
    level = [root]
    while level:
        answers: list[dict[str, Any]] = []
        for start in range(0, len(level), AT_ONCE):
            some = level[start : start + AT_ONCE]
            answers += _many(connection, [f"{path}.schema" for path in some])
        schemas |= dict(zip(level, answers, strict=True))
        level = [
            name if path == root else f"{path}.{name}"
            for path, schema in zip(level, answers, strict=True)
            for name in (child["namespace"] for child in schema.get("children", []))
        ]
    return schemas


def _many(connection: Connection, methods: list[str]) -> list[dict[str, Any]]:
    """The one event of each of several calls, asked for together."""
    for number, method in enumerate(methods):
        call = {"jsonrpc": "2.0", "id": number, "method": method, "params": {}}
        connection.send(json.dumps(call).encode())
    numbers: dict[int, int] = {}
    found: dict[int, dict[str, Any]] = {}
    running = len(methods)
    while running:
        message = json.loads(connection.receive())
        if "result" in message:
            numbers[message["result"]] = message["id"]
            continue
        item = message["params"]["result"]
        number = numbers[message["params"]["subscription"]]
        if item["type"] == "data":
            found[number] = item["content"]
        elif item["type"] == "error":
            raise CommandError(f"the hub does not describe itself: {item['message']}")
        running -= item["type"] == "done"
    return [found[number] for number in range(len(methods))]


def ask(connection: Connection, method: str) -> dict[str, Any]:
    """The one event of a call without parameters.

    Raises:
        CommandError: There is none.
    """
    call = {"jsonrpc": "2.0", "id": 0, "method": method, "params": {}}
    connection.send(json.dumps(call).encode())
    try:
        contents = [item["content"] for item in items(connection) if item["type"] == "data"]
    except BROKEN:
        raise CommandError(NOT_A_HUB) from None
    if not contents or not isinstance(contents[0], dict):
        raise CommandError(f"the hub does not answer {method}")
    content: dict[str, Any] = contents[0]
    return content
