"""Getting a hub's whole schema, and remembering it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from synapse.cache import Cache, load, store
from synapse.client import items
from synapse.errors import CommandError

if TYPE_CHECKING:
    from synapse.client import Connection

# A hub whose plugins change while it is being read is read again.
TRIES = 3

# A hub that is alive describes itself in no time.
ANSWER_SECONDS = 10.0

# A hub runs only so many calls of one client at once.
AT_ONCE = 100

NOT_A_HUB = "what answers there does not speak the hub's protocol"
# What reading an answer of another shape raises.
BROKEN = (AttributeError, KeyError, TypeError, ValueError)


def current(cache_file: str, connection: Connection) -> Cache:
    """The cache, made anew if the hub has changed since.

    Raises:
        CommandError: As `refresh`.
    """
    info = _info(connection)
    cache = load(cache_file)
    if cache is not None and cache.hash == info.get("plexus_hash"):
        return cache
    return refresh(cache_file, connection, info)


def refresh(cache_file: str, connection: Connection, info: dict[str, Any] | None = None) -> Cache:
    """Read everything from the hub and remember it, for this command at least.

    Raises:
        CommandError: The hub does not describe itself, or not in time.
    """
    info = info or _info(connection)
    try:
        root = info["backend"]
        for _ in range(TRIES):
            schemas = _schemas(connection, root)
            if schemas[root]["hash"] == ask(connection, f"{root}.hash")["value"]:
                break
        return _store(cache_file, root, info["version"], schemas)
    except TimeoutError:
        raise _silent() from None
    except BROKEN:
        raise CommandError(NOT_A_HUB) from None


def _info(connection: Connection) -> dict[str, Any]:
    connection.set_timeout(ANSWER_SECONDS)
    try:
        return ask(connection, "_info")
    except TimeoutError:
        raise _silent() from None


def failures(connection: Connection, namespace: str) -> list[str]:
    """Return a sentence for each failed plugin that has this namespace, or may have it."""
    try:
        failed = _info(connection).get("failed_plugins") or []
        same = [entry for entry in failed if entry.get("namespace") == namespace]
        # A plugin that could not be imported has not said its namespace.
        same = same or [entry for entry in failed if not entry.get("namespace")]
        return [f"The plugin {entry['plugin']} failed: {entry['reason']}." for entry in same]
    except (CommandError, *BROKEN):
        return []


def _silent() -> CommandError:
    return CommandError(f"the hub does not answer within {ANSWER_SECONDS:g} s", status=6)


def _store(cache_file: str, root: str, version: str, schemas: dict[str, dict[str, Any]]) -> Cache:
    try:
        return store(cache_file, root, version, schemas)
    except OSError:
        # A home that cannot be written must not keep anybody from calling: the cache stays open
        # when its directory is gone.
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as directory:
            return store(os.path.join(directory, "schema"), root, version, schemas)


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
