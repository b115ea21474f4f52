"""Coroutines that refuse to be used without `await`.

`if self.host.confirm(…):` is always true, because a coroutine is an object. Functions marked with
`must_await` return a coroutine that raises a TypeError in such places.
"""

from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def must_await(
    function: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Mark an `async def` function that must not be used without `await`."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return _Checked(function(*args, **kwargs))

    return call


class _Checked(Coroutine[Any, Any, T]):
    """A coroutine that is not a condition, a sequence or a mapping."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Any:
        if value is None and trace is None:
            return self._coroutine.throw(kind)
        return self._coroutine.throw(kind, value, trace)

    def close(self) -> None:
        self._coroutine.close()

    def __bool__(self) -> bool:
        self._refuse()

    def __iter__(self) -> NoReturn:
        self._refuse()

    def __getitem__(self, key: object) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        # Closed, so that Python does not also warn that it was never awaited.
        self._coroutine.close()
        name = self._coroutine.__name__  # type: ignore[attr-defined]
        raise TypeError(f"{name}(…) was used without `await`; write `await` before it")
