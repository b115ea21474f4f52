"""Parameter groups: `**where: Unpack[StreamAddress]`, a TypedDict that several methods share.

The schema of such a method is the same as if each field were written as a parameter.
"""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from weakref import WeakKeyDictionary

from pydantic import Field
from pydantic.fields import FieldInfo

from hubd.activation.declaration.docstring import split_docstring

# The fields of each group without mistakes: several methods use the same group.
_FIELDS: WeakKeyDictionary[type, dict[str, tuple[Any, FieldInfo]]] = WeakKeyDictionary()


def read_group(where: str, name: str, hint: object) -> dict[str, tuple[Any, FieldInfo]]:
    """Return the parameters of a group as pydantic's `create_model` takes them.

    Args:
        where: The module, class and method, for messages.
        name: The name after `**` in the signature.
        hint: Its type hint, which must be `Unpack[SomeTypedDict]`.

    Raises:
        TypeError: The hint or a field of the TypedDict is wrong; names the remedy.
    """
    group = get_args(hint)[0] if get_origin(hint) is Unpack else None
    if not is_typeddict(group):
        raise TypeError(
            f"{where}: **{name} has no schema; name every parameter, or write "
            f"**{name}: Unpack[SomeTypedDict]"
        )
    assert group is not None
    if (fields := _FIELDS.get(group)) is not None:
        return fields
    try:
        hints = get_type_hints(group, include_extras=True)
    except (NameError, AttributeError) as error:
        raise TypeError(
            f"{where}: a type hint of {group.__qualname__} cannot be resolved ({error})"
        ) from None
    _, _, texts = split_docstring(group.__doc__ or "")
    if unknown := sorted(texts.keys() - hints.keys()):
        raise TypeError(
            f"{where}: the docstring of {group.__qualname__} documents unknown field(s) "
            f"{', '.join(unknown)}"
        )
    fields = _FIELDS[group] = {
        field: _read_field(
            f"{where}: the field '{field}' of {group.__qualname__}",
            field_hint,
            required=field in group.__required_keys__,
            text=texts.get(field),
        )
        for field, field_hint in hints.items()
    }
    return fields


def _read_field(
    where: str, hint: object, *, required: bool, text: str | None
) -> tuple[Any, FieldInfo]:
    plain, required = _without_qualifiers(hint, required)
    declared = _declared(plain)
    if not (text or any(info.description for info in declared)):
        raise TypeError(
            f"{where} is not documented; describe it under `Args:` in the docstring of the "
            "TypedDict, or with Annotated[…, Field(description=…)]"
        )
    described = Annotated[plain, Field(description=text)] if text else plain
    with_default = [info for info in declared if not info.is_required()]
    if with_default and required:
        raise TypeError(f"{where} has a default; write NotRequired[…] around its type")
    if required:
        return described, Field(...)
    if with_default:
        info = with_default[-1]
        if info.default_factory is not None:
            return described, Field(default_factory=info.default_factory)
        return described, Field(info.default)
    if not _allows_none(plain):
        raise TypeError(
            f"{where} may be left out; let its type be `… | None`, or give it a default with "
            "Annotated[…, Field(default=…)]"
        )
    absent: FieldInfo = Field(default=cast("Any", None))
    return described, absent


def _without_qualifiers(hint: Any, required: bool) -> tuple[Any, bool]:
    """Return a hint without `Required` and `NotRequired`, and whether the field is required.

    The hint is read as well as `__required_keys__`, which is wrong if annotations are strings.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Required, NotRequired):
        return _without_qualifiers(arguments[0], origin is Required)
    if origin is Annotated:
        inner, required = _without_qualifiers(arguments[0], required)
        return Annotated[(inner, *arguments[1:])], required
    return hint, required


def _declared(hint: Any) -> list[FieldInfo]:
    """Return the `Field(…)` of an annotation, the outermost last."""
    if get_origin(hint) is not Annotated:
        return []
    inner, *metadata = get_args(hint)
    return [*_declared(inner), *(entry for entry in metadata if isinstance(entry, FieldInfo))]


def _allows_none(hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _allows_none(arguments[0])
    if origin in (Union, UnionType):
        return any(map(_allows_none, arguments))
    return hint in (None, NoneType, Any)


def check_distinct(where: str, named: Mapping[str, Any], grouped: Mapping[str, Any]) -> None:
    """Refuse a group that repeats a parameter of the signature.

    Raises:
        TypeError: Names the parameter.
    """
    if repeated := sorted(named.keys() & grouped.keys()):
        raise TypeError(
            f"{where}: '{repeated[0]}' is a parameter and a field of its group; remove one of them"
        )
