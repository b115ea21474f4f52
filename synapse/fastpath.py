"""The common case in no time: a cached schema, a local hub, one line an event.

Gives up, by returning None before anything was sent, whenever something is out of the ordinary;
the full way then does the same with the same parser. Imports nothing that costs.
"""

from __future__ import annotations

import os
import sys

from hubd.wire.paths import Paths
from synapse.cache import cache_path, load
from synapse.client import UnixConnection, request
from synapse.context import caller_context, sources
from synapse.errors import CommandError
from synapse.invocation import HUB_VARIABLE, split
from synapse.params import parse
from synapse.plainjson import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from synapse.cache import Cache
    from synapse.invocation import Invocation

# The options that this way understands.
_PLAIN_OPTIONS = {"--home", "--json", "--output", "--params", "--no-autostart", "--yes"}

_TYPE = b'"result":{"type":"'
_HASH = b'"plexus_hash":"'
_CONTENT = b',"content":'


def attempt(argv: list[str]) -> int | None:
    """Do the whole command, or nothing; None: it is for the full way."""
    if HUB_VARIABLE in os.environ:
        return None
    try:
        home = _home(argv)
        paths = Paths(home)
        cache_file = cache_path(paths.cache)
        cache = load(cache_file)
        if cache is None:
            return None
        found = split(argv, cache)
        if not found.method or not _is_plain(found) or found.value("--home") != home:
            return None
        namespace = ".".join(found.path)
        schema = cache.method(namespace, found.method)
        hints = schema.get("annotations", {})
        # Questions, and chats whose end decides the exit status, are looked into.
        if schema["bidirectional"] or hints.get("render") == "chat":
            return None
        params = parse(
            found.tokens,
            schema["params"],
            sources,
            aliases=hints.get("aliases"),
            base=found.value("--params"),
        )
        context = dumps(caller_context()) if hints.get("needs_context") else ""
        path = f"{namespace}.{found.method}"
        message = request(cache.root, path, dumps(params), context)
        connection = UnixConnection(paths.socket)
    except CommandError:
        # The full way asks the hub whether the cache is stale before it refuses anything.
        return None
    connection.send(message)
    return _copy(connection, cache, cache_file)


def _home(argv: list[str]) -> str | None:
    """The value of --home, wherever it stands; splitting the command line needs the cache first."""
    for position, token in enumerate(argv):
        if token == "--home" and position + 1 < len(argv):
            return argv[position + 1]
        if token.startswith("--home="):
            return token.removeprefix("--home=")
    return None


def _is_plain(found: Invocation) -> bool:
    if not found.options.keys() <= _PLAIN_OPTIONS:
        return False
    # What goes to a terminal is looked at first: it could obey it.
    return found.output in ("auto", "ndjson") and not sys.stdout.isatty()


def _copy(connection: UnixConnection, cache: Cache, cache_file: str) -> int | None:
    """Copy the contents of the data items to stdout, without looking into them."""
    out = sys.stdout.buffer
    printed = False
    while True:
        message = connection.receive()
        start = message.find(_TYPE)
        kind = message[start + len(_TYPE) : start + len(_TYPE) + 4]
        if start < 0 and message.startswith(b'{"jsonrpc":"2.0","id":1,"result":'):
            continue
        place = message.find(_HASH) + len(_HASH)
        fresh = message[place : place + 16] == cache.hash.encode()
        if kind == b"data":
            place = message.find(_CONTENT, start) + len(_CONTENT)
            out.write(message[place:-3] + b"\n")
            printed = True
            if not connection.has_more:
                out.flush()
        elif kind == b"done" and fresh:
            out.flush()
            return 0
        else:
            # An error, progress, a question, or a hub that has changed.
            from synapse.run import conclude

            out.flush()
            return conclude(connection, message, cache_file, stale=not fresh, printed=printed)
