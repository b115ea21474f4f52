"""`synapse self alias` and `synapse self use`: store the user's commands and default parameters."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from synapse import preferences
from synapse.argv import BUILT_IN, looks_like_option
from synapse.errors import CommandError, UsageError, suggestion
from synapse.hub.cache import load
from synapse.params.schemas import fold

if TYPE_CHECKING:
    from synapse.hub.cache import Cache
    from synapse.hub.hubs import Hub

NOT_FOUND = 3


def set_alias(hub: Hub, name: str, words: list[str]) -> None:
    """Store a command under a name.

    Raises:
        UsageError: The name is not a word, or it names a namespace.
    """
    cache = load(hub.cache_file)
    is_word = name[:1].isalpha() and name.replace("-", "").replace("_", "").isalnum()
    if not is_word or not name.isascii():
        raise UsageError(f"'{name}' can't be an alias", hint="Use letters, digits, '-' and '_'")
    if name == BUILT_IN or (cache is not None and name in (cache.root, *cache.children(""))):
        raise UsageError(f"'{name}' is a namespace already", hint="Choose another name")
    if words[:1] == [name]:
        raise UsageError("an alias can't begin with itself", hint="Name a namespace first")
    entries = preferences.aliases(hub.paths)
    preferences.write_aliases(hub.paths, {**entries, name: words})


def remove_alias(hub: Hub, name: str) -> None:
    """Remove an alias.

    Raises:
        CommandError: There is no such alias.
    """
    entries = preferences.aliases(hub.paths)
    if name not in entries:
        hint = suggestion(name, list(entries))
        raise CommandError(f"there is no alias '{name}'", hint=hint, status=NOT_FOUND)
    del entries[name]
    preferences.write_aliases(hub.paths, entries)


def set_defaults(hub: Hub, directory: str, namespace: str, words: list[str]) -> list[str]:
    """Store default parameters of a namespace for a directory, and return their tokens.

    Raises:
        UsageError: The namespace or a parameter is unknown.
    """
    cache = load(hub.cache_file)
    if cache is not None and not (namespace == cache.root or cache.has_namespace(namespace)):
        names = [cache.root, *cache.paths()]
        raise UsageError(f"unknown namespace '{namespace}'", hint=suggestion(namespace, names))
    tokens = _joined(words)
    if cache is not None:
        _check(cache, namespace, tokens)
    entries = preferences.all_defaults(hub.paths)
    entries[_directory(directory), namespace] = tokens
    preferences.write_defaults(hub.paths, entries)
    return tokens


def clear_defaults(hub: Hub, directory: str, namespace: str) -> int:
    """Remove the defaults of a directory, or of one namespace there; return their number."""
    entries = preferences.all_defaults(hub.paths)
    place = _directory(directory)
    kept = {
        key: tokens
        for key, tokens in entries.items()
        if key[0] != place or namespace not in ("", key[1])
    }
    preferences.write_defaults(hub.paths, kept)
    return len(entries) - len(kept)


def _directory(directory: str) -> str:
    if not os.path.isdir(directory):
        raise UsageError(f"{directory} is not a directory")
    return os.path.realpath(directory)


def _joined(words: list[str]) -> list[str]:
    """Return `--name value` as `--name=value`."""
    tokens: list[str] = []
    for word in words:
        if looks_like_option(word):
            tokens.append(word)
        elif tokens and "=" not in tokens[-1]:
            tokens[-1] += f"={word}"
        else:
            raise UsageError(f"'{word}' is not a parameter", hint="Write --param VALUE")
    return tokens


def _check(cache: Cache, namespace: str, tokens: list[str]) -> None:
    """Refuse a parameter that no method of the namespace has."""
    names: set[str] = set()
    for name in cache.methods(namespace):
        method = cache.method(namespace, name)
        names.update(method["params"].get("properties", {}))
        for others in method.get("annotations", {}).get("aliases", {}).values():
            names.update(others)
    for token in tokens:
        flag = fold(token.partition("=")[0][2:]).partition(".")[0]
        if flag not in names and flag.removeprefix("no_") not in names:
            hint = suggestion(flag, sorted(names))
            raise UsageError(f"no method of {namespace} has the parameter --{flag}", hint=hint)
