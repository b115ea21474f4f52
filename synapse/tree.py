"""The cached schema as a Typer application, as much of it as a command line names.

Typer owns the tree and `synapse self`; a generated command only hands its tokens on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from synapse.commands import built_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from synapse.cache import Cache
    from synapse.invocation import Invocation

# The method's own parser judges everything that follows it.
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def build(
    cache: Cache | None, found: Invocation, execute: Callable[[list[str]], None]
) -> typer.Typer:
    """The application for one command line: its path of namespaces, with their methods."""
    app = _group("The command line of the hub")
    app.add_typer(built_in.app, name="self")
    if cache is None:
        return app
    above, path = app, ""
    for word in found.path:
        path = f"{path}.{word}" if path else word
        below = _group(cache.describe(path))
        above.add_typer(below, name=word)
        above = below
    if found.method:
        description = cache.describe_method(path, found.method)

        def command(context: typer.Context) -> None:
            execute(context.args)

        above.command(found.method, help=description, context_settings=_PASS_ON)(command)
    return app


def _group(description: str) -> typer.Typer:
    return typer.Typer(help=description, add_completion=False, pretty_exceptions_enable=False)
