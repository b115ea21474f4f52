"""Completion, answered from the cached schema: the shell asks by running `synapse` itself.

Prints one candidate a line, with a description after a tab. Never starts a daemon, never takes
long: live values are asked for within a fraction of a second or left out.
"""

from __future__ import annotations

import os
import sys

from hubd.wire.paths import Paths
from synapse.cache import cache_path, load
from synapse.errors import CommandError
from synapse.invocation import (
    BUILT_IN,
    HUB_VARIABLE,
    OPTIONS,
    OUTPUTS,
    SHORT,
    Invocation,
    own_options,
    split,
)
from synapse.schemas import Schemas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from synapse.cache import Cache

    Candidates = list[tuple[str, str]]

# The shell's script sets this; the arguments are then the words typed so far.
VARIABLE = "_SYNAPSE_COMPLETE"
# The whole line, from a shell that cuts words in pieces.
LINE_VARIABLE = "_SYNAPSE_LINE"
# Where it cuts.
CUTS = "=:@"
LIVE_SECONDS = 0.15

# The commands under `self`, and their flags.
BUILT_INS = {
    "status": ("--json",),
    "doctor": ("--json",),
    "schema": (),
    "cache": ("--refresh", "--clear", "--json"),
    "completion": (),
    "version": ("--json",),
}


def answer(words: list[str]) -> int:
    """Print the candidates for the last word."""
    words = words or [""]
    line = os.environ.get(LINE_VARIABLE, "")
    *before, current = _rejoined(words, line) if line else words
    # A shell that cuts words replaces only what follows the last cut.
    kept = 0 if line and not words[-1].strip(CUTS) else len(words[-1])
    done = len(current) - kept
    flag, equals, value = current.partition("=")
    if equals and flag.startswith("--"):
        found = [(f"{flag}={name}", text) for name, text in _after([*before, flag], value)]
    else:
        found = _after(before, current)
    lines = [
        f"{name[done:]}\t{_printable(text)}\n"
        for name, text in found
        # One candidate a line: what would break the list, or be obeyed by a terminal, is left out.
        if name.replace("_", "-").startswith(current.replace("_", "-")) and name.isprintable()
    ]
    sys.stdout.write("".join(lines))
    return 0


def _printable(text: str) -> str:
    """Return a description without characters that a terminal obeys or hides."""
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


def _rejoined(words: list[str], line: str) -> list[str]:
    """The words as the user typed them: those with nothing between them on the line are one."""
    joined: list[str] = []
    # Behind the command itself.
    end = len(line) - len(line.lstrip()) + len((line.split() or [""])[0])
    for word in words:
        start = line.find(word, end)
        if joined and start == end and (word or not line[end:]):
            joined[-1] += word
        else:
            joined.append(word)
        end = max(start, end) + len(word)
    return joined


def _after(before: list[str], current: str) -> Candidates:
    """What may follow the words that are there."""
    plain = _without_options(before)
    if plain[:1] == [BUILT_IN]:
        return _built_ins(plain)
    paths = Paths(_home(before))
    remote = "--hub" in {word.partition("=")[0] for word in before} or HUB_VARIABLE in os.environ
    cache = load(_remote_cache(before) if remote else cache_path(paths.cache))
    if cache is None:
        return _built_ins(plain)
    return _candidates(before, current, cache, "" if remote else paths.socket)


def _remote_cache(before: list[str]) -> str:
    """Where the schema of a remote hub is remembered; nowhere if the hub is not known."""
    from synapse.hubs import chosen

    try:
        return chosen(own_options(before)).cache_file
    except CommandError:
        return ""


def _without_options(words: list[str]) -> list[str]:
    """The words that are neither options of ours nor values of one."""
    found: list[str] = []
    position = 0
    while position < len(words):
        option = SHORT.get(words[position], words[position])
        if option.partition("=")[0] not in OPTIONS:
            found.append(words[position])
        position += 2 if OPTIONS.get(option) else 1
    return found


