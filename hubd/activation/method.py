"""Methods and resolvers: the decorators that mark them, and what is read from their signature.

Decorators mark and never wrap, so a method is called in a test as it stands. Hints and
docstrings are read once, when the class is made; a mistake is a TypeError that names the class,
the method and the remedy.
"""

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PydanticUserError,
    create_model,
)
from pydantic.fields import FieldInfo

from hubd.activation.event import Encoded, Event
from hubd.activation.handle import Handle, handle_types
from hubd.activation.hints import McpHints, Rendering, check_hints
from hubd.activation.json_schema import events_schema, json_schema
from hubd.activation.schema_cache import DESCRIBED
from hubd.wire.schema import JsonSchema

# A method yields its events, or returns the only one.
F = TypeVar("F", bound=Callable[..., AsyncIterator[Any] | Coroutine[Any, Any, Any]])

# Answered by the hub for every namespace, so no plugin may take these names.
UNIVERSAL: Final = ("schema", "hash", "resolve_handle")

_MARK: Final = "__hubd_mark__"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_ARGUMENT: Final = re.compile(r"(\w+)\s*(?:\([^)]*\))?:\s*(.*)")
_SECTION: Final = re.compile(r"(Args|Returns|Yields|Raises|Example|Examples|Note|Notes):\s*")


@dataclass(frozen=True)
class MethodMark:
    """What the decorator was given."""

    name: str | None
    streaming: bool
    bidirectional: bool
    one_of: tuple[str, ...]
    produces: tuple[type[Handle], ...]
    annotations: Mapping[str, Any]


class ResolverMark:
    """Says that a function resolves the handle type of its parameter."""


@overload
def method(function: F, /) -> F: ...


@overload
def method(
    *,
    name: str | None = None,
    streaming: bool = True,
    bidirectional: bool = False,
    read_only: bool = False,
    destructive: bool = False,
    needs_context: bool = False,
    render: Rendering | None = None,
    completes: Mapping[str, str] | None = None,
    aliases: Mapping[str, list[str]] | None = None,
    one_of: Sequence[str] = (),
    produces: Sequence[type[Handle]] = (),
    mcp: McpHints | None = None,
) -> Callable[[F], F]: ...


def method(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    streaming: bool = True,
    bidirectional: bool = False,
    read_only: bool = False,
    destructive: bool = False,
    needs_context: bool = False,
    render: Rendering | None = None,
    completes: Mapping[str, str] | None = None,
    aliases: Mapping[str, list[str]] | None = None,
    one_of: Sequence[str] = (),
    produces: Sequence[type[Handle]] = (),
    mcp: McpHints | None = None,
) -> F | Callable[[F], F]:
    """Mark an `async def` function as a method of its activation.

    A function that returns has exactly one event; one that yields streams its events.

    Args:
        function: The method, when the decorator is used without arguments.
        name: The name on the wire, where it cannot be the Python name (`list`, `type`).
        streaming: False promises exactly one event of a method that yields, and the hub holds
            the method to it.
        bidirectional: The method may ask its caller through the host.
        read_only: Changes nothing.
        destructive: Removes something for good.
        needs_context: Uses the caller's working directory and environment.
        render: How a terminal shows the events: tree, chat, table or text.
        completes: For a parameter, the method that lists its values.
        aliases: For a parameter, other names it is accepted under.
        one_of: Optional parameters of which a caller must give exactly one.
        produces: Handle types that the events contain as plain text, besides those that their
            types name.
        mcp: Hints for the MCP bridge.
    """
    hints = {
        "read_only": read_only,
        "destructive": destructive,
        "needs_context": needs_context,
        "render": render,
        "completes": dict(completes or {}),
        "aliases": dict(aliases or {}),
        "mcp": dict(mcp or {}),
    }
    given = {hint: value for hint, value in hints.items() if value}
    mark = MethodMark(name, streaming, bidirectional, tuple(one_of), tuple(produces), given)

    def apply(target: F) -> F:
        setattr(target, _MARK, mark)
        return target

    return apply if function is None else apply(function)


def resolver(function: F) -> F:
    """Mark an `async def` function that reads back what a handle points at."""
    setattr(function, _MARK, ResolverMark())
    return function


def mark_of(attribute: object) -> MethodMark | ResolverMark | None:
    """The mark of a class attribute, if it has one."""
    mark: MethodMark | ResolverMark | None = getattr(attribute, _MARK, None)
    return mark


