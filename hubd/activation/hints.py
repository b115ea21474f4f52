"""The hints of `@method`: their types and their checks.

Clients ignore a hint that they don't know, so a misspelt one is an error at import.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict, get_args

from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.schema import InteractiveHint, SlashCommand
from hubd.wire.text import did_you_mean

Rendering = Literal["tree", "chat", "table", "text", "process"]


class McpHints(TypedDict, total=False):
    """Hints for the MCP server."""

    # The name of the tool, if it is not `namespace.method`.
    name: str
    # True: the result of the tool is one text block and nothing else.
    text_only: bool
    # The method is a resource: the variables of its URI, with the parameter of each.
    resource: Mapping[str, str]


RENDERINGS: Final[tuple[str, ...]] = get_args(Rendering)

# The weight of the most useful method.
MAX_WEIGHT: Final = 100

_FLAGS: Final = ("read_only", "destructive", "needs_context", "open_to_sessions")
# synapse has these commands at every prompt.
RESERVED_COMMANDS: Final = ("help", "quit")
_WORD: Final = lazy_pattern(r"[A-Za-z][A-Za-z0-9_]*")
_PATH: Final = lazy_pattern(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)+")


def check_hints(where: str, hints: Mapping[str, Any], parameters: Iterable[str]) -> None:
    """Refuse hints that clients don't know.

    Args:
        where: The module, class and method, for messages.
        hints: The hints of the decorator, by name.
        parameters: The names of the method's parameters.

    Raises:
        TypeError: Names the method, the hint and the remedy.
    """
    names = list(parameters)
    for flag in _FLAGS:
        if not isinstance(hints.get(flag, False), bool):
            raise TypeError(f"{where}: {flag} must be True or False")
    render = hints.get("render")
    if render is not None and render not in RENDERINGS:
        raise TypeError(f"{where}: render={render!r} is not one of {', '.join(RENDERINGS)}")
    weight = hints.get("weight")
    if weight is not None and (
        not isinstance(weight, int) or isinstance(weight, bool) or not 1 <= weight <= MAX_WEIGHT
    ):
        raise TypeError(f"{where}: weight={weight!r} must be a number from 1 to {MAX_WEIGHT}")
    _check_completes(where, hints.get("completes", {}), names)
    _check_aliases(where, hints.get("aliases", {}), names)
    _check_mcp(where, hints.get("mcp", {}), names)
    if "interactive" in hints:
        _check_interactive(where, hints["interactive"], names)


def check_choice(
    where: str, option: str, names: Sequence[str], fields: Mapping[str, tuple[Any, Any]]
) -> None:
    """Refuse a choice between parameters that don't exist or are required.

    Raises:
        TypeError: Names the method and the parameter.
    """
    for name in names:
        _check_parameter(where, option, name, list(fields))
        if fields[name][1].is_required():
            raise TypeError(
                f"{where}: {option} names '{name}', which is required; give it a default"
            )


def check_listers(
    where: str, namespace: str, hints: Mapping[str, Any], methods: Iterable[str]
) -> None:
    """Refuse hints with a method of the plugin that does not exist.

    Raises:
        TypeError: Names the missing method and the nearest.
    """
    names = list(methods)
    for hint, method in _methods(hints):
        path, _, name = method.rpartition(".")
        if path == namespace and name not in names:
            raise TypeError(
                f"{where}: {hint} names {method}, which is not a method. {_nearest(name, names)}"
            )


def _methods(hints: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the paths of methods in checked hints, each with the name of its hint."""
    for lister in hints.get("completes", {}).values():
        yield "completes", lister
    interactive = hints.get("interactive", {})
    if "cancel" in interactive:
        yield "interactive", interactive["cancel"]
    for command in interactive.get("commands", {}).values():
        for key in ("method", "values_from"):
            if key in command:
                yield "interactive", command[key]


def _check_completes(where: str, completes: object, parameters: list[str]) -> None:
    example = "such as completes={'id': 'notes.list'}"
    if not isinstance(completes, Mapping):
        raise TypeError(f"{where}: completes must map parameters to methods, {example}")
    for parameter, lister in completes.items():
        _check_parameter(where, "completes", parameter, parameters)
        if not isinstance(lister, str) or not _PATH.fullmatch(lister):
            raise TypeError(
                f"{where}: completes={{{parameter!r}: {lister!r}}} must name a method by its "
                f"path, {example}"
            )


