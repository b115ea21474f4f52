"""The settings of a plugin, from its section of `config.toml` and from the environment."""

import os
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from hubd.activation.schema_cache import SCHEMA_CACHE
from hubd.errors import InvalidParams

M = TypeVar("M", bound=BaseModel)


def read_settings(model: type[M], path: str, section: Mapping[str, Any]) -> M:
    """Return the settings of the plugin at `path`.

    A field with a model as its type is a table: `[notes.server]`, `HUBD_NOTES_SERVER_PORT`.

    Raises:
        InvalidParams: Names the setting, its source and the problem.
    """
    # Other tables are sections of the plugin's children.
    tables = unknown_tables(model, section)
    own = {name: value for name, value in section.items() if name not in tables}
    try:
        values = _collect(model, path, own)
        return model.model_validate(values) if values else _defaults(model)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise InvalidParams(
            f"the setting {path}.{name}: {first['msg']}",
            suggestion=f"Correct it in config.toml, or the variable {variable(path, name)}",
        ) from None


def _defaults(model: type[M]) -> M:
    """Return the settings of a plugin without any value.

    If validation does not change the defaults, they need no validator, which takes a while to
    build. The cache knows that of the models of hubd.
    """
    plain = SCHEMA_CACHE.value(
        model.__module__,
        f"{model.__qualname__} has plain defaults",
        lambda: model.model_validate({}) == model.model_construct(),
    )
    return model.model_construct() if plain else model.model_validate({})


def unknown_tables(model: type[BaseModel], section: Mapping[str, Any]) -> list[str]:
    """Return the tables of a section that are not settings."""
    fields = model.model_fields
    return [
        name for name, value in section.items() if isinstance(value, dict) and name not in fields
    ]


def _collect(model: type[BaseModel], path: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for a model. The environment overrides the section."""
    unknown = sorted(section.keys() - model.model_fields.keys())
    if unknown:
        raise InvalidParams(
            f"config.toml: [{path}] has no setting '{unknown[0]}'",
            suggestion="Correct the name, or remove the line",
            available=list(model.model_fields),
        )
    values = dict(section)
    for name, field in model.model_fields.items():
        table = _model_in(field.annotation)
        inner = section.get(name, {})
        if table is not None and isinstance(inner, Mapping):
            collected = _collect(table, f"{path}.{name}", inner)
            if collected or name in section:
                values[name] = collected
        elif (text := os.environ.get(variable(path, name))) is not None:
            values[name] = text
    return values


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model in the type of a field; None for a plain value."""
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part if get_origin(annotation) in (None, Union, UnionType) else None
    return None


def variable(path: str, name: str) -> str:
    """Return the name of a setting's environment variable."""
    return f"HUBD_{path}_{name}".upper().replace(".", "_").replace("-", "_")
