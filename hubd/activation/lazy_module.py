"""Modules that are imported when they are used first.

Imports take most of the time of the daemon's start, and it needs few modules before a method is
called. In the `__init__.py` of a package:

    lazy_modules(__name__, "events", "sending")

The other modules of the package write `from hubd.plugins.notes import events, sending` as usual,
and `from __future__ import annotations`, because hints would use the modules at import.
"""

import sys
from importlib import import_module
from types import ModuleType


def lazy_modules(package: str, *names: str) -> None:
    """Give a package its modules of these names, which the first access to each imports."""
    for name in names:
        setattr(sys.modules[package], name, LazyModule(f"{package}.{name}"))


class LazyModule(ModuleType):
    """A module that takes over each attribute of the imported one when it is used first."""

    def __getattr__(self, name: str) -> object:
        value: object = getattr(import_module(self.__name__), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Set the attribute of both, as tests do."""
        setattr(import_module(self.__name__), name, value)
        super().__setattr__(name, value)
