"""A dataclass that generates its methods when its first object is created.

`dataclasses.dataclass` compiles about six functions for each class. For all classes of hubd this
took a sixth of the daemon's start, and a daemon creates objects of few of them. Use the original
for classes with `slots=True`, for classes that code inspects before it creates an object, and for
classes with objects in every daemon, because a class costs more here in the end.
"""

import dataclasses
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

_LOCK = Lock()
# The attribute of an unfinished class with the arguments of its decorator.
_ARGUMENTS = "__lazy_dataclass__"

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **arguments: Any) -> Any:
        """As `dataclasses.dataclass`, without `slots`."""
        return _postpone(cls, arguments) if cls else lambda cls: _postpone(cls, arguments)


def _postpone(cls: type, arguments: dict[str, Any]) -> type:
    setattr(cls, _ARGUMENTS, arguments)
    cls.__init__ = _first_init(cls)  # type: ignore[misc]
    return cls


def _first_init(cls: type) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        with _LOCK:
            for each in reversed(cls.__mro__):
                # A base is finished before the classes that inherit its fields.
                if _ARGUMENTS in each.__dict__:
                    _finish(each)
        cls.__init__(self, *args, **kwargs)  # type: ignore[misc]

    return __init__


def _finish(cls: type) -> None:
    """Generate the methods. `__init__` comes last, because other threads may call it."""
    arguments = cls.__dict__[_ARGUMENTS]
    dataclasses.dataclass(init=False, **arguments)(cls)
    # Its `__init__` sets the inherited fields, so it is the one that the class needs.
    only_init = {**arguments, "repr": False, "eq": False, "order": False}
    heir = dataclasses.make_dataclass(cls.__name__, (), bases=(cls,), **only_init)
    cls.__init__ = heir.__init__  # type: ignore[misc]
    delattr(cls, _ARGUMENTS)
