"""Checks of a plugin class at import. Each message names the class and the remedy."""

import inspect
from collections.abc import Iterable
from typing import Any, Final

from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.text import did_you_mean

_SEGMENT: Final = lazy_pattern(r"[A-Za-z][A-Za-z0-9_-]*")
_VERSION: Final = lazy_pattern(r"[0-9]+\.[0-9]+\.[0-9]+(-[A-Za-z0-9.-]+)?")


def name_of(thing: Any) -> str:
    """Return the module and the name of a class or function, for messages."""
    return f"{thing.__module__}.{thing.__qualname__}"


def check_namespace(where: str, namespace: str) -> None:
    """Refuse a namespace that can't be one segment of a path.

    Raises:
        TypeError: States the rule.
    """
    if not _SEGMENT.fullmatch(namespace):
        raise TypeError(
            f"{where}: namespace {namespace!r} must be one word: a letter, then letters, "
            "digits, '_' or '-'"
        )


def check_version(where: str, version: str) -> None:
    """Refuse a version that a handle can't carry.

    Raises:
        TypeError: Gives an example.
    """
    if not _VERSION.fullmatch(version):
        raise TypeError(f"{where}: give a semantic version, such as version='1.0.0'")


def check_arguments(where: str, given: Iterable[str], possible: Iterable[str]) -> None:
    """Refuse class arguments, or options of a decorator, that don't exist.

    Raises:
        TypeError: Names the first one, and the nearest that exists.
    """
    names = list(possible)
    for name in given:
        hint = did_you_mean(name, names) or f"There are: {', '.join(names)}"
        raise TypeError(f"{where}: there is no argument {name!r}. {hint}")


def check_migrations(where: str, migrations: object) -> None:
    """Refuse migrations that are not a tuple of SQL texts.

    Raises:
        TypeError: Names the remedy.
    """
    if isinstance(migrations, str):
        raise TypeError(
            f"{where}: migrations is a text, not a tuple; write a comma after it: "
            '("CREATE TABLE …",)'
        )
    if not isinstance(migrations, tuple | list):
        raise TypeError(f"{where}: migrations must be a tuple of SQL texts")
    for number, migration in enumerate(migrations, start=1):
        if not isinstance(migration, str):
            raise TypeError(f"{where}: migration {number} must be a text of SQL")


def check_lifespan(where: str, lifespan: Any) -> None:
    """Refuse a `lifespan` that is not an async generator without parameters.

    Raises:
        TypeError: Names the remedy.
    """
    example = "`async def lifespan(self) -> AsyncIterator[None]` with one `yield`"
    if not inspect.isasyncgenfunction(lifespan):
        remedy = f"write {example}"
        if inspect.isasyncgenfunction(getattr(lifespan, "__wrapped__", None)):
            remedy = "remove its decorator; the hub makes a context manager of it"
        elif inspect.iscoroutinefunction(lifespan):
            remedy = "add a `yield` between the start and the clean-up"
        raise TypeError(f"{where}.lifespan must be an async generator; {remedy}")
    parameters = list(inspect.signature(lifespan).parameters.values())
    if len([each for each in parameters if each.default is each.empty]) != 1:
        raise TypeError(f"{where}.lifespan takes only `self`; write {example}")
