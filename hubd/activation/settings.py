"""A plugin's settings, from its section of the configuration file and from the environment."""

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hubd.errors import InvalidParams

M = TypeVar("M", bound=BaseModel)


def read_settings(model: type[M], path: str, section: Mapping[str, Any]) -> M:
    """The settings of the plugin at `path`.

    Raises:
        InvalidParams: Names the setting, where it comes from, and what is wrong with it.
    """
    values = {name: value for name, value in section.items() if not isinstance(value, dict)}
    for name in model.model_fields:
        given = os.environ.get(variable(path, name))
        if given is not None:
            values[name] = given
    unknown = sorted(values.keys() - model.model_fields.keys())
    if unknown:
        raise InvalidParams(
            f"config.toml: [{path}] has no setting '{unknown[0]}'",
            suggestion="Correct the name, or remove the line",
            available=list(model.model_fields),
        )
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise InvalidParams(
            f"the setting {path}.{name}: {first['msg']}",
            suggestion=f"Correct it in config.toml, or the variable {variable(path, name)}",
        ) from None


def variable(path: str, name: str) -> str:
    """The environment variable of a setting."""
    return f"HUBD_{path}_{name}".upper().replace(".", "_").replace("-", "_")
