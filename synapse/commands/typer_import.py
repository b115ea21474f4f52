"""Import the modules that draw Typer's help without those that they import and help never uses.

These would be a quarter of the time until a terminal shows the help of a method.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

# Modules that Rich and Typer import as a whole, for other purposes than help.
_MODULES = ("bz2", "ipaddress", "lzma", "platform", "shellingham", "subprocess", "tokenize")
# The names that Rich and Typer import from modules for other purposes. Help never uses one, and no
# parameter of a generated command has such a type.
_NAMES = {
    "difflib": ("get_close_matches",),
    "fractions": ("Fraction",),
    "pathlib": ("Path",),
    "rich.markdown": ("Markdown",),
    "rich.traceback": ("Traceback",),
    "traceback": ("FrameSummary", "StackSummary"),
    "uuid": ("UUID",),
}


class OnlyForHelp:
    """A context in which placeholders stand for the modules that help does not use.

    The placeholder of a whole module imports it on its first use, also after the context.
    """

    def __enter__(self) -> None:
        """Place the placeholders of modules that are not imported yet."""
        placeholders = [_Placeholder(name) for name in _MODULES if name not in sys.modules]
        for placeholder in placeholders:
            sys.modules[placeholder.__name__] = placeholder
        empty = [name for name in _NAMES if name not in sys.modules]
        for name in empty:
            module = ModuleType(name)
            for entry in _NAMES[name]:
                setattr(module, entry, type(entry, (), {}))
            sys.modules[name] = module
        self._modules = {name: sys.modules[name] for name in empty}
        self._modules |= {each.__name__: each for each in placeholders}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let later imports find the modules themselves."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


class _Placeholder(ModuleType):
    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        __import__(name)
        return getattr(sys.modules[name], attribute)
