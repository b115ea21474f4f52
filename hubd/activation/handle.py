"""Handle types: one declaration to create, parse, check and describe handles of a kind."""

from collections.abc import Mapping
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    get_args,
    get_origin,
)
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    SerializationInfo,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, to_jsonable_python

from hubd.activation.declaration.class_checks import check_arguments, name_of
from hubd.activation.templates import check_templates
from hubd.errors import HandleInvalid, VersionUnsupported
from hubd.wire import handle as grammar
from hubd.wire.handle import WireHandle
from hubd.wire.schema import HANDLE_FORMAT, MetaField

if TYPE_CHECKING:
    from hubd.mustache.template import Template

Kind = Literal[
    "message",
    "output",
    "document",
    "binary",
    "event",
    "block",
    "turn",
    "session",
    "approval",
    "unknown",
]
KINDS: Final = frozenset(get_args(Kind))

# The JSON Schema of every handle.
HANDLE_SCHEMA: Final[dict[str, Any]] = {"type": "string", "format": HANDLE_FORMAT}

# The key of the serialization context under which the hub passes the sending activation.
ORIGIN: Final = "origin"


class Origin(NamedTuple):
    """The activation that owns a handle."""

    namespace: str
    version: str

    @property
    def major(self) -> str:
        """The major version."""
        return self.version.partition(".")[0]


class Prefix(str):
    """A prefix of a meta value: `Annotated[UUID, Prefix("msg-")]`.

    It is always written, and optional in handles that are read.
    """


