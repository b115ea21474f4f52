"""The `self` commands as a Typer application."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubd.wire.terminal import clean
from synapse.errors import UsageError
from synapse.help import EXIT_STATUS
from synapse.render.plain import write_json

if TYPE_CHECKING:
    from synapse.hub.hubs import Hub

app = typer.Typer(
    help="Commands for synapse itself.",
    epilog=" ".join(EXIT_STATUS.split()),
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


@app.command("open")
def open_page(
    context: typer.Context,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> int:
    """Open the hub's page in the browser."""
    from hubd.wire import page_link
    from synapse.commands.page import page_address

    url = page_address(_hub(context))
    _print(url)
    if no_browser or not page_link.show(url):
        sys.stderr.write(f"{page_link.HINT}\n")
    return 0


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


_AS_GIVEN = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}


@app.command(context_settings=_AS_GIVEN)
def alias(
    context: typer.Context,
    remove: Annotated[str, typer.Option("--remove", help="Remove an alias.")] = "",
    as_json: Json = False,
) -> int:
    """Store a command under a name, or list the aliases.

    Example: synapse self alias NAME NAMESPACE METHOD --param VALUE
    """
    from synapse import preferences
    from synapse.commands.preferences import remove_alias, set_alias

    hub = _hub(context)
    if remove:
        remove_alias(hub, remove)
    elif context.args:
        name, *words = context.args
        if not words:
            raise UsageError("an alias needs words", hint="synapse self alias NAME WORDS…")
        set_alias(hub, name, words)
    else:
        return _list(
            [
                {"alias": name, "words": words}
                for name, words in preferences.aliases(hub.paths).items()
            ],
            as_json,
        )
    return 0


@app.command(context_settings=_AS_GIVEN)
def use(
    context: typer.Context,
    directory: Annotated[
        str, typer.Option("--directory", help="The directory; by default the current one.")
    ] = ".",
    clear: Annotated[bool, typer.Option("--clear", help="Remove the defaults.")] = False,
    as_json: Json = False,
) -> int:
    """Set default parameters of a namespace for a directory and those below it, or list them.

    Example: synapse self use NAMESPACE --param VALUE
    """
    from synapse import preferences
    from synapse.commands.preferences import clear_defaults, set_defaults

    hub = _hub(context)
    namespace, *words = context.args or [""]
    if clear or words == ["--clear"]:
        count = clear_defaults(hub, directory, namespace)
        _print(f"removed {count} {'entry' if count == 1 else 'entries'}")
        return 0
    if not namespace:
        entries = preferences.all_defaults(hub.paths)
        return _list(
            [
                {"directory": place, "namespace": name, "words": tokens}
                for (place, name), tokens in entries.items()
            ],
            as_json,
        )
    if not words:
        raise UsageError("no parameter is given", hint="synapse self use NAMESPACE --param VALUE")
    set_defaults(hub, directory, namespace, words)
    return 0


@app.command()
def man(
    context: typer.Context,
    namespace: Annotated[str, typer.Argument(help="A namespace; by default synapse itself.")] = "",
    install_all: Annotated[
        bool, typer.Option("--install", help="Write all pages to ~/.local/share/man.")
    ] = False,
) -> int:
    """Print a manual page in roff, for `man -l -`; or install all of them."""
    from synapse.argv import unknown_word
    from synapse.commands.man import install, names, page
    from synapse.hub import refresh

    hub = _hub(context)
    cache = refresh.current(hub.cache_file, hub.connect())
    if install_all:
        _print(install(cache))
        return 0
    if namespace not in names(cache):
        raise unknown_word([], namespace, cache)
    sys.stdout.write(page(cache, namespace))
    return 0


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


def _list(rows: list[dict[str, Any]], as_json: bool) -> int:
    """Print rows; their words as one can type them."""
    for row in rows:
        line = [*(value for value in row.values() if isinstance(value, str))]
        _print(json.dumps(row) if as_json else f"{'  '.join(line)}  {shlex.join(row['words'])}")
    return 0


def _show(fields: dict[str, Any], as_json: bool, ok: str = "", status: int = 1) -> int:
    """Print the fields; return a status that depends on the field `ok`."""
    if as_json:
        _print(json.dumps(fields))
    else:
        width = max(map(len, fields))
        for name, value in fields.items():
            _print(f"{name:<{width}}  {_text(value)}".rstrip())
    return 0 if not ok or fields[ok] else status


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _print(line: str) -> None:
    sys.stdout.write((clean(line) if sys.stdout.isatty() else line) + "\n")