def _check_aliases(where: str, aliases: object, parameters: list[str]) -> None:
    example = "such as aliases={'text': ['content']}"
    if not isinstance(aliases, Mapping):
        raise TypeError(f"{where}: aliases must map parameters to lists of names, {example}")
    for parameter, others in aliases.items():
        _check_parameter(where, "aliases", parameter, parameters)
        if not isinstance(others, list | tuple):
            raise TypeError(f"{where}: aliases: write a list, {{{parameter!r}: [{others!r}]}}")
    names = [name for others in aliases.values() for name in others]
    for name in names:
        if name in parameters or names.count(name) > 1:
            raise TypeError(f"{where}: the alias '{name}' already names another parameter")


def _check_mcp(where: str, hints: object, parameters: list[str]) -> None:
    possible = list(McpHints.__annotations__)
    if not isinstance(hints, Mapping):
        raise TypeError(f"{where}: mcp must be a dict with {', '.join(possible)}")
    for name in hints:
        if name not in possible:
            raise TypeError(f"{where}: mcp has no hint {name!r}. {_nearest(name, possible)}")
    if not isinstance(hints.get("name", ""), str):
        raise TypeError(f"{where}: mcp['name'] must be a string, the name of the tool")
    if not isinstance(hints.get("text_only", False), bool):
        raise TypeError(f"{where}: mcp['text_only'] must be True or False")
    variables = hints.get("resource", {})
    if not isinstance(variables, Mapping):
        raise TypeError(
            f"{where}: mcp['resource'] must map variables of the URI to parameters, such as "
            "{'note': 'note_id'}"
        )
    for variable, parameter in variables.items():
        if not isinstance(variable, str) or not _WORD.fullmatch(variable):
            raise TypeError(f"{where}: mcp['resource']: the variable {variable!r} must be one word")
        _check_parameter(where, "mcp['resource']", parameter, parameters)


def _check_interactive(where: str, hint: object, parameters: list[str]) -> None:
    possible = list(InteractiveHint.__annotations__)
    if not isinstance(hint, Mapping) or "param" not in hint:
        raise TypeError(f"{where}: interactive must be a dict such as {{'param': 'prompt'}}")
    for name in hint:
        if name not in possible:
            raise TypeError(
                f"{where}: interactive has no key {name!r}. {_nearest(str(name), possible)}"
            )
    _check_parameter(where, "interactive", hint["param"], parameters)
    if "cancel" in hint:
        _check_path(where, "interactive['cancel']", hint["cancel"])
    commands = hint.get("commands", {})
    if not isinstance(commands, Mapping):
        raise TypeError(f"{where}: interactive['commands'] must map names to commands")
    for name, command in commands.items():
        if not isinstance(name, str) or not _WORD.fullmatch(name) or name in RESERVED_COMMANDS:
            raise TypeError(
                f"{where}: interactive: the command {name!r} must be one word, and not "
                f"{' or '.join(RESERVED_COMMANDS)}"
            )
        _check_command(f"{where}: interactive: /{name}", command, parameters)


def _check_command(where: str, command: object, parameters: list[str]) -> None:
    possible = list(SlashCommand.__annotations__)
    if not isinstance(command, Mapping) or ("method" in command) == ("param" in command):
        raise TypeError(f"{where} must be a dict with either 'method' or 'param'")
    for key, value in command.items():
        if key not in possible:
            raise TypeError(f"{where} has no key {key!r}. {_nearest(str(key), possible)}")
        if key in ("method", "values_from"):
            _check_path(where, key, value)
        elif key == "param":
            _check_parameter(where, key, value, parameters)
        elif key == "argument" and not isinstance(value, str):
            raise TypeError(f"{where}: argument must name a parameter of the method")
        elif key == "switches":
            is_map = isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())
            if not is_map:
                raise TypeError(f"{where}: switches must map parameters to fields of the event")
            for parameter in value:
                _check_parameter(where, key, parameter, parameters)


def _check_path(where: str, key: str, path: object) -> None:
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise TypeError(
            f"{where}: {key}={path!r} must name a method by its path, such as 'notes.list'"
        )


def _check_parameter(where: str, hint: str, name: object, parameters: list[str]) -> None:
    if name not in parameters:
        raise TypeError(
            f"{where}: {hint} names unknown parameter {name!r}. {_nearest(str(name), parameters)}"
        )


def _nearest(name: str, names: list[str]) -> str:
    return did_you_mean(name, names) or f"There are: {', '.join(names) or 'none'}"