class Handle(BaseModel):
    """A typed reference to data that an activation owns. Its fields are the meta values, in order.

    Class arguments: `method`, the name in the handle; `kind`, the kind of the resolved data (one
    of `KINDS`); `summary`, a template of one line over the resolved data, such as
    `"{role}: {content}"`; `templates`, Mustache templates over the resolved data by style, such as
    `{"compact": "{{role}}"}`.
    """

    # Deferred, because a process uses few of the types.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    method: ClassVar[str] = ""
    kind: ClassVar[str] = "unknown"
    summary: ClassVar[str] = ""
    # The parsed templates by style.
    templates: ClassVar[Mapping[str, "Template"]] = {}
    # The names of the meta values with their prefixes, in order.
    meta_names: ClassVar[tuple[tuple[str, str], ...]] = ()
    # The attached activations that own this type; normally one.
    owners: ClassVar[tuple[Origin, ...]] = ()
    # The owner that the declaring class implies, until an activation is attached.
    expected: ClassVar[Origin | None] = None

    # The owner of one handle, and its text after it was written. Instances set them in their
    # __dict__, which is much faster than a private attribute of pydantic.
    _origin: ClassVar[Origin | None] = None
    _written: ClassVar[tuple[Origin, str] | None] = None

    def __init_subclass__(
        cls,
        *,
        method: str = "",
        kind: str = "unknown",
        summary: str = "",
        templates: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Read and check the class arguments.

        Raises:
            TypeError: A mistake in the class; names the class and the remedy.
        """
        where = name_of(cls)
        check_arguments(where, kwargs, ("method", "kind", "summary", "templates"))
        super().__init_subclass__(**kwargs)
        for name in cls.__annotations__:
            if hasattr(Handle, name):
                raise TypeError(f"{where}: a meta value cannot be named {name!r}")
        if not method:
            raise TypeError(
                f"{where}: give the name of its handles, such as class {cls.__name__}(Handle, "
                'method="add")'
            )
        if not grammar.is_name(method):
            raise TypeError(f"{where}: method {method!r} must be letters, digits, '.', '_' and '-'")
        check_kind(where, kind)
        cls.method, cls.kind, cls.summary = method, kind, summary
        cls.templates = check_templates(where, templates or {})
        cls.owners, cls.expected = (), None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Check the fields, which exist only now."""
        cls.meta_names = tuple(
            (name, _prefix(field.metadata)) for name, field in cls.model_fields.items()
        )
        where = name_of(cls)
        optional = None
        for name, field in cls.model_fields.items():
            _check_meta_type(f"{where}.{name}", field.annotation)
            if not field.is_required():
                optional = name
                if type(None) in get_args(field.annotation) and field.default is not None:
                    raise TypeError(
                        f"{where}.{name}: the default of a value that may be None must be None"
                    )
            elif optional:
                raise TypeError(
                    f"{where}.{name} is required but follows the optional {optional}; give it a "
                    "default or move it up"
                )

    @classmethod
    def settle(cls, origin: Origin) -> None:
        """Add an activation to the owners of this type."""
        if origin not in cls.owners:
            cls.owners = (*cls.owners, origin)

    def at(self, origin: Origin) -> Self:
        """Return the same handle with its owner: `ref.at(self.origin)`."""
        copy = self.model_copy()
        copy.__dict__["_origin"] = origin
        return copy

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the handle without its cached text."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("_written", None)
        return copy

    @property
    def origin(self) -> Origin:
        """The activation that owns this handle.

        Raises:
            TypeError: The owner is not known, or there are several; names the remedy.
        """
        candidates = (self._origin,) if self._origin else self.owners or (self.expected,)
        if len(candidates) > 1 or candidates[0] is None:
            raise TypeError(
                f"several activations, or none, own {type(self).__qualname__}; "
                "name one: ref.at(self.origin)"
            )
        return candidates[0]

    @property
    def wire(self) -> WireHandle:
        """The handle in the form of the wire."""
        origin = self.origin
        return WireHandle(origin.namespace, origin.version, self.method, tuple(self._meta()))

    @classmethod
    def parse(cls, value: str | Mapping[str, Any] | WireHandle) -> Self:
        """Parse a handle of this type.

        Raises:
            HandleInvalid: It is not a handle of this type, or its meta values do not fit.
            VersionUnsupported: It is of another major version.
        """
        try:
            wire = value if isinstance(value, WireHandle) else grammar.from_json(value)
        except grammar.InvalidHandle as error:
            raise HandleInvalid(str(error)) from None
        cls._check_owner(wire)
        expected = len(cls.meta_names)
        if len(wire.meta) > expected:
            raise HandleInvalid(f"{wire} has {len(wire.meta)} meta values, not {expected}")
        strings = {
            name: text.removeprefix(prefix)
            for text, (name, prefix) in zip(wire.meta, cls.meta_names, strict=False)
        }
        try:
            parsed = cls.model_validate_strings(strings)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise HandleInvalid(f"{wire}: meta value '{field}': {first['msg']}") from None
        # As `at`, without a copy.
        parsed.__dict__["_origin"] = Origin(wire.plugin, wire.version)
        return parsed

    @classmethod
    def _check_owner(cls, wire: WireHandle) -> None:
        """Refuse another type, another plugin's handle, and another major version."""
        if wire.method == cls.method and (wire.plugin, wire.version) in cls.owners:
            return  # The common case.
        owners = cls.owners or ((cls.expected,) if cls.expected else ())
        ids = {grammar.plugin_id(owner.namespace, owner.major): owner for owner in owners}
        if wire.method != cls.method or (ids and wire.plugin_id not in ids):
            for owner in owners:
                if wire.method == cls.method and wire.plugin in (
                    owner.namespace,
                    str(grammar.plugin_id(owner.namespace, wire.major)),
                ):
                    raise VersionUnsupported(
                        f"{wire} is of major version {wire.major}, and {owner.namespace} is "
                        f"{owner.version}"
                    )
            expected = " or ".join(f"{owner.namespace}@{owner.version}" for owner in owners)
            raise HandleInvalid(f"{wire} is not a handle {expected or '…'}::{cls.method}")
        if ids and ids[wire.plugin_id].major != wire.major:
            raise VersionUnsupported(f"{wire} is of major version {wire.major}")

    @classmethod
    def meta_fields(cls) -> list[MetaField]:
        """Return the meta values for the schema."""
        described: list[MetaField] = []
        for index, (name, prefix) in enumerate(cls.meta_names):
            field = cls.model_fields[name]
            meta: MetaField = {"name": name, "index": index, "required": field.is_required()}
            if prefix:
                meta["prefix"] = prefix
            if field.description:
                meta["description"] = field.description
            described.append(meta)
        return described

    def __str__(self) -> str:
        """Return the canonical text."""
        return self._write(self._origin or self.origin)

    def __eq__(self, other: object) -> bool:
        """Compare type, owner and values."""
        if not isinstance(other, Handle):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        """Hash what equality compares."""
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        """Return the type, the owners and the values."""
        owners = (self._origin,) if self._origin else self.owners or (self.expected,)
        return (type(self), owners, *(getattr(self, name) for name, _ in self.meta_names))

    def _write(self, origin: Origin) -> str:
        written = self._written
        if written is None or written[0] != origin:
            text = grammar.write(origin.namespace, origin.version, self.method, self._meta())
            written = self.__dict__["_written"] = (origin, text)
        return written[1]

    def _meta(self) -> list[str]:
        fields = self.__dict__
        values = [(prefix, fields[name]) for name, prefix in self.meta_names]
        while values and values[-1][1] is None:
            values.pop()
        if any(value is None for _, value in values):
            raise ValueError(
                f"{type(self).__qualname__}: a meta value is missing before one that is given"
            )
        return [prefix + _text(value) for prefix, value in values]

    @model_validator(mode="wrap")
    @classmethod
    def _accept_text(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Self:
        """Accept the string of the wire, and the older object forms."""
        if type(value) is cls:
            return value
        if isinstance(value, str) or cls._is_object_form(value):
            try:
                return cls.parse(value)
            except (HandleInvalid, VersionUnsupported) as error:
                code: Any = error.code
                raise PydanticCustomError(code, "{reason}", {"reason": error.message}) from None
        model: Self = handler(value)
        return model

    @model_serializer(mode="plain")
    def _as_text(self, info: SerializationInfo) -> str:
        # An event may carry handles of other plugins, which the sender does not own.
        sender = info.context.get(ORIGIN) if info.context else None
        if self._origin is None and sender in self.owners:
            return self._write(sender)
        return str(self)

    @classmethod
    def _is_object_form(cls, value: object) -> bool:
        if not isinstance(value, dict):
            return False
        has_form = "source" in value or ("method" in value and "version" in value)
        return has_form and not value.keys() <= cls.model_fields.keys()

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return a string with the format of handles, not an object with the fields."""
        return dict(HANDLE_SCHEMA)


def check_kind(where: str, kind: str) -> None:
    """Refuse a kind that is not one of `KINDS`."""
    if kind not in KINDS:
        raise TypeError(f"{where}: kind {kind!r} is not one of {', '.join(sorted(KINDS))}")


def handle_types(annotation: object) -> list[type[Handle]]:
    """Return the handle types in a type, also inside models, unions and containers."""
    types: dict[type[Handle], None] = {}
    seen: set[object] = set()

    def visit(part: object) -> None:
        if get_origin(part) is not None:
            for argument in get_args(part):
                visit(argument)
        elif isinstance(part, type) and part not in seen:
            seen.add(part)
            if issubclass(part, Handle):
                types[part] = None
            elif issubclass(part, BaseModel):
                for field in part.model_fields.values():
                    visit(field.annotation)

    visit(annotation)
    return list(types)


def _check_meta_type(where: str, annotation: object) -> None:
    """Refuse choices that are not text: a handle could not carry them both ways."""
    if get_origin(annotation) is Literal:
        plain = all(isinstance(choice, str) for choice in get_args(annotation))
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        plain = issubclass(annotation, int) or all(
            isinstance(member.value, str) for member in annotation
        )
    else:
        for part in get_args(annotation):
            _check_meta_type(where, part)
        return
    if not plain:
        raise TypeError(f"{where}: the choices of a meta value must be text")


def _prefix(metadata: list[Any]) -> str:
    return next((str(entry) for entry in metadata if isinstance(entry, Prefix)), "")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, UUID):
        return str(value)
    plain = to_jsonable_python(value)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    return str(plain)


def _read_any(value: object) -> WireHandle:
    if isinstance(value, WireHandle):
        return value
    try:
        return grammar.from_json(value)
    except grammar.InvalidHandle as error:
        raise PydanticCustomError("handle_invalid", "{reason}", {"reason": str(error)}) from None


_HANDLE_STRING: Final = WithJsonSchema(HANDLE_SCHEMA)

# A handle of any type, for parameters and events that carry handles of other plugins.
AnyHandle = Annotated[WireHandle, PlainValidator(_read_any), PlainSerializer(str), _HANDLE_STRING]


def _check_object(value: str | dict[str, Any]) -> str | dict[str, Any]:
    """Refuse an object that is not a handle. A text is parsed later."""
    if isinstance(value, dict):
        _read_any(value)
    return value


# The same, not parsed yet: for methods that report the error of each handle by itself.
UnreadHandle = Annotated[str | dict[str, Any], AfterValidator(_check_object), _HANDLE_STRING]
