"""Shell completion from the cached schema. The shell's script runs `synapse` with its words.

It prints one candidate per line, with a description after a tab. It never starts a daemon, and
leaves out values of the hub that do not arrive within a fraction of a second.
"""

from __future__ import annotations

import os
import sys

from hubd.wire.paths import Paths
from synapse.argv import (
    BUILT_IN,
    HUB_VARIABLE,
    OPTIONS,
    OUTPUTS,
    Invocation,
    option_at,
    own_options,
    plain_words,
    rejoin,
    split,
)
from synapse.errors import CommandError
from synapse.hub.cache import cache_path, load
from synapse.params.schemas import Schemas, dashed, fold
from synapse.preferences import aliases, expand_alias

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubd.wire.schema import MethodSchema
    from synapse.hub.cache import Cache

    Candidates = list[tuple[str, str]]

# The shell's script sets this; the arguments are then the words typed so far.
VARIABLE = "_SYNAPSE_COMPLETE"
# The whole line, from a shell that cuts words.
LINE_VARIABLE = "_SYNAPSE_LINE"
# The characters at which it cuts.
CUTS = "=:@"
# The time that the hub has to list values.
LIVE_SECONDS = 0.15

# The commands under `self`, and their flags.
BUILT_INS = {
    "status": ("--json",),
    "doctor": ("--json",),
    "schema": (),
    "cache": ("--refresh", "--clear", "--json"),
    "completion": (),
    "version": ("--json",),
    "alias": ("--remove", "--json"),
    "use": ("--clear", "--directory", "--json"),
    "man": ("--install",),
    "open": ("--no-browser",),
}


def answer(words: list[str]) -> int:
    """Print the candidates for the last word."""
    words = words or [""]
    line = os.environ.get(LINE_VARIABLE, "")
    *before, current = rejoin(words, line) if line else words
    # A shell that cuts words replaces only the text after the last cut.
    replaced = 0 if line and not words[-1].strip(CUTS) else len(words[-1])
    kept = len(current) - replaced
    flag, equals, value = current.partition("=")
    if equals and flag.startswith("--"):
        candidates = [(f"{flag}={name}", text) for name, text in _after([*before, flag], value)]
    else:
        candidates = _after(before, current)
    lines = [
        f"{name[kept:]}\t{_printable(text)}\n"
        for name, text in candidates
        # A candidate with control characters would break the list or reach the terminal.
        if dashed(name).startswith(dashed(current)) and name.isprintable()
    ]
    sys.stdout.write("".join(lines))
    return 0


def _printable(text: str) -> str:
    """Return a description without control characters."""
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


def _after(before: list[str], current: str) -> Candidates:
    """Return the candidates that may follow some words."""
    before = expand_alias(before)
    words = plain_words(before)
    if words[:1] == [BUILT_IN]:
        return _built_ins(words)
    options = own_options(before, strict=False)
    is_remote = options.flag("--hub") or HUB_VARIABLE in os.environ
    paths = Paths(options.value("--home"))
    cache = load(_remote_cache(options) if is_remote else cache_path(paths.cache))
    if cache is None:
        return _built_ins(words)
    return _candidates(before, current, cache, "" if is_remote else paths.socket, aliases(paths))


def _remote_cache(options: Invocation) -> str:
    """Return the cache file of a remote hub; empty if the hub is unknown."""
    from synapse.hub.hubs import chosen

    try:
        return chosen(options).cache_file
    except CommandError:
        return ""


def _candidates(
    before: list[str], current: str, cache: Cache, socket: str, own: dict[str, list[str]]
) -> Candidates:
    previous = before[-1] if before else ""
    option, _, _ = option_at([previous], 0)
    if option == "--output":
        return [(name, "") for name in OUTPUTS]
    try:
        # A flag at the end has no value yet.
        invocation = split(before[:-1] if previous.startswith("--") else before, cache)
    except CommandError:
        return []
    takes_value = OPTIONS.get(option, False)
    if not invocation.method and takes_value:
        return []
    if not invocation.method:
        return _options() if current.startswith("-") else _words(invocation, cache, own)
    schema = cache.method(invocation.namespace, invocation.method)
    name = _main_name(fold(previous[2:]), schema)
    properties = schema["params"].get("properties", {})
    if previous.startswith("--") and name in properties:
        values = _values(name, schema, cache, socket)
        if values is not None:
            return values
    if takes_value and name not in properties:
        return []
    given = {*invocation.flags, previous.partition("=")[0]}
    return _flags(schema, given) + _options()


