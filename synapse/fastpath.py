"""The fast path: a cached schema, the local hub, one line per event.

It returns None, before anything is sent, for every command that it does not handle. The full
command then starts over with the same parser. This module imports nothing expensive.
"""

import os
import sys

from hubd.wire.client import ClientError, Disconnected, UnixConnection
from hubd.wire.envelope import call_request, dumps
from hubd.wire.paths import Paths
from synapse.argv import HUB_VARIABLE, own_options, split
from synapse.errors import CommandError
from synapse.hub.cache import cache_path, load
from synapse.params.parser import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from synapse.argv import Invocation
    from synapse.hub.cache import Cache

# The options that the fast path handles.
_PLAIN_OPTIONS = {"--home", "--json", "--output", "--params", "--no-autostart", "--yes"}

_TYPE = b'"result":{"type":"'
_HASH = b'"plexus_hash":"'
_CONTENT = b',"content":'


def attempt(argv: list[str]) -> int | None:
    """Run a whole command and return its exit status; None if the full command must run it."""
    if HUB_VARIABLE in os.environ:
        return None
    try:
        home = own_options(argv).value("--home")
        paths = Paths(home)
        cache_file = cache_path(paths.cache)
        cache = load(cache_file)
        if cache is None:
            return None
        invocation = split(argv, cache)
        if not invocation.method or not _is_plain(invocation) or invocation.value("--home") != home:
            return None
        schema = cache.method(invocation.namespace, invocation.method)
        hints = schema.get("annotations", {})
        # Questions need answers, and the events of a chat decide the exit status.
        if schema["bidirectional"] or hints.get("render") == "chat":
            return None
        if os.path.exists(paths.defaults):
            from synapse.preferences import apply_defaults

            apply_defaults(invocation, schema, paths)
        params = parse(
            invocation.tokens,
            schema["params"],
            aliases=hints.get("aliases"),
            base=invocation.value("--params"),
        )
        context = ""
        if hints.get("needs_context"):
            from synapse.hub.caller import caller_context

            context = dumps(caller_context())
        path = f"{invocation.namespace}.{invocation.method}"
        message = call_request(cache.root, path, dumps(params), context)
        connection = UnixConnection(paths.socket)
    except (CommandError, ClientError):
        # The cache may be stale: the full command asks the hub before it reports an error.
        return None
    try:
        connection.send(message)
        return _copy(connection, cache, cache_file)
    except Disconnected as error:
        from synapse.hub.client import no_daemon

        raise no_daemon(error) from None


def _is_plain(invocation: "Invocation") -> bool:
    """Return whether the events are copied to a file or a pipe, as lines."""
    if not invocation.options.keys() <= _PLAIN_OPTIONS:
        return False
    # Text for a terminal is cleaned first, because control sequences could take effect.
    return invocation.output in ("auto", "ndjson") and not sys.stdout.isatty()


def _copy(connection: UnixConnection, cache: "Cache", cache_file: str) -> int | None:
    """Copy the contents of the data items to stdout without parsing them."""
    out = sys.stdout.buffer
    printed = False
    while True:
        message = connection.receive()
        start = message.find(_TYPE)
        kind = message[start + len(_TYPE) : start + len(_TYPE) + 4]
        if start < 0 and message.startswith(b'{"jsonrpc":"2.0","id":1,"result":'):
            continue
        place = message.find(_HASH) + len(_HASH)
        is_fresh = message[place : place + 16] == cache.hash.encode()
        if kind == b"data":
            place = message.find(_CONTENT, start) + len(_CONTENT)
            out.write(message[place:-3] + b"\n")
            printed = True
            if not connection.has_more:
                out.flush()
        elif kind == b"done" and is_fresh:
            out.flush()
            return 0
        else:
            # An error, progress, a question, or a changed hub.
            from synapse.call.call import conclude

            out.flush()
            return conclude(connection, message, cache_file, stale=not is_fresh, printed=printed)
