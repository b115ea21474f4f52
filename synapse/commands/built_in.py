"""The `self` commands as a Typer application."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubd.wire.terminal import clean
from synapse.help import EXIT_STATUS
from synapse.render.plain import write_json

if TYPE_CHECKING:
    from synapse.hub.hubs import Hub

app = typer.Typer(
    help="Commands for synapse itself: status, doctor, schema, cache, completion, version.",
    epilog=EXIT_STATUS,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
completion_app = typer.Typer(
    help="Completion for bash, zsh and fish.", no_args_is_help=True, add_completion=False
)
app.add_typer(completion_app, name="completion")


Json = Annotated[bool, typer.Option("--json", "-j", help="Print JSON.")]


@app.command()
def status(context: typer.Context, as_json: Json = False) -> int:
    """Show whether the hub answers, and its address. Exit status 5: no answer."""
    from synapse.commands.status import hub_status

    return _show(hub_status(_hub(context)), as_json, ok="running", status=5)


@app.command()
def doctor(context: typer.Context, as_json: Json = False) -> int:
    """Check the hub and this installation. Exit status 1: a check failed."""
    from hubd.wire.checks import as_lines, as_rows
    from synapse.commands.doctor import examine

    findings = examine(_hub(context))
    if as_json:
        _print(json.dumps(as_rows(findings)))
    else:
        for line in as_lines(findings):
            _print(line)
    return 0 if all(finding.ok for finding in findings) else 1


@app.command()
def schema(
    context: typer.Context,
    path: Annotated[str, typer.Argument(help="A namespace such as a.b; by default the root.")] = "",
    as_json: Json = True,
) -> int:
    """Print the current schema of a namespace as JSON."""
    from synapse.hub import refresh

    hub = _hub(context)
    cache = refresh.current(hub.cache_file, hub.connect())
    name = path or cache.root
    if not (cache.has_namespace(name) or name == cache.root):
        from synapse.argv import unknown_word

        raise unknown_word([], name, cache)
    write_json(cache.whole(name))
    return 0


@app.command()
def cache(
    context: typer.Context,
    refresh_now: Annotated[bool, typer.Option("--refresh", help="Read the schema again.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the cache.")] = False,
    as_json: Json = False,
) -> int:
    """Show the cached schema: its file, hash, size and age."""
    from synapse.commands.status import cache_status

    return _show(cache_status(_hub(context), refresh_now, clear), as_json)


@app.command()
def version(context: typer.Context, as_json: Json = False) -> int:
    """Show the versions of synapse and of the hub."""
    from synapse.commands.status import versions

    return _show(versions(_hub(context)), as_json)


@completion_app.command("show")
def completion_show(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")],
) -> int:
    """Print the completion script of a shell."""
    from synapse.commands.completion import script

    sys.stdout.write(script(shell))
    return 0


@completion_app.command("install")
def completion_install(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish; by default $SHELL.")] = "",
) -> int:
    """Install the completion script for a shell."""
    from synapse.commands.completion import install

    _print(install(shell))
    return 0


def _hub(context: typer.Context) -> Hub:
    """Return the hub that the command line selects."""
    hub: Hub = context.obj
    return hub


def _show(fields: dict[str, Any], as_json: bool, ok: str = "", status: int = 1) -> int:
    """Print the fields; return a status that depends on the field `ok`."""
    if as_json:
        _print(json.dumps(fields))
    else:
        width = max(map(len, fields))
        for name, value in fields.items():
            _print(f"{name:<{width}}  {'' if value is None else value}".rstrip())
    return 0 if not ok or fields[ok] else status


def _print(line: str) -> None:
    sys.stdout.write((clean(line) if sys.stdout.isatty() else line) + "\n")
