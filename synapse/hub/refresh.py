"""Read the whole schema of a hub and write it to the cache.

A hub must offer `{root}.call`, `{root}.schema` and `_info` only. Fields that a hub leaves out are
filled in here once, so the rest of synapse can rely on them.
"""

from __future__ import annotations

import json
import os

from hubd.wire.client import NotAHub, Refused
from hubd.wire.envelope import request
from hubd.wire.item import EXIT_CODES
from synapse.errors import CommandError
from synapse.hub.cache import Cache, load, store
from synapse.hub.client import command_error, items

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubd.wire.client import Connection
    from hubd.wire.schema import MethodSchema, PluginSchema

    Content = dict[str, Any]

# The number of attempts if the hub's schema changes while it is read.
TRIES = 3

# The time that the hub has for each answer.
ANSWER_SECONDS = 10.0

# The number of calls at the same time; the hub limits the calls of one client.
AT_ONCE = 100

# The name of the root if the hub does not report it.
DEFAULT_ROOT = "plexus"

# Errors from reading an answer of an unexpected shape.
BAD_SHAPE = (AttributeError, KeyError, TypeError, ValueError)


def current(cache_file: str, connection: Connection) -> Cache:
    """Return the cache, renewed if the hub's schema has changed.

    Raises:
        CommandError: As `refresh`.
    """
    info = _info(connection)
    cache = load(cache_file)
    if cache is not None and cache.hash == info.get("plexus_hash"):
        return cache
    return refresh(cache_file, connection, info)


def refresh(cache_file: str, connection: Connection, info: Content | None = None) -> Cache:
    """Read the whole schema from the hub, write it to the cache, and return it.

    Raises:
        CommandError: The hub does not answer in time, or not with a schema.
    """
    info = info or _info(connection)
    root = str(info.get("backend") or DEFAULT_ROOT)
    try:
        for _ in range(TRIES):
            schemas, hashes = _schemas(connection, root)
            if len(hashes) < 2:
                break
        hub_hash = next(iter(hashes), None) or schemas[root].get("hash") or _digest(schemas)
        version = str(info.get("version") or "")
        return _store(cache_file, root, version, str(hub_hash), schemas)
    except TimeoutError:
        raise _no_answer() from None
    except BAD_SHAPE:
        raise command_error(NotAHub()) from None


def failures(connection: Connection, namespace: str) -> list[str]:
    """Return a sentence for each failed plugin that has this namespace, or may have it."""
    try:
        failed = _info(connection).get("failed_plugins") or []
        same = [entry for entry in failed if entry.get("namespace") == namespace]
        # The namespace of a plugin is unknown if its import failed.
        same = same or [entry for entry in failed if not entry.get("namespace")]
        return [f"The plugin {entry['plugin']} failed: {entry['reason']}." for entry in same]
    except (CommandError, *BAD_SHAPE):
        return []


def ask(connection: Connection, method: str) -> Content:
    """Return the only event of a call without parameters.

    Raises:
        CommandError: The call failed, or has no event.
    """
    connection.send(request(0, method, "{}"))
    answer = list(items(connection))
    contents = [item.get("content") for item in answer if item.get("type") == "data"]
    if not contents or not isinstance(contents[0], dict):
        for item in answer:
            if item.get("type") == "error" and item.get("code") in EXIT_CODES:
                raise CommandError(str(item.get("message")), status=EXIT_CODES[item["code"]])
        raise CommandError(f"the hub does not answer {method}")
    content: Content = contents[0]
    return content


def _info(connection: Connection) -> Content:
    connection.set_timeout(ANSWER_SECONDS)
    try:
        return ask(connection, "_info")
    except TimeoutError:
        raise _no_answer() from None


def _no_answer() -> CommandError:
    return CommandError(f"the hub does not answer within {ANSWER_SECONDS:g} s", status=6)


