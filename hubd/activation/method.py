"""Methods: their decorator, and their declaration as the hub uses it.

Decorators mark and never wrap, so a test calls a method directly. A method is checked at import; a
mistake is a TypeError that names the class, the method and the remedy. If its schemas are in the
cache, an earlier start has checked the same files, and the signature is read when it is needed.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Annotated, Any, Final, NamedTuple, TypeVar, overload

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PydanticUserError,
    create_model,
)
from pydantic.fields import FieldInfo

from hubd.activation.declaration.class_checks import check_arguments, name_of
from hubd.activation.declaration.json_schema import events_schema, json_schema
from hubd.activation.declaration.signature import Signature, failing_fast, read_signature
from hubd.activation.handle import Handle, handle_types
from hubd.activation.hints import McpHints, Rendering, check_choice, check_hints
from hubd.activation.schema_cache import SCHEMA_CACHE
from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.schema import InteractiveHint, JsonSchema

# A method yields its events, or returns its only event.
F = TypeVar("F", bound=Callable[..., AsyncIterator[Any] | Coroutine[Any, Any, Any]])

# The hub answers these methods for every namespace, so a plugin can't have them.
UNIVERSAL: Final = ("schema", "hash", "resolve_handle")

_MARK: Final = "__hubd_mark__"
_NAME: Final = lazy_pattern(r"[A-Za-z][A-Za-z0-9_]*")


class MethodMark(NamedTuple):
    """The arguments of `@method`."""

    name: str | None
    streaming: bool
    bidirectional: bool
    one_of: tuple[str, ...]
    any_of: tuple[str, ...]
    produces: tuple[type[Handle], ...]
    annotations: Mapping[str, Any]


class ResolverMark(NamedTuple):
    """The arguments of `@resolver`."""

    many: bool


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
    open_to_sessions: bool = False,
    render: Rendering | None = None,
    weight: int | None = None,
    interactive: InteractiveHint | None = None,
    completes: Mapping[str, str] | None = None,
    aliases: Mapping[str, list[str]] | None = None,
    one_of: Sequence[str] = (),
    any_of: Sequence[str] = (),
    produces: Sequence[type[Handle]] = (),
    mcp: McpHints | None = None,
) -> Callable[[F], F]: ...


def method(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    streaming: bool = True,
    bidirectional: bool = False,
    read_only: bool = False,
    destructive: bool = False,
    needs_context: bool = False,
    open_to_sessions: bool = False,
    render: Rendering | None = None,
    weight: int | None = None,
    interactive: InteractiveHint | None = None,
    completes: Mapping[str, str] | None = None,
    aliases: Mapping[str, list[str]] | None = None,
    one_of: Sequence[str] = (),
    any_of: Sequence[str] = (),
    produces: Sequence[type[Handle]] = (),
    mcp: McpHints | None = None,
    **unknown: object,
) -> Any:
    """Mark an `async def` function as a method of its activation.

    A function that returns has exactly one event; one that yields streams its events.

    Args:
        function: The function, if the decorator is used without arguments.
        name: The name on the wire, if it can't be the Python name (`list`, `type`).
        streaming: False promises exactly one event of a method that yields. The hub checks it.
        bidirectional: True if the method asks its caller through the host.
        read_only: True if the method changes nothing.
        destructive: True if the method removes data for good.
        needs_context: True if the method uses the caller's working directory and environment.
        open_to_sessions: True if an agent's session may call the method without a grant.
        render: The form in which a terminal shows the events: tree, chat, table, text or process.
        weight: From 1 to 100: how useful the method is to most people. Overviews list namespaces by
            the largest weight of their methods, and suggest the heaviest methods.
        interactive: The method can be repeated at a prompt: the parameter that is asked for, and
            commands: `{"param": "prompt", "cancel": "notes.cancel"}`.
        completes: For a parameter, the method that lists its values: `{"id": "notes.list"}`.
        aliases: For a parameter, other names for it: `{"text": ["content"]}`.
        one_of: Optional parameters of which a caller must give exactly one.
        any_of: Optional parameters of which a caller must give at least one.
        produces: Handle types that the events contain as plain text. Those in the types of the
            events need no mention.
        mcp: Hints for the MCP server.
        unknown: Misspelt arguments, for the error message.

    Raises:
        TypeError: The decorator is used wrongly; names the function and the remedy.
    """
    hints = {
        "read_only": read_only,
        "destructive": destructive,
        "needs_context": needs_context,
        "open_to_sessions": open_to_sessions,
        "render": render,
        "weight": weight,
        "interactive": interactive,
        "completes": completes,
        "aliases": aliases,
        "mcp": mcp,
    }
    annotations = {
        hint: dict(value) if isinstance(value, Mapping) else value
        for hint, value in hints.items()
        if value or (hint == "weight" and value is not None)
    }

    def apply(target: F) -> F:
        where = name_of(target)
        if isinstance(function, str):
            raise TypeError(f"{where}: write @method(name={function!r})")
        check_arguments(f"{where}: @method", unknown, _OPTIONS)
        for option, value in (("one_of", one_of), ("any_of", any_of), ("produces", produces)):
            if not isinstance(value, tuple | list):
                raise TypeError(f"{where}: {option}={value!r} must be a list")
        mark = MethodMark(
            name,
            streaming,
            bidirectional,
            tuple(one_of),
            tuple(any_of),
            tuple(produces),
            annotations,
        )
        set_mark(target, mark)
        return target

    return apply if function is None or isinstance(function, str) else apply(plain(function))


_OPTIONS: Final = tuple(method.__kwdefaults__ or ())


def plain(function: Any) -> Any:
    """Return a function that a decorator can mark.

    Raises:
        TypeError: It is not a function.
    """
    if isinstance(function, property | staticmethod | classmethod):
        inner = function.fget if isinstance(function, property) else function.__func__
        raise TypeError(f"{name_of(inner)}: write it without @{type(function).__name__}")
    if not callable(function):
        raise TypeError(f"{function!r} is not a function; write the decorator above `async def`")
    return function


def set_mark(function: object, mark: MethodMark | ResolverMark) -> None:
    """Mark a function."""
    setattr(function, _MARK, mark)


def mark_of(attribute: object) -> MethodMark | ResolverMark | None:
    """Return the mark of a class attribute, or None."""
    mark: MethodMark | ResolverMark | None = getattr(attribute, _MARK, None)
    return mark


@dataclass(frozen=True, repr=False, eq=False)
class Method:
    """The declaration of a method."""

    # The module, class and function, for messages.
    where: str
    name: str
    # The function as its author wrote it: it yields its events, or returns its only event.
    function: Callable[..., Any]
    # Whether it returns its only event.
    returns: bool
    streaming: bool
    bidirectional: bool
    # Optional parameters of which a caller must give exactly one.
    one_of: tuple[str, ...]
    # Optional parameters of which a caller must give at least one.
    any_of: tuple[str, ...]
    # Handle types that the events contain as plain text.
    also_produces: tuple[type[Handle], ...]
    annotations: Mapping[str, Any]

    @cached_property
    def signature(self) -> Signature:
        """The hints and the docstring of the function, read when they are needed first."""
        return read_signature(self.where, self.function)

    @property
    def description(self) -> str:
        """The first line of the docstring."""
        return self.signature.summary

    @property
    def details(self) -> str:
        """The paragraphs of the docstring after its first line."""
        return self.signature.details

    @property
    def fields(self) -> Mapping[str, tuple[Any, FieldInfo]]:
        """Types and defaults of the parameters, in the form of pydantic's `create_model`."""
        return self.signature.fields

    @property
    def events(self) -> tuple[type, ...]:
        """The types of the events."""
        return self.signature.events

    @property
    def open_to_sessions(self) -> bool:
        """Whether an agent's session may call the method without a grant."""
        return bool(self.annotations.get("open_to_sessions"))

    @cached_property
    def params(self) -> type[BaseModel]:
        """The model of the parameters, built by the first call: most methods are never called."""
        fields: dict[str, Any] = {name: self._under_all_names(name) for name in self.fields}
        return create_model(
            self._title,
            __config__=ConfigDict(
                extra="forbid", allow_inf_nan=False, protected_namespaces=(), defer_build=True
            ),
            **fields,
        )

    def _under_all_names(self, name: str) -> tuple[Any, FieldInfo]:
        """Return a field that validation accepts under every name of its parameter."""
        hint, field = failing_fast(self.fields[name][0]), self.fields[name][1]
        others = self.annotations.get("aliases", {}).get(name)
        if others:
            hint = Annotated[hint, Field(validation_alias=AliasChoices(name, *others))]
        return hint, field

    @cached_property
    def params_schema(self) -> JsonSchema:
        """The JSON Schema of the parameters."""
        return SCHEMA_CACHE.value(self._module, self._params_key, self._describe_params)

    @cached_property
    def returns_schema(self) -> JsonSchema:
        """The JSON Schema of the events."""
        return SCHEMA_CACHE.value(
            self._module, self._returns_key, lambda: events_schema(self.events)
        )

    @property
    def was_checked(self) -> bool:
        """Whether the schemas are in the cache, so that the method has passed all checks."""
        return SCHEMA_CACHE.has(self._module, self._params_key) and SCHEMA_CACHE.has(
            self._module, self._returns_key
        )

    def check(self) -> None:
        """Check the signature and the hints, and build both schemas.

        Raises:
            TypeError: The signature, the docstring or a hint is wrong; names the remedy.
        """
        fields = self.fields
        if not self.description:
            raise TypeError(f"{self.where}: write a docstring; its first line is the help text")
        check_hints(self.where, self.annotations, fields)
        check_choice(self.where, "one_of", self.one_of, fields)
        check_choice(self.where, "any_of", self.any_of, fields)
        try:
            _ = self.params_schema, self.returns_schema
        except PydanticUserError as error:
            raise TypeError(f"{self.where}: a type has no JSON Schema ({error.message})") from error

    @property
    def _params_key(self) -> str:
        return f"{self._title}.params"

    @property
    def _returns_key(self) -> str:
        return f"{self._title}.returns"

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
        if self.any_of:
            schema["anyOf"] = [{"required": [name]} for name in self.any_of]
        return schema

    @cached_property
    def produces(self) -> tuple[type[Handle], ...]:
        """The handle types in the events; the one with the method's name first."""
        named = [handle for event in self.events for handle in handle_types(event)]
        types = dict.fromkeys((*named, *self.also_produces))
        return tuple(sorted(types, key=lambda handle: handle.method != self.name))


def read_method(owner: str, function: Callable[..., Any], mark: MethodMark) -> Method:
    """Read the declaration of a method.

    Args:
        owner: The module and class, for messages.
        function: The marked function.
        mark: Its mark.

    Raises:
        TypeError: The signature, the docstring or a hint is wrong; names the remedy.
    """
    where = f"{owner}.{function.__name__}"
    name = mark.name or function.__name__
    if not _NAME.fullmatch(name):
        raise TypeError(f"{where}: the name {name!r} must be a letter, then letters, digits, '_'")
    returns = iscoroutinefunction(function)
    entry = Method(
        where=where,
        name=name,
        function=function,
        returns=returns,
        streaming=mark.streaming and not returns,
        bidirectional=mark.bidirectional,
        one_of=mark.one_of,
        any_of=mark.any_of,
        also_produces=mark.produces,
        annotations=mark.annotations,
    )
    if not entry.was_checked:
        # At import, so that the author sees the error and not a caller.
        entry.check()
    return entry