def _words(invocation: Invocation, cache: Cache, own: dict[str, list[str]]) -> Candidates:
    """Return the namespaces, methods and aliases that may come next."""
    path = invocation.namespace
    candidates: Candidates = []
    if not path:
        candidates = [(cache.root, cache.describe(cache.root)), (BUILT_IN, "synapse itself")]
        candidates += [(name, " ".join(words)) for name, words in own.items()]
    if path != cache.root:
        for name in cache.children(path):
            candidates.append((name, cache.describe(f"{path}.{name}" if path else name)))
    if path:
        candidates += [(name, cache.describe_method(path, name)) for name in cache.methods(path)]
    return candidates


def _flags(schema: MethodSchema, given: set[str]) -> Candidates:
    """Return the flags of the parameters that are not given yet."""
    used = {_main_flag(flag, schema) for flag in given}
    candidates: Candidates = []
    for name, entry in schema["params"].get("properties", {}).items():
        flag = f"--{dashed(name)}"
        text = entry.get("description", "").partition("\n")[0]
        kinds = [entry.get("type"), *(part.get("type") for part in entry.get("anyOf", ()))]
        if flag not in used or "array" in kinds:
            candidates.append((flag, text))
        if "boolean" in kinds and f"--no-{flag[2:]}" not in used:
            candidates.append((f"--no-{flag[2:]}", text))
    return candidates


def _main_flag(flag: str, schema: MethodSchema) -> str:
    """Return a flag under the main name of its parameter."""
    return f"--{dashed(_main_name(fold(flag[2:]), schema))}"


def _main_name(name: str, schema: MethodSchema) -> str:
    """Return the main name of a parameter, for an alias."""
    for main, others in schema.get("annotations", {}).get("aliases", {}).items():
        if name in others:
            return str(main)
    return name


def _values(name: str, schema: MethodSchema, cache: Cache, socket: str) -> Candidates | None:
    """Return the values of a parameter; None if it is a switch."""
    root = schema["params"]
    kinds = Schemas(root).variants(root["properties"][name])
    if kinds and all(entry.get("type") in ("boolean", "null") for entry in kinds):
        return None
    values = [str(value) for entry in kinds for value in entry.get("enum", ())]
    values += [str(entry["const"]) for entry in kinds if "const" in entry]
    lister = schema.get("annotations", {}).get("completes", {}).get(name)
    if lister and socket:
        values += _live_values(name, lister, cache, socket)
    return [(value, "") for value in values]


def _live_values(name: str, method: str, cache: Cache, socket: str) -> list[str]:
    """Return the values that the hub lists in time."""
    from time import monotonic

    from hubd.wire.envelope import call_request
    from hubd.wire.values import listed_values
    from synapse.hub.client import UnixConnection, item_of

    values: list[str] = []
    deadline = monotonic() + LIVE_SECONDS
    try:
        connection = UnixConnection(socket, LIVE_SECONDS)
        connection.send(call_request(cache.root, method, "{}"))
        while (left := deadline - monotonic()) > 0:
            connection.set_timeout(left)
            item = item_of(connection.receive())
            if item and item["type"] == "data":
                values += listed_values(name, item["content"])
            elif item and item["type"] in ("done", "error"):
                break
    except (CommandError, OSError):
        return values
    return values


def _options() -> Candidates:
    return [(name, "") for name in OPTIONS]


def _built_ins(words: list[str]) -> Candidates:
    """Return the words and flags of the `self` commands."""
    names: tuple[str, ...] = ()
    if not words:
        return [(BUILT_IN, "synapse itself")]
    if words == [BUILT_IN]:
        names = tuple(BUILT_INS)
    elif words == [BUILT_IN, "completion"]:
        names = ("show", "install")
    elif words[:2] == [BUILT_IN, "completion"] and len(words) == 3:
        names = ("bash", "zsh", "fish")
    elif words[0] == BUILT_IN:
        names = tuple(flag for flag in BUILT_INS.get(words[1], ()) if flag not in words)
    return [(name, "") for name in names]
