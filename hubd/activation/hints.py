"""The hints of `@method`: their types, and the checks when the class is made.

A misspelt hint would be ignored by every client, so it is an error at import.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, TypedDict, get_args

Rendering = Literal["tree", "chat", "table", "text"]


class McpHints(TypedDict, total=False):
    """How a method looks to MCP clients."""

    # Another name of the tool.
    name: str
    # The tool's result is one text block and nothing else.
    text_only: bool
    # The method is a resource: variables of its URI, and the parameter of each.
    resource: Mapping[str, str]


RENDERINGS: Final[tuple[str, ...]] = get_args(Rendering)

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PATH: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)+")


def check_hints(where: str, hints: Mapping[str, Any], parameters: Iterable[str]) -> None:
    """Refuse hints that no client would understand.

    Args:
        where: The module, class and method, for the message.
        hints: The hints by name, as the decorator was given them.
        parameters: The parameters of the method.

    Raises:
        TypeError: Names the method, the hint and the remedy.
    """
    names = list(parameters)
    render = hints.get("render")
    if render is not None and render not in RENDERINGS:
        raise TypeError(f"{where}: render={render!r} is not one of {', '.join(RENDERINGS)}")
    for parameter, lister in hints.get("completes", {}).items():
        _check_parameter(where, "completes", parameter, names)
        if not isinstance(lister, str) or not _PATH.fullmatch(lister):
            raise TypeError(
                f"{where}: completes={{{parameter!r}: {lister!r}}} must name a method by its "
                "path, such as 'notes.list'"
            )
    for parameter in hints.get("aliases", {}):
        _check_parameter(where, "aliases", parameter, names)
    _check_aliases(where, hints.get("aliases", {}), names)
    _check_mcp(where, hints.get("mcp", {}), names)


def check_listers(
    where: str, namespace: str, hints: Mapping[str, Any], methods: Iterable[str]
) -> None:
    """Refuse `completes` that names a method which the class itself does not have.

    Raises:
        TypeError: Names the method that is missing, and the nearest.
    """
    names = list(methods)
    for lister in hints.get("completes", {}).values():
        path, _, name = lister.rpartition(".")
        if path == namespace and name not in names:
            raise TypeError(
                f"{where}: completes names {lister}, which is not a method; {_nearest(name, names)}"
            )


def _check_mcp(where: str, hints: Mapping[str, Any], parameters: list[str]) -> None:
    known = list(McpHints.__annotations__)
    for name in hints:
        if name not in known:
            raise TypeError(f"{where}: mcp has no hint {name!r}; {_nearest(name, known)}")
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


def _check_aliases(where: str, aliases: Mapping[str, Any], parameters: list[str]) -> None:
    """Every name must mean one parameter."""
    for parameter, others in aliases.items():
        if isinstance(others, str):
            raise TypeError(f"{where}: aliases: write a list, {{{parameter!r}: [{others!r}]}}")
    names = [name for others in aliases.values() for name in others]
    for name in names:
        if name in parameters or names.count(name) > 1:
            raise TypeError(f"{where}: the alias '{name}' already means another parameter")


def _check_parameter(where: str, hint: str, name: object, parameters: list[str]) -> None:
    if name not in parameters:
        raise TypeError(
            f"{where}: {hint} names unknown parameter {name!r}; {_nearest(str(name), parameters)}"
        )


def _nearest(name: str, names: list[str]) -> str:
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there is: {', '.join(names) or 'none'}"
