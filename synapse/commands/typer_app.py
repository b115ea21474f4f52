"""A Typer application with the commands of one command line, and `synapse self`.

The schema gives a generated command its real parameters, for help. The command itself passes its
tokens on to the parser of params, so there is one way to read them.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from hubd.wire.terminal import clean
from synapse.help import OUTPUT_OPTIONS, paragraphs, parameter_text, parameters, usage_words
from synapse.params.schemas import dashed, one_of
from synapse.params.type_names import type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from hubd.wire.schema import MethodSchema
    from synapse.argv import Invocation
    from synapse.hub.cache import Cache

# Typer leaves all tokens after the method to the parser of params.
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
# The most characters of choices in the column of types.
MAX_CHOICES = 16
# Only `synapse self` has the option; for other commands help_screen.py asks for the help.
_NO_HELP_OPTION: dict[str, Any] = {"help_option_names": []}


def build(
    cache: Cache | None,
    invocation: Invocation,
    execute: Callable[[list[str]], None],
    *,
    is_help: bool = False,
) -> typer.Typer:
    """Return the application with the namespaces and the method of one command line.

    Args:
        cache: The schema; None for `synapse self`.
        invocation: The command line.
        execute: Runs the method with its tokens.
        is_help: Whether the last namespace gets all its methods and children.
    """
    app = _group("The command line of the hub", has_help=cache is None)
    if cache is None:
        from synapse.commands import built_in

        app.add_typer(built_in.app, name="self")
        return app
    above, path = app, ""
    for word in invocation.path:
        path = f"{path}.{word}" if path else word
        below = _group(_namespace_text(cache, path))
        above.add_typer(below, name=word)
        above = below
    if invocation.method:
        _add_method(above, cache, path, invocation.method, execute)
    elif is_help:
        for name in cache.methods(path):
            text = escape(clean(cache.describe_method(path, name)))
            above.command(dashed(name), help=text, rich_help_panel="Methods")(_nothing)
        for name in cache.children(path) if path != cache.root else ():
            child = _group(escape(clean(cache.describe(f"{path}.{name}"))))
            above.add_typer(child, name=name, rich_help_panel="Namespaces")
    return app


def _group(text: str, *, has_help: bool = False) -> typer.Typer:
    group = typer.Typer(
        help=text,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        options_metavar="",
        subcommand_metavar="METHOD [--param value]…",
        context_settings=None if has_help else _NO_HELP_OPTION,
    )
    # With a callback, a group of one command stays a group.
    group.callback()(_nothing)
    return group


def _nothing() -> None:
    """Do nothing: the group or command exists for help."""


def _namespace_text(cache: Cache, path: str) -> str:
    details = cache.namespace(path).get("long_description")
    text = "\n\n".join(filter(None, (cache.describe(path), details)))
    return escape(clean(paragraphs(text)))


def _add_method(
    group: typer.Typer, cache: Cache, path: str, name: str, execute: Callable[[list[str]], None]
) -> None:
    """Add the command of a method, with a signature made from its schema."""
    schema = cache.method(path, name)

    def command(context: typer.Context, **_: Any) -> None:
        execute(context.args)

    context = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    options = [*_parameters(schema), *_output_options()]
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [context, *(_option(number, *option) for number, option in enumerate(options))]
    )
    # Typer reads the types from the annotations.
    command.__annotations__ = {
        key: parameter.annotation
        for key, parameter in inspect.signature(command).parameters.items()
    }
    text = "\n\n".join(filter(None, (schema["description"], schema.get("long_description"))))
    group.command(
        dashed(name),
        help=escape(clean(paragraphs(text))),
        options_metavar=f"{clean(usage_words(schema['params']))} [OPTIONS]".strip(),
        context_settings={**_PASS_ON, **_NO_HELP_OPTION},
    )(command)


# The flags, the placeholder, the help and the panel of an option.
_Option = tuple[list[str], str | None, str, str]


def _parameters(schema: MethodSchema) -> list[_Option]:
    params = schema["params"]
    aliases = schema.get("annotations", {}).get("aliases", {})
    needed = {*params.get("required", []), *one_of(params)}
    options: list[_Option] = []
    for name in parameters(params):
        kind = type_name(params["properties"][name], params)
        flag = f"--{dashed(name)}"
        is_switch = kind == "boolean"
        text = parameter_text(params, name, aliases.get(name, [])).removesuffix("(required)")
        if is_switch:
            # A second column for the opposite flag would take the room of the texts.
            text = f"{text} (or --no-{flag[2:]})".strip()
        metavar, text = _narrow(clean(kind), text)
        panel = "Required" if name in needed else "Optional"
        options.append(([flag], None if is_switch else metavar, text, panel))
    return options


def _output_options() -> list[_Option]:
    options: list[_Option] = []
    for flags, kind, text in OUTPUT_OPTIONS:
        metavar, text = _narrow(kind, text)
        options.append((flags.split(", "), metavar or None, text, "Output"))
    return options


def _narrow(metavar: str, text: str) -> tuple[str, str]:
    """Move long choices from the column of types, which would take the room of all texts."""
    if "|" not in metavar or len(metavar) <= MAX_CHOICES:
        return metavar, text
    choices = metavar.removesuffix("…")
    # An ellipsis stands for a repeated option.
    word = "choice" if choices == metavar else "choice…"
    return word, f"{text} (one of {choices.replace('|', ', ')})".strip()


def _option(number: int, flags: list[str], metavar: str | None, text: str, panel: str) -> Any:
    """Return a parameter of the signature. Typer never requires it: the parser of params does."""
    option = typer.Option(
        *flags,
        metavar=metavar,
        help=escape(clean(text)),
        rich_help_panel=panel,
        show_default=False,
    )
    kind: Any = bool if metavar is None else str
    return inspect.Parameter(
        f"p{number}",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )
