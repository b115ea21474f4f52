"""Check the params of a call against the model of its method, as strictly as JSON Schema does."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from pydantic import ValidationError

from hubd.activation.method import Method
from hubd.errors import HandleInvalid, HubError, InvalidParams, VersionUnsupported, by_code
from hubd.plexus.params import invalid_params
from hubd.plexus.params.json_values import params_validator
from hubd.wire.text import did_you_mean

# Params with more problems are refused without details.
MAX_PROBLEMS: Final = 200


class ParamsValidator:
    """Checks parsed params against the model of a method, strictly: no "3" for a number."""

    __slots__ = ("_has_aliases", "_has_choices", "_spec", "_validate")

    def __init__(self, spec: Method) -> None:
        self._spec = spec
        self._validate = params_validator(spec.params)
        self._has_aliases = bool(spec.annotations.get("aliases"))
        self._has_choices = bool(spec.one_of or spec.any_of)

    def __call__(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the params with their defaults.

        Raises:
            InvalidParams: Names the first field that does not fit, and why.
            HandleInvalid: A handle among them is malformed.
        """
        spec = self._spec
        if self._has_aliases:
            params = _by_main_name(spec, params)
        if len(params) > MAX_PROBLEMS:
            raise _too_many_problems(spec, f"{len(params):,} parameters are too many")
        try:
            values = self._validate(params)
        except ValidationError as error:
            values = _with_integers(spec, self._validate, params, error)
        if self._has_choices:
            _check_choices(spec, params)
        return values


def _with_integers(
    spec: Method,
    validator: Callable[[Mapping[str, Any]], dict[str, Any]],
    params: Mapping[str, Any],
    error: ValidationError,
) -> dict[str, Any]:
    """Validate again with 1.0 as an integer, as JSON Schema does.

    Raises:
        HubError: The params have another problem.
    """
    if error.error_count() > MAX_PROBLEMS:
        raise _invalid(spec, error) from None
    floats = [
        problem["loc"]
        for problem in error.errors(include_url=False)
        if problem["type"] == "int_type" and isinstance(problem["input"], float)
    ]
    if not floats:
        raise _invalid(spec, error) from None
    corrected = deepcopy(dict(params))
    for place in floats:
        _make_integer(corrected, place)
    try:
        return validator(corrected)
    except ValidationError as other:
        raise _invalid(spec, other) from None


def _check_choices(spec: Method, params: Mapping[str, Any]) -> None:
    if spec.one_of:
        _check_one(spec.one_of, params)
    if spec.any_of and all(params.get(name) is None for name in spec.any_of):
        raise InvalidParams(f"give at least one of {', '.join(spec.any_of)}", available=spec.any_of)


def _make_integer(value: Any, place: Sequence[str | int]) -> None:
    """Replace a float without a fraction by the integer, at a place that a validator reports.

    A place also has the names of the types that were tried; those are skipped.
    """
    container, key = None, None
    for step in place:
        is_key = isinstance(value, dict) and step in value
        is_index = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if is_key or is_index:
            container, key, value = value, step, value[step]
    if container is not None and isinstance(value, float) and value.is_integer():
        container[key] = int(value)


def _check_one(names: tuple[str, ...], params: Mapping[str, Any]) -> None:
    given = [name for name in names if params.get(name) is not None]
    if len(given) != 1:
        raise InvalidParams(
            f"give exactly one of {', '.join(names)}"
            + (f", not {' and '.join(given)}" if given else ""),
            available=names,
        )


def _by_main_name(spec: Method, params: Mapping[str, Any]) -> Mapping[str, Any]:
    aliases: Mapping[str, list[str]] = spec.annotations.get("aliases", {})
    for main, others in aliases.items():
        given = [name for name in (main, *others) if name in params]
        if len(given) > 1:
            raise InvalidParams(f"{' and '.join(given)} are the same parameter; give one")
        if given and given[0] != main:
            params = {main if name == given[0] else name: value for name, value in params.items()}
    return params


def _invalid(spec: Method, error: ValidationError) -> HubError:
    """Return the error for the caller."""
    if error.error_count() > MAX_PROBLEMS:
        return _too_many_problems(spec, f"{error.error_count():,} values do not fit the schema")
    problems = error.errors(include_url=False, include_input=False)
    names = list(spec.params.model_fields)
    first = problems[0]
    for problem in problems:
        # Where a handle is one of several types, the others' problems come first and say less.
        if problem["type"] in (HandleInvalid.code, VersionUnsupported.code):
            return by_code(problem["type"], problem["msg"])
    where = invalid_params.place(first)
    suggestion = f"{spec.name} takes: {', '.join(names) or 'no parameters'}"
    if first["type"] == "extra_forbidden":
        message = f"unknown parameter '{where}'"
        suggestion = did_you_mean(where, names) or suggestion
    elif first["type"] == "missing":
        message = f"parameter '{where}' is missing"
    else:
        same = [problem for problem in problems if invalid_params.place(problem) == where]
        message = f"parameter '{where}' {invalid_params.reason(same)}"
    others = {invalid_params.place(problem) for problem in problems} - {where}
    if others:
        message += f" (and {len(others)} more)"
    return InvalidParams(message, suggestion=suggestion, available=names)


def _too_many_problems(spec: Method, message: str) -> InvalidParams:
    """Return an error without details: listing each problem would block the event loop."""
    names = list(spec.params.model_fields)
    suggestion = f"{spec.name} takes: {', '.join(names) or 'no parameters'}"
    return InvalidParams(message, suggestion=suggestion, available=names)
