"""The `self` commands as a Typer application; each is a few lines, the work is next door."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubd.wire.terminal import clean
from synapse.help import EXIT_STATUS
from synapse.render.plain import write_json

if TYPE_CHECKING:
    from synapse.hubs import Hub

app = typer.Typer(
    help="synapse itself: where it runs, what it remembers, completion.",
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
    """Show whether the hub answers, and where. Status 5: it does not."""
    from synapse.commands.status import look

    return _show(look(_hub(context)), as_json, ok="running", status=5)


@app.command()
def doctor(context: typer.Context, as_json: Json = False) -> int:
    """Look whether everything is there. Status 1: something is wrong."""
    from synapse.commands.doctor import examine

    findings = examine(_hub(context))
    if as_json:
        _print(json.dumps(findings))
    else:
        for finding in findings:
            mark = "ok  " if finding["ok"] else "FAIL"
            _print(f"{mark} {finding['what']}: {finding['detail']}")
    return 0 if all(finding["ok"] for finding in findings) else 1


@app.command()
def schema(
    context: typer.Context,
    path: Annotated[
        str, typer.Argument(help="A namespace, such as a.b; the root if left out.")
    ] = "",
    as_json: Json = True,
) -> int:
    """Print the schema of a namespace as the hub describes it now; it is always JSON."""
    from synapse import refresh

    hub = _hub(context)
    cache = refresh.current(hub.cache_file, hub.connect())
    name = path or cache.root
    if not (cache.has_namespace(name) or name == cache.root):
        from synapse.invocation import unknown_word

        raise unknown_word([], name, cache)
    write_json(cache.whole(name))
    return 0


@app.command()
def cache(
    context: typer.Context,
    refresh_now: Annotated[bool, typer.Option("--refresh", help="Read it anew.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Forget it.")] = False,
    as_json: Json = False,
) -> int:
    """Show what is remembered of the hub's schema."""
    from synapse.commands.status import look_at_cache

    return _show(look_at_cache(_hub(context), refresh_now, clear), as_json)


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
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish; yours if left out.")] = "",
) -> int:
    """Put the completion script where the shell looks for it."""
    from synapse.commands.completion import install

    _print(install(shell))
    return 0


def _hub(context: typer.Context) -> Hub:
    """The hub that was chosen before Typer saw the command line."""
    hub: Hub = context.obj
    return hub


def _show(facts: dict[str, Any], as_json: bool, ok: str = "", status: int = 1) -> int:
    if as_json:
        _print(json.dumps(facts))
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            _print(f"{name:<{width}}  {'' if value is None else value}".rstrip())
    return 0 if not ok or facts[ok] else status


def _print(line: str) -> None:
    sys.stdout.write((clean(line) if sys.stdout.isatty() else line) + "\n")