@dataclass(frozen=True)
class Method:
    """A method, as read from its class."""

    name: str
    function: Callable[..., AsyncGenerator[Any, None]]
    description: str
    details: str
    # Types and defaults of the parameters, as pydantic's `create_model` takes them.
    fields: Mapping[str, Any]
    events: tuple[type, ...]
    streaming: bool
    bidirectional: bool
    # Parameters of which exactly one is given; none if there are no such.
    one_of: tuple[str, ...]
    # Handle types that the types of the events don't name.
    also_produces: tuple[type[Handle], ...]
    annotations: Mapping[str, Any]

    @cached_property
    def params(self) -> type[BaseModel]:
        """The parameters as a model, made when the first call needs it: most are never called."""
        fields: dict[str, Any] = {name: self._under_all_names(name) for name in self.fields}
        return create_model(
            self._title,
            __config__=ConfigDict(
                extra="forbid", allow_inf_nan=False, protected_namespaces=(), defer_build=True
            ),
            **fields,
        )

    def _under_all_names(self, name: str) -> tuple[Any, FieldInfo]:
        """Return a field that is also read under the aliases of its parameter."""
        hint, field = _failing_fast(self.fields[name][0]), self.fields[name][1]
        others = self.annotations.get("aliases", {}).get(name)
        if others:
            hint = Annotated[hint, Field(validation_alias=AliasChoices(name, *others))]
        return hint, field

    @cached_property
    def params_schema(self) -> JsonSchema:
        """The parameters as JSON Schema."""
        return DESCRIBED.schema(self._module, f"{self._title}.params", self._describe_params)

    @cached_property
    def returns_schema(self) -> JsonSchema:
        """The events as JSON Schema."""
        return DESCRIBED.schema(
            self._module, f"{self._title}.returns", lambda: events_schema(self.events)
        )

    @property
    def _module(self) -> str:
        return self.function.__module__

    @property
    def _title(self) -> str:
        return self.function.__qualname__

    def _describe_params(self) -> JsonSchema:
        schema = json_schema(self.params, "validation")
        if self.one_of:
            schema["oneOf"] = [{"required": [name]} for name in self.one_of]
        return schema

    @cached_property
    def produces(self) -> tuple[type[Handle], ...]:
        """The handle types that occur in the events; the method's own first."""
        named = [handle for event in self.events for handle in handle_types(event)]
        types = dict.fromkeys((*named, *self.also_produces))
        own_first = sorted(types, key=lambda handle: handle.method != self.name)
        return tuple(own_first)


@dataclass(frozen=True)
class Resolver:
    """A resolver, as read from its class."""

    handle: type[Handle]
    function: Callable[..., AsyncGenerator[Any, None]]
    events: tuple[type, ...]

    @cached_property
    def resolve_schema(self) -> JsonSchema:
        """The resolved data as JSON Schema."""
        function = self.function
        return DESCRIBED.schema(
            function.__module__, f"{function.__qualname__}.data", lambda: events_schema(self.events)
        )


def read_method(owner: str, function: Callable[..., Any], mark: MethodMark) -> Method:
    """Read one method.

    Raises:
        TypeError: The signature or the docstring cannot be a method's; names the remedy.
    """
    where = f"{owner}.{function.__name__}"
    name = mark.name or function.__name__
    if not _NAME.fullmatch(name):
        raise TypeError(f"{where}: the name {name!r} must be a letter, then letters, digits, '_'")
    hints, parameters = _signature(where, function)
    returns = inspect.iscoroutinefunction(function)
    summary, details, documented = _docstring(where, function)
    fields: dict[str, Any] = {}
    for parameter in parameters:
        fields[parameter.name] = _field(parameter, hints, documented)
    unknown = sorted(documented.keys() - fields.keys())
    if unknown:
        raise TypeError(
            f"{where}: the docstring documents unknown parameter(s) {', '.join(unknown)}"
        )
    check_hints(where, mark.annotations, fields)
    strange = sorted(set(mark.one_of) - fields.keys())
    if strange:
        raise TypeError(f"{where}: one_of names unknown parameter(s) {', '.join(strange)}")
    read = Method(
        name=name,
        function=_yielding(function) if returns else function,
        description=summary,
        details=details,
        fields=fields,
        events=_events(where, hints, returns=returns),
        streaming=mark.streaming and not returns,
        bidirectional=mark.bidirectional,
        one_of=mark.one_of,
        also_produces=mark.produces,
        annotations=mark.annotations,
    )
    try:
        # Now, so that what cannot be described is the author's to see and not a caller's.
        _ = read.params_schema, read.returns_schema
    except PydanticUserError as error:
        raise TypeError(f"{where}: a type has no JSON Schema ({error.message})") from error
    return read


def _yielding(
    function: Callable[..., Coroutine[Any, Any, Any]],
) -> Callable[..., AsyncGenerator[Any, None]]:
    """Return a function that yields what this one returns; the hub runs only such."""

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        yield await function(*args, **kwargs)

    return call


