"""Add the user's default parameters to the tokens of a method."""

from __future__ import annotations

from synapse.params.schemas import fold, one_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubd.wire.schema import MethodSchema


def add_defaults(tokens: list[str], defaults: list[str], schema: MethodSchema) -> list[str]:
    """Return the tokens, after the defaults that apply to the method.

    A default applies if the method has the parameter, and the command line gives neither the
    parameter nor another one that excludes it.

    Args:
        tokens: The tokens of the command line.
        defaults: Tokens such as `--name=fix` and `--no-ephemeral`.
        schema: The method.
    """
    properties = schema["params"].get("properties", {})
    names = {fold(name): name for name in properties}
    for name, others in schema.get("annotations", {}).get("aliases", {}).items():
        names.update((fold(other), name) for other in others)
    given = {_parameter(token, names) for token in tokens if token.startswith("--")}
    choice = one_of(schema["params"])
    if given.intersection(choice):
        given.update(choice)
    return [token for token in defaults if _applies(_parameter(token, names), given)] + tokens


def _applies(name: str, given: set[str]) -> bool:
    return bool(name) and name not in given


def _parameter(token: str, names: dict[str, str]) -> str:
    """Return the parameter that a flag sets; empty if the method does not have it."""
    flag = fold(token.partition("=")[0][2:])
    # `--a.b` sets a part of `a`, and `--no-a` sets `a` to false.
    whole = flag.partition(".")[0]
    return names.get(whole) or names.get(whole.removeprefix("no_"), "")
