"""Resolvers: their decorator, and their declaration as the hub uses it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from inspect import iscoroutinefunction
from typing import Any, Final, TypeVar, get_args, get_origin, overload

from hubd.activation.declaration.class_checks import check_arguments, name_of
from hubd.activation.declaration.json_schema import events_schema
from hubd.activation.declaration.signature import parameter_hints, read_signature
from hubd.activation.handle import Handle
from hubd.activation.method import ResolverMark, plain, set_mark
from hubd.activation.schema_cache import SCHEMA_CACHE
from hubd.wire.schema import JsonSchema

# A resolver yields the data, or returns it.
F = TypeVar("F", bound=Callable[..., AsyncIterator[Any] | Coroutine[Any, Any, Any]])


@overload
def resolver(function: F, /) -> F: ...


@overload
def resolver(*, many: bool = False) -> Callable[[F], F]: ...


def resolver(function: Any = None, /, *, many: bool = False, **unknown: object) -> Any:
    """Mark an `async def` function that returns the data of a handle.

    Its only parameter is the handle; the type of the parameter is the handle type it resolves.

    Args:
        function: The function, if the decorator is used without arguments.
        many: True if the parameter is a list of handles, at most 100. The function returns a list
            with a result for each handle, in their order, or yields these results. A result is the
            data, or None or an error if the data is missing.
        unknown: Misspelt arguments, for the error message.

    Raises:
        TypeError: The decorator is used wrongly; names the function and the remedy.
    """

    def apply(target: F) -> F:
        where = f"{name_of(target)}: @resolver"
        if isinstance(function, str):
            raise TypeError(f"{where}: remove {function!r}; its hint is the handle type")
        check_arguments(where, unknown, _OPTIONS)
        if not isinstance(many, bool):
            raise TypeError(f"{where}: many={many!r} must be True or False")
        set_mark(target, ResolverMark(many))
        return target

    return apply if function is None or isinstance(function, str) else apply(plain(function))


_OPTIONS: Final = tuple(resolver.__kwdefaults__ or ())


@dataclass(frozen=True)
class Resolver:
    """The declaration of a resolver."""

    # The module, class and function, for messages.
    where: str
    handle: type[Handle]
    # The function as its author wrote it.
    declared: Callable[..., Any]
    # Takes one handle and yields its data. If `many`, it takes a list of handles, and yields a
    # result for each, or returns a list of them if `returns`.
    function: Callable[..., Any]
    many: bool
    returns: bool

    @cached_property
    def events(self) -> tuple[type, ...]:
        """The types of the data."""
        return read_signature(self.where, self.declared, many=self.many).events

    @cached_property
    def resolve_schema(self) -> JsonSchema:
        """The JSON Schema of the resolved data."""
        return SCHEMA_CACHE.value(
            self.declared.__module__,
            _schema_key(self.declared),
            lambda: events_schema(self.events),
        )


def _schema_key(function: Callable[..., Any]) -> str:
    return f"{function.__qualname__}.data"


def read_resolver(owner: str, function: Callable[..., Any], mark: ResolverMark) -> Resolver:
    """Read the declaration of a resolver.

    Args:
        owner: The module and class, for messages.
        function: The marked function.
        mark: Its mark.

    Raises:
        TypeError: Its parameter or its return hint is wrong; names the remedy.
    """
    where = f"{owner}.{function.__name__}"
    if SCHEMA_CACHE.has(function.__module__, _schema_key(function)):
        # An earlier start has checked the same files.
        hints = parameter_hints(function)
    else:
        signature = read_signature(where, function, many=mark.many)
        hints = signature.hints if len(signature.fields) == 1 else {}
    handle = next(iter(hints.values()), None)
    listed = get_origin(handle) in (list, Sequence)
    if mark.many:
        handle = get_args(handle)[0] if listed else None
    if not (isinstance(handle, type) and issubclass(handle, Handle)):
        expected = "list[SomeHandle]" if mark.many else "a Handle type"
        remedy = "; for a list write @resolver(many=True)" if listed and not mark.many else ""
        raise TypeError(
            f"{where}: a resolver takes one parameter, whose hint is {expected}{remedy}"
        )
    returns = iscoroutinefunction(function)
    return Resolver(
        where=where,
        handle=handle,
        declared=function,
        function=_yielding(function) if returns and not mark.many else function,
        many=mark.many,
        returns=returns and mark.many,
    )


def _yielding(
    function: Callable[..., Coroutine[Any, Any, Any]],
) -> Callable[..., AsyncGenerator[Any, None]]:
    """Return an async generator of the only event, because the hub iterates resolvers."""

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        yield await function(*args, **kwargs)

    return call
