"""Read a hub's whole schema, and remember it.

A hub needs to offer only `{root}.call`, `{root}.schema` and `_info`. Fields that a hub may leave
out are filled in here, once, so that the rest of synapse can rely on them.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from synapse.cache import Cache, load, store
from synapse.client import NOT_A_HUB, items, refusal_text
from synapse.errors import CommandError

if TYPE_CHECKING:
    from synapse.client import Connection

    Content = dict[str, Any]

# A hub whose plugins change while it is being read is read again.
TRIES = 3

# A hub that is alive describes itself at once.
ANSWER_SECONDS = 10.0

# A hub runs only so many calls of one client at once.
AT_ONCE = 100

# The root's name where the hub does not give it.
DEFAULT_ROOT = "plexus"

# Errors that come from reading an answer of another shape.
BROKEN = (AttributeError, KeyError, TypeError, ValueError)


def current(cache_file: str, connection: Connection) -> Cache:
    """Return the cache, made anew if the hub has changed since.

    Raises:
        CommandError: As `refresh`.
    """
    info = _info(connection)
    cache = load(cache_file)
    if cache is not None and cache.hash == info.get("plexus_hash"):
        return cache
    return refresh(cache_file, connection, info)


def refresh(cache_file: str, connection: Connection, info: Content | None = None) -> Cache:
    """Read everything from the hub and remember it, for this command at least.

    Raises:
        CommandError: The hub does not describe itself, or not in time.
    """
    info = info or _info(connection)
    root = str(info.get("backend") or DEFAULT_ROOT)
    try:
        for _ in range(TRIES):
            schemas, hashes = _schemas(connection, root)
            if len(hashes) < 2:
                break
        known_hash = next(iter(hashes), None) or schemas[root].get("hash") or _digest(schemas)
        version = str(info.get("version") or "")
        return _store(cache_file, root, version, str(known_hash), schemas)
    except TimeoutError:
        raise _silent() from None
    except BROKEN:
        raise CommandError(NOT_A_HUB) from None


def _info(connection: Connection) -> Content:
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


def _store(
    cache_file: str, root: str, version: str, known_hash: str, schemas: dict[str, Content]
) -> Cache:
    try:
        return store(cache_file, root, version, schemas, known_hash)
    except OSError:
        # A home that cannot be written must not prevent calls: the cache stays open after its
        # directory is gone.
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as directory:
            path = os.path.join(directory, "schema")
            return store(path, root, version, schemas, known_hash)


def _digest(schemas: dict[str, Content]) -> str:
    """Return a hash of our own, for a hub that has none."""
    from hubd.wire.schema import content_hash

    return content_hash(schemas)


def _schemas(connection: Connection, root: str) -> tuple[dict[str, Content], set[str]]:
    """Return every namespace's schema, and the hashes of the hub that came with them.

    The namespaces of one level are asked for together, if they are not too many.
    """
    schemas: dict[str, Content] = {}
    hashes: set[str] = set()
    level = [root]
    while level:
        answers: list[Content | None] = []
        for start in range(0, len(level), AT_ONCE):
            answers += _many(connection, root, level[start : start + AT_ONCE], hashes)
        if level == [root] and answers == [None]:
            # A hub that answers `schema` only as a method of its own.
            answers = [ask(connection, f"{root}.schema")]
        level_schemas = {
            path: _completed(path, answer)
            for path, answer in zip(level, answers, strict=True)
            # A namespace that does not describe itself has nothing to call.
            if answer is not None
        }
        schemas |= level_schemas
        level = [
            child["namespace"] if path == root else f"{path}.{child['namespace']}"
            for path, schema in level_schemas.items()
            for child in schema["children"]
        ]
    for path, schema in schemas.items():
        prefix = "" if path == root else f"{path}."
        names = [child["namespace"] for child in schema["children"]]
        described = [name for name in names if f"{prefix}{name}" in schemas]
        schema["children"] = [c for c in schema["children"] if c["namespace"] in described]
        if not schema["children"]:
            del schema["children"]
    return schemas, hashes


def _completed(path: str, schema: Content) -> Content:
    """Return a namespace's schema with everything in it that a hub may leave out."""
    methods = [
        _completed_method(method)
        for method in schema.get("methods") or []
        if isinstance(method, dict) and isinstance(method.get("name"), str)
    ]
    children = [
        _with_defaults(child, description="") if isinstance(child, dict) else {"namespace": child}
        for child in schema.get("children") or []
    ]
    return {
        **_with_defaults(schema, namespace=path, version="", description="", handles=[]),
        "methods": methods,
        "children": [child for child in children if isinstance(child.get("namespace"), str)],
    }


def _completed_method(method: Content) -> Content:
    schema = _with_defaults(
        method, description="", params={}, returns={}, streaming=False, bidirectional=False
    )
    params = _with_defaults(_object(schema["params"]), type="object", properties={})
    return {**schema, "params": params, "returns": _object(schema["returns"])}


def _with_defaults(schema: Content, **defaults: Any) -> Content:
    """Return a schema in which nothing is null and the defaults are there."""
    filled = {name: value for name, value in schema.items() if value is not None}
    return filled | {name: value for name, value in defaults.items() if name not in filled}


def _object(value: Any) -> Content:
    return value if isinstance(value, dict) else {}


def _many(
    connection: Connection, root: str, paths: list[str], hashes: set[str]
) -> list[Content | None]:
    """Return the schemas of several namespaces, asked for together; None for a refusal."""
    for number, path in enumerate(paths):
        params = {"method": f"{path}.schema", "params": {}}
        call = {"jsonrpc": "2.0", "id": number, "method": f"{root}.call", "params": params}
        connection.send(json.dumps(call).encode())
    numbers: dict[Any, int] = {}
    answers: dict[int, Content] = {}
    running = len(paths)
    while running:
        message = json.loads(connection.receive())
        if message.get("error") is not None:
            if message.get("id") is None:
                raise CommandError(refusal_text(message["error"]))
            running -= 1
        elif "result" in message:
            numbers[message["result"]] = message["id"]
        else:
            item = message["params"]["result"]
            number = numbers[message["params"]["subscription"]]
            if item.get("type") == "data" and isinstance(item.get("content"), dict):
                answers.setdefault(number, item["content"])
                if known_hash := _object(item.get("metadata")).get("plexus_hash"):
                    hashes.add(str(known_hash))
            running -= item.get("type") == "done"
    return [answers.get(number) for number in range(len(paths))]


def ask(connection: Connection, method: str) -> Content:
    """Return the one event of a call without parameters.

    Raises:
        CommandError: There is none.
    """
    call = {"jsonrpc": "2.0", "id": 0, "method": method, "params": {}}
    connection.send(json.dumps(call).encode())
    contents = [item.get("content") for item in items(connection) if item.get("type") == "data"]
    if not contents or not isinstance(contents[0], dict):
        raise CommandError(f"the hub does not answer {method}")
    content: Content = contents[0]
    return content