def read_resolver(owner: str, function: Callable[..., Any]) -> Resolver:
    """Read one resolver.

    Raises:
        TypeError: It does not take exactly one handle; names the remedy.
    """
    where = f"{owner}.{function.__name__}"
    hints, parameters = _signature(where, function)
    handle = hints[parameters[0].name] if len(parameters) == 1 else None
    if not (isinstance(handle, type) and issubclass(handle, Handle)):
        raise TypeError(f"{where}: a resolver takes one parameter, whose hint is a Handle type")
    returns = inspect.iscoroutinefunction(function)
    events = _events(where, hints, returns=returns)
    return Resolver(handle, _yielding(function) if returns else function, events)


def _failing_fast(hint: Any) -> Any:
    """Return a type whose lists report one wrong element, not each of a hundred thousand."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(_failing_fast(arguments[0]), *arguments[1:])]
    if origin in (Union, UnionType):
        return Union[tuple(map(_failing_fast, arguments))]  # noqa: UP007 -- made at run time
    return Annotated[hint, Field(fail_fast=True)] if origin in (list, set, frozenset) else hint


def _signature(
    where: str, function: Callable[..., Any]
) -> tuple[dict[str, Any], list[inspect.Parameter]]:
    if not (inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function)):
        raise TypeError(f"{where} must be `async def`, and return an event or yield events")
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, AttributeError) as error:
        raise TypeError(f"{where}: a type hint cannot be resolved ({error})") from None
    everything = list(inspect.signature(function).parameters.values())
    if not everything:
        raise TypeError(f"{where}: the first parameter must be `self`")
    parameters = everything[1:]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{where}: *{parameter.name} has no schema; name every parameter")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"{where}: parameter '{parameter.name}' must be usable by name")
        if parameter.name.startswith("_"):
            raise TypeError(f"{where}: parameter '{parameter.name}' must not begin with '_'")
        if hasattr(BaseModel, parameter.name):
            raise TypeError(f"{where}: parameter '{parameter.name}' needs another name")
        if parameter.name not in hints:
            raise TypeError(f"{where}: parameter '{parameter.name}' has no type hint")
    return hints, parameters


def _field(
    parameter: inspect.Parameter, hints: Mapping[str, Any], documented: Mapping[str, str]
) -> tuple[Any, FieldInfo]:
    hint = hints[parameter.name]
    default = ... if parameter.default is parameter.empty else parameter.default
    text = documented.get(parameter.name)
    if isinstance(default, FieldInfo):
        return (Annotated[hint, Field(description=text)] if text else hint), default
    described: FieldInfo = Field(default, description=text) if text else Field(default)
    return hint, described


def _events(where: str, hints: Mapping[str, Any], *, returns: bool) -> tuple[type, ...]:
    hint = hints.get("return")
    iterates = get_origin(hint) is AsyncIterator and len(get_args(hint)) == 1
    if returns and (iterates or hint in (None, type(None))):
        raise TypeError(
            f"{where} returns: its return hint must be SomeEvent | AnotherEvent; or `yield` events"
        )
    if not returns and not iterates:
        raise TypeError(
            f"{where} yields: its return hint must be AsyncIterator[SomeEvent | AnotherEvent]"
        )
    one = hint if returns else get_args(hint)[0]
    events = get_args(one) if get_origin(one) in (Union, UnionType) else (one,)
    for event in events:
        if not (isinstance(event, type) and issubclass(event, Event | Encoded)):
            raise TypeError(f"{where}: {event!r} is not an Event; derive it from Event")
    tags = [event.tag for event in events if issubclass(event, Event)]
    if len(tags) != len(set(tags)):
        raise TypeError(f"{where}: two of its events have the same tag; give one tag='…'")
    return tuple(events)


def _docstring(where: str, function: Callable[..., Any]) -> tuple[str, str, dict[str, str]]:
    """Split a Google-style docstring: first line, the paragraphs after it, and `Args:`."""
    text = inspect.getdoc(function)
    if not text:
        raise TypeError(f"{where}: write a docstring; its first line is the help text")
    summary, _, rest = text.partition("\n")
    details: list[str] = []
    documented: dict[str, str] = {}
    section = argument = ""
    for line in rest.splitlines():
        if header := _SECTION.fullmatch(line):
            section = header[1]
        elif not section or (line and not line.startswith(" ")):
            section = ""
            details.append(line)
        elif section == "Args" and line.strip():
            start = _ARGUMENT.fullmatch(line.strip())
            if start and len(line) - len(line.lstrip()) <= 4:
                argument, documented[start[1]] = start[1], start[2]
            elif argument:
                documented[argument] += " " + line.strip()
    return summary.strip(), "\n".join(details).strip(), documented