def _store(
    cache_file: str, root: str, version: str, hub_hash: str, schemas: dict[str, PluginSchema]
) -> Cache:
    try:
        return store(cache_file, root, version, schemas, hub_hash)
    except OSError:
        # Calls work without a writable home: the cache stays open after its file is removed.
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as directory:
            path = os.path.join(directory, "schema")
            return store(path, root, version, schemas, hub_hash)


def _digest(schemas: dict[str, PluginSchema]) -> str:
    """Return a hash of the schemas, for a hub that sends none."""
    from hubd.wire.schema import content_hash

    return content_hash(schemas)


def _schemas(connection: Connection, root: str) -> tuple[dict[str, PluginSchema], set[str]]:
    """Return the schemas of all namespaces, and the hashes of the hub that came with them.

    All namespaces of one level are requested together, up to a limit.
    """
    schemas: dict[str, PluginSchema] = {}
    hashes: set[str] = set()
    level = [root]
    while level:
        answers: list[Content | None] = []
        for start in range(0, len(level), AT_ONCE):
            answers += _many(connection, root, level[start : start + AT_ONCE], hashes)
        if level == [root] and answers == [None]:
            # This hub offers `schema` outside of `call` only.
            answers = [ask(connection, f"{root}.schema")]
        level_schemas = {
            path: _completed(path, answer)
            for path, answer in zip(level, answers, strict=True)
            # A namespace without a schema has no methods to call.
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
        children = [c for c in schema["children"] if f"{prefix}{c['namespace']}" in schemas]
        schema["children"] = children
        if not children:
            del schema["children"]
    return schemas, hashes


def _completed(path: str, schema: Content) -> PluginSchema:
    """Return the schema of a namespace with all fields that a hub may leave out."""
    methods = [
        _completed_method(method)
        for method in schema.get("methods") or []
        if isinstance(method, dict) and isinstance(method.get("name"), str)
    ]
    children = [
        _with_defaults(child, description="") if isinstance(child, dict) else {"namespace": child}
        for child in schema.get("children") or []
    ]
    completed = {
        **_with_defaults(schema, namespace=path, version="", description="", handles=[]),
        "methods": methods,
        "children": [child for child in children if isinstance(child.get("namespace"), str)],
    }
    return completed  # type: ignore[return-value]


def _completed_method(method: Content) -> MethodSchema:
    schema = _with_defaults(
        method, description="", params={}, returns={}, streaming=False, bidirectional=False
    )
    params = _with_defaults(_object(schema["params"]), type="object", properties={})
    completed = {**schema, "params": params, "returns": _object(schema["returns"])}
    return completed  # type: ignore[return-value]


def _with_defaults(schema: Content, **defaults: Any) -> Content:
    """Return a schema without nulls and with the defaults of missing fields."""
    filled = {name: value for name, value in schema.items() if value is not None}
    return filled | {name: value for name, value in defaults.items() if name not in filled}


def _object(value: Any) -> Content:
    return value if isinstance(value, dict) else {}


def _many(
    connection: Connection, root: str, paths: list[str], hashes: set[str]
) -> list[Content | None]:
    """Request the schemas of several namespaces together; None for a namespace that refuses."""
    for number, path in enumerate(paths):
        params = {"method": f"{path}.schema", "params": {}}
        connection.send(request(number, f"{root}.call", json.dumps(params)))
    numbers: dict[Any, int] = {}
    answers: dict[int, Content] = {}
    running = len(paths)
    while running:
        message = json.loads(connection.receive())
        if message.get("error") is not None:
            if message.get("id") is None:
                raise CommandError(Refused(message["error"]).message)
            running -= 1
        elif "result" in message:
            numbers[message["result"]] = message["id"]
        else:
            item = message["params"]["result"]
            number = numbers[message["params"]["subscription"]]
            if item.get("type") == "data" and isinstance(item.get("content"), dict):
                answers.setdefault(number, item["content"])
                if hub_hash := _object(item.get("metadata")).get("plexus_hash"):
                    hashes.add(str(hub_hash))
            running -= item.get("type") == "done"
    return [answers.get(number) for number in range(len(paths))]
