"""A module that is imported when it is used first.

The models of a plugin take most of the time of its import, and a daemon needs few of them before a
method is called. In the `__init__.py` of the plugin's package:

    if not TYPE_CHECKING:  # Type checkers see the module itself.
        events = lazy_module("hubd.plugins.notes.events")

The other modules of the package write `from hubd.plugins.notes import events` as usual, and
`from __future__ import annotations`, because hints would use the events at import.
"""

from importlib import import_module
from types import ModuleType


def lazy_module(name: str) -> ModuleType:
    """Return an object with the attributes of a module, which the first access imports."""
    return _LazyModule(name)


class _LazyModule(ModuleType):
    """A module that takes over each attribute of the imported one when it is used first."""

    def __getattr__(self, name: str) -> object:
        value: object = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value
