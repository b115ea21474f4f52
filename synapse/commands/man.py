"""Manual pages from the cached schema: one for synapse, and one for each namespace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hubd import __version__
from synapse import help as help_text
from synapse.errors import CommandError

if TYPE_CHECKING:
    from synapse.hub.cache import Cache

SECTION = 1


def names(cache: Cache) -> list[str]:
    """Return the namespaces with a page; the empty name is synapse itself."""
    return ["", cache.root, *(path for path in cache.paths() if path != cache.root)]


def page(cache: Cache, namespace: str) -> str:
    """Return a manual page in roff."""
    title = _title(namespace)
    if not namespace:
        summary = "the command line of the hub"
        sections = [("DESCRIPTION", help_text.root_help(cache))]
    else:
        summary = cache.describe(namespace)
        sections = [("DESCRIPTION", help_text.namespace_help(cache, namespace))]
        sections += [
            (method.upper(), help_text.method_help(cache, namespace, method))
            for method in cache.methods(namespace)
        ]
    lines = [
        f'.TH "{_roff(title.upper())}" {SECTION} "" "hubd {__version__}"',
        ".SH NAME",
        f"{_roff(title)} \\- {_roff(summary)}",
    ]
    for heading, text in sections:
        # The help is laid out already.
        lines += [f'.SH "{_roff(heading)}"', ".nf", *map(_roff, text.split("\n")), ".fi"]
    return "\n".join(lines) + "\n"


def install(cache: Cache) -> str:
    """Write all pages to the user's directory of manual pages, and return a message.

    Raises:
        CommandError: The directory cannot be written.
    """
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    directory = os.path.join(data, "man", f"man{SECTION}")
    try:
        os.makedirs(directory, exist_ok=True)
        for namespace in names(cache):
            file = os.path.join(directory, f"{_title(namespace)}.{SECTION}")
            with open(file, "w", encoding="utf-8") as opened:
                opened.write(page(cache, namespace))
    except OSError as error:
        raise CommandError(f"{directory} cannot be written: {error.strerror or error}") from None
    return f"wrote {len(names(cache))} pages to {directory}; try: man synapse"


def _title(namespace: str) -> str:
    return f"synapse-{namespace.replace('.', '-')}" if namespace else "synapse"


def _roff(text: str) -> str:
    """Return a line of text with the characters escaped that roff would interpret."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
