"""Run a function of a transaction twice: the first run is rolled back, the second one stays.

A function that keeps state outside of its transaction then differs from a single run: in its
result, in the database, in the topics it wakes, or in its messages for the log.
"""

import importlib
import inspect
import itertools
import logging
import pkgutil
import sqlite3
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from hubd.storage import ids
from hubd.storage.database import Tx
from hubd.storage.tables import HUB_MIGRATIONS

NOW = 1_700_000_000

Function = Callable[[Tx], object]


class Outcome(NamedTuple):
    """Everything that a function may change."""

    result: object
    database: list[str]
    topics: list[Any]
    news: list[Any]
    messages: list[str]


def database(*migrations: str) -> sqlite3.Connection:
    """Return a database in memory with the hub's tables and those of plugins."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    for step in (*HUB_MIGRATIONS, *migrations):
        connection.executescript(step)
    return connection


def assert_keeps_no_state(
    base: sqlite3.Connection,
    function: Function,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Fail if a second run, after the first was rolled back, differs from a single run."""
    caplog.set_level(logging.DEBUG)
    # The single run comes first: state that it leaves behind changes the others.
    single = _outcome(base, function, monkeypatch, runs=1)
    assert _outcome(base, function, monkeypatch, runs=2) == single
    # The log can't be rolled back. A function adds to `tx.messages` instead.
    assert caplog.messages == []


def _outcome(
    base: sqlite3.Connection, function: Function, monkeypatch: pytest.MonkeyPatch, *, runs: int
) -> Outcome:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    base.backup(connection)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("BEGIN")
    for _ in range(runs - 1):
        connection.execute("SAVEPOINT job")
        _run(connection, function, monkeypatch)
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
    tx, result = _run(connection, function, monkeypatch)
    connection.execute("COMMIT")
    return Outcome(result, list(connection.iterdump()), tx.topics, tx.news, tx.messages)


def _run(
    connection: sqlite3.Connection, function: Function, monkeypatch: pytest.MonkeyPatch
) -> tuple[Tx, object]:
    """Run a function that gets the same new ids every time."""
    numbers = itertools.count(1)
    with monkeypatch.context() as patch:
        for name in ("uuid4", "uuid7"):
            patch.setattr(ids, name, lambda: next(numbers).to_bytes(16))
        tx = Tx(connection)
        return tx, function(tx)


def transaction_functions(packages: Iterable[ModuleType]) -> set[str]:
    """Return the public functions and methods of packages with a `Tx` as first parameter."""
    names: set[str] = set()
    for package in packages:
        for module in _modules(package):
            for _, member in inspect.getmembers(module):
                if getattr(member, "__module__", None) != module.__name__:
                    continue
                if inspect.isfunction(member) and _takes_tx(member, position=0):
                    names.add(f"{module.__name__}.{member.__qualname__}")
                elif inspect.isclass(member) and not getattr(member, "_is_protocol", False):
                    names |= {
                        f"{module.__name__}.{method.__qualname__}"
                        for _, method in inspect.getmembers(member, inspect.isfunction)
                        if _takes_tx(method, position=1)
                    }
    return names


def _modules(package: ModuleType) -> list[ModuleType]:
    paths = getattr(package, "__path__", None)
    if paths is None:
        return [package]
    names = [module.name for module in pkgutil.walk_packages(paths, f"{package.__name__}.")]
    return [package, *map(importlib.import_module, names)]


def _takes_tx(function: Callable[..., Any], position: int) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    return (
        not function.__name__.startswith("_")
        and len(parameters) > position
        and parameters[position].annotation in (Tx, "Tx")
    )
