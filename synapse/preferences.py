"""The user's own commands and default parameters: two small files beside the hub's settings.

They belong to the user and not to a directory, because a cloned repository must not choose how
agents run. A line is one entry, and tabs separate its fields. The fast path imports this module if
the user has stored defaults, so it imports nothing expensive.
"""

from __future__ import annotations

import os

from hubd.wire.paths import Paths
from synapse.argv import own_options, plain_words, replace_first_word
from synapse.errors import CommandError
from synapse.hub.cache import cache_path, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubd.wire.schema import MethodSchema
    from synapse.argv import Invocation

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_UNESCAPES = {escape[1]: char for char, escape in _ESCAPES.items()}


def aliases(paths: Paths) -> dict[str, list[str]]:
    """Return the words of each alias."""
    return {name: words for name, *words in _read(_aliases_file(paths))}


def write_aliases(paths: Paths, entries: dict[str, list[str]]) -> None:
    """Replace all aliases."""
    _write(_aliases_file(paths), [[name, *words] for name, words in entries.items()])


def all_defaults(paths: Paths) -> dict[tuple[str, str], list[str]]:
    """Return the default parameters by directory and namespace."""
    rows = _read(paths.defaults)
    return {(row[0], row[1]): row[2:] for row in rows if len(row) > 2}


def write_defaults(paths: Paths, entries: dict[tuple[str, str], list[str]]) -> None:
    """Replace all default parameters."""
    _write(paths.defaults, [[*key, *tokens] for key, tokens in entries.items()])


def apply_defaults(invocation: Invocation, schema: MethodSchema, paths: Paths) -> None:
    """Add the default parameters to a command line. `--params` replaces them all."""
    if invocation.flag("--params"):
        return
    tokens = defaults(paths, invocation.namespace)
    if tokens:
        from synapse.params.defaults import add_defaults

        invocation.tokens = add_defaults(invocation.tokens, tokens, schema)


def expand_alias(argv: list[str]) -> list[str]:
    """Return the command line with the words of an alias in place of its first word.

    A namespace of the hub takes precedence over an alias of the same name.
    """
    words = plain_words(argv)
    paths = Paths(own_options(argv, strict=False).value("--home"))
    expansion = aliases(paths).get(words[0]) if words else None
    if expansion is None:
        return argv
    cache = load(cache_path(paths.cache))
    if cache is not None and (words[0] == cache.root or cache.has_namespace(words[0])):
        return argv
    return replace_first_word(argv, expansion)


def defaults(paths: Paths, namespace: str) -> list[str]:
    """Return the default parameters of a namespace in the current directory.

    The entry of the directory counts, else that of the nearest directory above it.
    """
    entries = all_defaults(paths)
    if not entries:
        return []
    try:
        directory = os.getcwd()
    except OSError:
        return []  # The directory was removed.
    while True:
        if (tokens := entries.get((directory, namespace))) is not None:
            return tokens
        above = os.path.dirname(directory)
        if above == directory:
            return []
        directory = above


def _aliases_file(paths: Paths) -> str:
    return os.path.join(os.path.dirname(paths.config), "synapse-aliases")


def _read(file: str) -> list[list[str]]:
    try:
        with open(file, encoding="utf-8", errors="replace", newline="\n") as opened:
            lines = opened.read().split("\n")
    except OSError:
        return []
    return [[_unescape(field) for field in line.split("\t")] for line in lines if line]


def _write(file: str, rows: list[list[str]]) -> None:
    text = "".join("\t".join(map(_escape, row)) + "\n" for row in rows)
    temporary = f"{file}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
        os.replace(temporary, file)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror or error}") from None


def _escape(field: str) -> str:
    return "".join(_ESCAPES.get(char, char) for char in field)


def _unescape(field: str) -> str:
    text = ""
    is_escaped = False
    for char in field:
        if is_escaped:
            text += _UNESCAPES.get(char, char)
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        else:
            text += char
    return text