def _candidates(before: list[str], current: str, cache: Cache, socket: str) -> Candidates:
    previous = before[-1] if before else ""
    option = SHORT.get(previous, previous)
    if option == "--output":
        return [(name, "") for name in OUTPUTS]
    try:
        # The flag whose value is being typed has none yet.
        given = split(before[:-1] if previous.startswith("--") else before, cache)
    except CommandError:
        return []
    if not given.method and OPTIONS.get(option):
        return []
    if not given.method:
        return _options() if current.startswith("-") else _words(given, cache)
    schema = cache.method(".".join(given.path), given.method)
    name = _main_name(previous[2:].replace("-", "_"), schema)
    properties = schema["params"].get("properties", {})
    if previous.startswith("--") and name in properties:
        values = _values(name, schema, cache, socket)
        if values is not None:
            return values
    if option in OPTIONS and OPTIONS[option] and name not in properties:
        return []
    return _flags(schema, before) + _options()


def _words(given: Invocation, cache: Cache) -> Candidates:
    """The namespaces and methods that may come next."""
    path = ".".join(given.path)
    found: Candidates = []
    if not path:
        found = [(cache.root, cache.describe(cache.root)), (BUILT_IN, "synapse itself")]
    if path != cache.root:
        for name in cache.children(path):
            found.append((name, cache.describe(f"{path}.{name}" if path else name)))
    if path:
        found += [(name, cache.describe_method(path, name)) for name in cache.methods(path)]
    return found


def _flags(schema: dict[str, Any], before: list[str]) -> Candidates:
    """The parameters that were not given yet."""
    used = {_main_flag(word.partition("=")[0], schema) for word in before}
    found: Candidates = []
    for name, entry in schema["params"].get("properties", {}).items():
        flag = "--" + name.replace("_", "-")
        text = entry.get("description", "").partition("\n")[0]
        kinds = [entry.get("type"), *(part.get("type") for part in entry.get("anyOf", ()))]
        if flag not in used or "array" in kinds:
            found.append((flag, text))
        if "boolean" in kinds and f"--no-{flag[2:]}" not in used:
            found.append((f"--no-{flag[2:]}", text))
    return found


def _main_flag(flag: str, schema: dict[str, Any]) -> str:
    """The flag as it is offered, whichever way it was written."""
    return "--" + _main_name(flag[2:].replace("-", "_"), schema).replace("_", "-")


def _main_name(name: str, schema: dict[str, Any]) -> str:
    """The name of a parameter that may have been given under another."""
    for main, others in schema.get("annotations", {}).get("aliases", {}).items():
        if name in others:
            return str(main)
    return name


def _values(name: str, schema: dict[str, Any], cache: Cache, socket: str) -> Candidates | None:
    """The values of a parameter; None if it takes none, because it is a flag."""
    root = schema["params"]
    kinds = Schemas(root).variants(root["properties"][name])
    if kinds and all(entry.get("type") in ("boolean", "null") for entry in kinds):
        return None
    listed = [str(value) for entry in kinds for value in entry.get("enum", ())]
    listed += [str(entry["const"]) for entry in kinds if "const" in entry]
    lister = schema.get("annotations", {}).get("completes", {}).get(name)
    if lister and socket:
        listed += _live(name, lister, cache, socket)
    return [(value, "") for value in listed]


def _live(name: str, method: str, cache: Cache, socket: str) -> list[str]:
    """The values that the hub lists right now; none if it does not answer at once."""
    from time import monotonic

    from hubd.wire.values import listed_values
    from synapse.client import UnixConnection, item_of, request

    found: list[str] = []
    deadline = monotonic() + LIVE_SECONDS
    try:
        connection = UnixConnection(socket, LIVE_SECONDS)
        connection.send(request(cache.root, method, "{}"))
        while (left := deadline - monotonic()) > 0:
            connection.set_timeout(left)
            item = item_of(connection.receive())
            if item and item["type"] == "data":
                found += listed_values(name, item["content"])
            elif item and item["type"] in ("done", "error"):
                break
    except (CommandError, OSError):
        return found
    return found


def _options() -> Candidates:
    return [(name, "") for name in OPTIONS]


def _built_ins(words: list[str]) -> Candidates:
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


def _home(words: list[str]) -> str | None:
    for position, word in enumerate(words):
        if word == "--home" and position + 1 < len(words):
            return words[position + 1]
        if word.startswith("--home="):
            return word.removeprefix("--home=")
    return os.environ.get("HUBD_HOME")
