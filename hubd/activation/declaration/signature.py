"""The signature of a method or resolver: its parameters, its events and their documentation."""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from hubd.activation.declaration.docstring import split_docstring
from hubd.activation.declaration.parameter_group import check_distinct, read_group
from hubd.activation.event import Encoded, Event
from hubd.errors import HubError
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.text import did_you_mean


@dataclass(frozen=True)
class Signature:
    """The signature of an `async def` function, as its hints and its docstring declare it."""

    # Types and defaults of the parameters after `self`, as pydantic's `create_model` takes them.
    fields: Mapping[str, tuple[Any, FieldInfo]]
    # The types of the parameters that the signature names one by one.
    hints: Mapping[str, Any]
    events: tuple[type, ...]
    # True if the function returns its only event, False if it yields events.
    returns: bool
    # The first line of the docstring, and the paragraphs after it; empty without a docstring.
    summary: str
    details: str


def read_signature(where: str, function: Callable[..., Any], *, many: bool = False) -> Signature:
    """Read the hints and the docstring of a function.

    Args:
        where: The module, class and name of the function, for messages.
        function: The function.
        many: Whether it returns or yields an event, an error or None for each of several handles.

    Raises:
        TypeError: The function can't be a method; names the remedy.
    """
    returns = inspect.iscoroutinefunction(function)
    if not (returns or inspect.isasyncgenfunction(function)):
        raise TypeError(f"{where} must be `async def`, and return an event or yield events")
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, AttributeError) as error:
        raise TypeError(
            f"{where}: a type hint cannot be resolved ({error}); import or define it at the top of "
            "the module"
        ) from None
    summary, details, texts = split_docstring(inspect.getdoc(function) or "")
    named, group = _parameters(where, function, hints)
    fields = {
        parameter.name: _field(parameter, hints, texts.get(parameter.name)) for parameter in named
    }
    if group is not None:
        grouped = read_group(where, group, hints.get(group))
        check_distinct(where, fields, grouped)
        for name, field in grouped.items():
            fields[name] = _described(*field, texts.get(name))
    for name in fields:
        if name.startswith("_"):
            raise TypeError(f"{where}: parameter '{name}' must not begin with '_'")
        if hasattr(BaseModel, name):
            raise TypeError(f"{where}: parameter '{name}' needs another name")
    if unknown := sorted(texts.keys() - fields.keys()):
        hint = did_you_mean(unknown[0], fields) or "Remove them, or add them to the signature"
        raise TypeError(
            f"{where}: the docstring documents unknown parameter(s) {', '.join(unknown)}. {hint}"
        )
    return Signature(
        fields=fields,
        hints={parameter.name: hints[parameter.name] for parameter in named},
        events=_events(where, hints.get("return"), returns=returns, many=many),
        returns=returns,
        summary=summary,
        details=details,
    )


def parameter_hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the types of the parameters. The types of the events are not imported for this."""
    hints = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    return get_type_hints(SimpleNamespace(__annotations__=hints), function.__globals__)


def _parameters(
    where: str, function: Callable[..., Any], hints: Mapping[str, Any]
) -> tuple[list[inspect.Parameter], str | None]:
    """Return the parameters after `self`, and the name of the group if there is one."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise TypeError(f"{where}: the first parameter must be `self`")
    named: list[inspect.Parameter] = []
    group: str | None = None
    for parameter in parameters[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise TypeError(f"{where}: *{parameter.name} has no schema; name every parameter")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"{where}: parameter '{parameter.name}' must be usable by name")
        if parameter.kind is parameter.VAR_KEYWORD:
            group = parameter.name
        elif parameter.name not in hints:
            raise TypeError(
                f"{where}: parameter '{parameter.name}' has no type hint; write one, such as "
                f"`{parameter.name}: str`"
            )
        else:
            named.append(parameter)
    return named, group


def _field(
    parameter: inspect.Parameter, hints: Mapping[str, Any], text: str | None
) -> tuple[Any, FieldInfo]:
    hint = hints[parameter.name]
    default = ... if parameter.default is parameter.empty else parameter.default
    if isinstance(default, FieldInfo):
        return _described(hint, default, text)
    # Cheaper than `Annotated`, which counts at the start of the daemon.
    field: FieldInfo = Field(default, description=text) if text else Field(default)
    return hint, field


def _described(hint: Any, field: FieldInfo, text: str | None) -> tuple[Any, FieldInfo]:
    """Return a field with the description that the docstring of the method has for it."""
    return (Annotated[hint, Field(description=text)] if text else hint), field


def _events(where: str, hint: Any, *, returns: bool, many: bool) -> tuple[type, ...]:
    one = _result(where, hint, returns=returns, many=many)
    results = get_args(one) if get_origin(one) in (Union, UnionType) else (one,)
    events = [result for result in results if not (many and _is_failure(result))]
    for event in events:
        if not (isinstance(event, type) and issubclass(event, Event | Encoded)):
            raise TypeError(f"{where}: {event!r} is not an Event; use a class derived from Event")
    if not events:
        raise TypeError(f"{where}: its return hint names no Event")
    tags = [event.tag for event in events if issubclass(event, Event)]
    if len(tags) != len(set(tags)):
        raise TypeError(f"{where}: two of its events have the same tag; give one tag='…'")
    return tuple(events)


def _result(where: str, hint: Any, *, returns: bool, many: bool) -> Any:
    """Return the type of one result, from the return hint."""
    origin, arguments = get_origin(hint), get_args(hint)
    iterates = origin is AsyncIterator and len(arguments) == 1
    if not returns:
        if iterates:
            return arguments[0]
        example = "SomeEvent | None" if many else "SomeEvent | AnotherEvent"
        raise TypeError(f"{where} yields: its return hint must be AsyncIterator[{example}]")
    if many:
        if origin in (list, Sequence) and len(arguments) == 1:
            return arguments[0]
        raise TypeError(
            f"{where} returns: its return hint must be list[SomeEvent | None], with a result for "
            "each handle; or `yield` the results"
        )
    if iterates or hint in (None, type(None)):
        raise TypeError(
            f"{where} returns: its return hint must be SomeEvent | AnotherEvent; or `yield` events"
        )
    return hint


def _is_failure(result: Any) -> bool:
    """Return whether a result of a handle says that it has no data: None, or an error."""
    return result is type(None) or (isinstance(result, type) and issubclass(result, HubError))


def failing_fast(hint: Any) -> Any:
    """Return a type with lists that report one wrong element, not each of a hundred thousand."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(failing_fast(arguments[0]), *arguments[1:])]
    if origin in (Union, UnionType):
        return Union[tuple(map(failing_fast, arguments))]  # noqa: UP007 -- made at run time
    return Annotated[hint, Field(fail_fast=True)] if origin in (list, set, frozenset) else hint
