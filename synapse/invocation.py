"""What the user typed, taken apart: synapse's own options, the path to a method, its tokens.

Both ways in, fast and through Typer, begin here, so they cannot disagree.
"""

from __future__ import annotations

from synapse.errors import UnknownCommand, UsageError, did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from synapse.cache import Cache

# synapse's own options; True: followed by a value.
OPTIONS = {
    "--hub": True,
    "--home": True,
    "--token": True,
    "--token-file": True,
    "--output": True,
    "--json": False,
    "--items": False,
    "--fields": True,
    "--raw": False,
    "--timeout": True,
    "--params": True,
    "--answer": True,
    "--yes": False,
    "--no-input": False,
    "--no-autostart": False,
    "--dry-run": False,
    "--schema": False,
    "--help": False,
    "--version": False,
}
SHORT = {"-o": "--output", "-j": "--json", "-h": "--help", "-y": "--yes"}
# Those that must be known before any schema is.
HUB_OPTIONS = ("--hub", "--home", "--token", "--token-file", "--no-autostart", "--version")
OUTPUTS = ("auto", "json", "ndjson", "table", "raw")

# Names the hub to use where --hub is not given.
HUB_VARIABLE = "SYNAPSE_HUB"

# What belongs to synapse and not to any hub.
BUILT_IN = "self"


class Invocation:
    """A command line, understood as far as the schema allows."""

    def __init__(self) -> None:
        # The namespaces named, in order, and the method; empty while not known.
        self.path: list[str] = []
        self.method = ""
        # What belongs to the method.
        self.tokens: list[str] = []
        # Own options by their long name; all values, in order.
        self.options: dict[str, list[str]] = {}
        # Words after `self`, for the built-in commands.
        self.built_in: list[str] | None = None

    def flag(self, name: str) -> bool:
        """Whether an option was given."""
        return name in self.options

    def value(self, name: str) -> str | None:
        """The value of an option; the last one wins."""
        values = self.options.get(name)
        return values[-1] if values else None

    @property
    def output(self) -> str:
        """How events are printed: as asked for, else `auto`."""
        if self.flag("--json"):
            return "ndjson"
        if self.flag("--raw"):
            return "raw"
        return self.value("--output") or "auto"

    def add(self, name: str, value: str = "") -> None:
        """Note an option."""
        self.options.setdefault(name, []).append(value)


def own_options(argv: list[str]) -> Invocation:
    """Only the options that say which hub is meant, before any schema is known.

    The others may turn out to be parameters of the method, and are not judged here.

    Raises:
        UsageError: An option lacks its value.
    """
    found = Invocation()
    position = 0
    while position < len(argv):
        name, equals, _ = argv[position].partition("=")
        if name in HUB_OPTIONS:
            position += _take_option(found, argv, position)
        else:
            position += 2 if OPTIONS.get(_long(name)) and not equals else 1
    return found


def split(argv: list[str], cache: Cache) -> Invocation:
    """Take a command line apart.

    Raises:
        UnknownCommand: A word is neither a namespace nor a method here.
        UsageError: An option is unknown or lacks its value.
    """
    found = Invocation()
    parameters: set[str] = set()
    position = 0
    while position < len(argv):
        token = argv[position]
        if found.method:
            name = token.partition("=")[0]
            mine = _long(name) in OPTIONS and name.replace("-", "_") not in parameters
            taken = _take_option(found, argv, position) if mine else 0
            if not taken:
                found.tokens.append(token)
                taken = 1
                # The value of a parameter is never one of our options, whatever it looks like
                # to us: only what the parser would refuse as a value is looked at again.
                if _takes_next(token, argv, position):
                    found.tokens.append(argv[position + 1])
                    taken = 2
            position += taken
        elif token.startswith("-") and token != "-":
            taken = _take_option(found, argv, position)
            if not taken:
                raise UsageError(
                    f"unknown option {token.partition('=')[0]}",
                    hint=did_you_mean(token.partition("=")[0], list(OPTIONS)),
                )
            position += taken
        else:
            position += 1
            if token == BUILT_IN and not found.path:
                found.built_in = argv[position:]
                return found
            parameters = _enter(found, token, cache)
    return found


def _enter(found: Invocation, word: str, cache: Cache) -> set[str]:
    """Go one word down the tree; once it is a method, the flags that are its own."""
    namespace = ".".join(found.path)
    if word == cache.root and not found.path:
        found.path = [word]
        return set()
    inside = "" if found.path == [cache.root] else namespace
    if found.path != [cache.root] and cache.has_namespace(f"{inside}.{word}".lstrip(".")):
        found.path.append(word)
        return set()
    name = word.replace("-", "_")
    if found.path and cache.has_method(namespace, name):
        found.method = name
        schema = cache.method(namespace, name)
        properties = schema["params"].get("properties", {})
        names = [*properties, *(f"no_{key}" for key in properties if _is_boolean(properties[key]))]
        for others in schema.get("annotations", {}).get("aliases", {}).values():
            names += others
        return {f"--{name}".replace("-", "_") for name in names}
    raise unknown_word(found.path, word, cache)


def unknown_word(path: list[str], word: str, cache: Cache) -> UnknownCommand:
    """The refusal of a word that leads nowhere."""
    namespace = ".".join(path)
    if not path:
        names = [cache.root, *cache.children(""), BUILT_IN]
        hint = did_you_mean(word, names)
        return UnknownCommand(f"unknown namespace '{word}'", hint=hint, namespace=word)
    names = cache.methods(namespace)
    if path != [cache.root]:
        names = [*names, *cache.children(namespace)]
    return UnknownCommand(
        f"'{' '.join(path)}' has no method or namespace '{word}'", hint=did_you_mean(word, names)
    )


def _take_option(found: Invocation, argv: list[str], position: int) -> int:
    """Note one of our own options; returns how many words it took, 0 if it is none."""
    name, equals, value = argv[position].partition("=")
    name = _long(name)
    if name not in OPTIONS or not argv[position].startswith("-"):
        return 0
    if not OPTIONS[name]:
        if equals:
            raise UsageError(f"{name} takes no value")
        found.add(name)
        return 1
    if equals:
        found.add(name, value)
        return 1
    if position + 1 >= len(argv):
        raise UsageError(f"{name} needs a value")
    found.add(name, argv[position + 1])
    return 2


def _takes_next(token: str, argv: list[str], position: int) -> bool:
    from synapse.params import looks_like_option

    return (
        token.startswith("--")
        and "=" not in token
        and position + 1 < len(argv)
        and argv[position + 1].startswith("-")
        and not looks_like_option(argv[position + 1])
    )


def _is_boolean(schema: dict[str, Any]) -> bool:
    """Whether a parameter has a `--no-` form."""
    kinds = [entry.get("type") for entry in schema.get("anyOf", [schema])]
    return "boolean" in kinds and all(kind in ("boolean", "null") for kind in kinds)


def _long(name: str) -> str:
    return SHORT.get(name, name)
