"""A Typer application for the commands of one command line, and for `synapse self`.

A generated command passes its tokens on to the parser of params.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from synapse.commands import built_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from synapse.argv import Invocation
    from synapse.hub.cache import Cache

# Typer leaves all tokens after the method to the parser of params.
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def build(
    cache: Cache | None, invocation: Invocation, execute: Callable[[list[str]], None]
) -> typer.Typer:
    """Return the application with the namespaces and the method of one command line."""
    app = _group("The command line of the hub")
    app.add_typer(built_in.app, name="self")
    if cache is None:
        return app
    above, path = app, ""
    for word in invocation.path:
        path = f"{path}.{word}" if path else word
        below = _group(cache.describe(path))
        above.add_typer(below, name=word)
        above = below
    if invocation.method:
        description = cache.describe_method(path, invocation.method)

        def command(context: typer.Context) -> None:
            execute(context.args)

        above.command(invocation.method, help=description, context_settings=_PASS_ON)(command)
    return app


def _group(description: str) -> typer.Typer:
    return typer.Typer(help=description, add_completion=False, pretty_exceptions_enable=False)
