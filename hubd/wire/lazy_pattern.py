"""A regular expression that is compiled when it is used first.

Compiling takes up to 5 ms, and a short command or the start of a daemon uses few expressions.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern
    from typing import Any, AnyStr


def lazy_pattern(pattern: "AnyStr", flags: int = 0) -> "Pattern[AnyStr]":
    """Return an object with the methods of `re.compile(pattern, flags)`."""
    # It has all methods of a pattern, but it is not one.
    return _LazyPattern(pattern, flags)  # type: ignore[return-value]


class _LazyPattern:
    """A pattern that takes over the methods of the compiled one at its first use."""

    def __init__(self, pattern: "Any", flags: int) -> None:
        self._arguments = (pattern, flags)

    def __getattr__(self, name: str) -> "Any":
        import re

        # `re` keeps compiled patterns, so another name is found there.
        value = getattr(re.compile(*self._arguments), name)
        setattr(self, name, value)
        return value
