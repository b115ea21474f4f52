"""The hub accepts exactly the params that a schema allows, for every built-in method."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hubd.activation.method import Method
from hubd.errors import HubError
from hubd.plexus.discovery import BUILT_IN, Source
from hubd.plexus.namespace import UNIVERSAL_METHODS
from hubd.plexus.params.validate import ParamsValidator
from tests.support import examples

UUID_TEXT = "550e8400-e29b-41d4-a716-446655440000"
HANDLE = "echo@1.0.0::once:hi"

SCALARS = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, 7, 1.0, 2.5, -3.0, 1e22, 3e300, 10**30),
        *("", "a", "3", "true", "main", "x" * 300, UUID_TEXT, HANDLE),
    ]
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "type", "tree_id"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def methods() -> dict[str, Method]:
    """Return every method of every built-in plugin, by path."""
    by_path = dict(UNIVERSAL_METHODS)
    for target in BUILT_IN:
        activation = Source(target, "built in").load()
        for name, method in activation.methods.items():
            by_path[f"{activation.namespace}.{name}"] = method
    return by_path


METHODS = methods()


def without_id_patterns(schema: Any) -> Any:
    """Return a schema that allows any text as an id. The lookup of an id refuses other texts."""
    if isinstance(schema, list):
        return [without_id_patterns(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    is_id = str(schema.get("pattern", "")).startswith("^[0-9A-Fa-f-]")
    return {
        name: without_id_patterns(part)
        for name, part in schema.items()
        if not (is_id and name == "pattern")
    }


SCHEMAS = {
    name: Draft202012Validator(without_id_patterns(method.params_schema))
    for name, method in METHODS.items()
}


def values(schema: Any, root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values of which a schema allows most."""
    if "$ref" in schema:
        return values(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return st.one_of([values(part, root) for part in schema[several]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    if schema.get("type") == "object" and "properties" in schema:
        fields = {name: values(part, root) for name, part in schema["properties"].items()}
        needed = {name: fields.pop(name) for name in schema.get("required", [])}
        return st.fixed_dictionaries(needed, optional=fields)
    if schema.get("type") == "array":
        return st.lists(values(schema.get("items", {}), root), max_size=2)
    if schema.get("type") == "integer":
        low = schema.get("minimum", 0)
        return st.sampled_from([low, low + 1, float(low), low - 1, 2.5, 1e22])
    if schema.get("format") == "plexus-handle":
        return st.just(HANDLE)
    if schema.get("type") == "string":
        return st.sampled_from([UUID_TEXT, "a", "x" * 70])
    return JUNK


def params_of(method: Method) -> st.SearchStrategy[dict[str, Any]]:
    """Return params that are mostly valid, with one arbitrary value."""
    schema = method.params_schema
    names = sorted(schema.get("properties", {})) or ["unknown"]
    one = st.dictionaries(st.sampled_from([*names, "unknown"]), JUNK, max_size=1)
    # Which parameters are needed together is left to chance.
    plain = {name: part for name, part in schema.items() if name not in ("oneOf", "anyOf")}
    fitting = values({"type": "object", "properties": {}, **plain}, schema)
    return st.builds(lambda most, other: {**most, **other}, fitting, one | st.just({}))


def problem(method: Method, params: dict[str, Any]) -> HubError | None:
    try:
        ParamsValidator(method)(params)
    except HubError as error:
        return error
    return None


@examples(100)
@given(st.data())
def test_params_are_accepted_if_and_only_if_the_schema_allows_them(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(METHODS)), "method")
    params = data.draw(params_of(METHODS[name]), "params")
    # In `one_of`, a parameter with the value null counts as absent.
    params = {
        field: value
        for field, value in params.items()
        if value is not None or field not in METHODS[name].one_of
    }
    # Some texts fit the schema and are refused later: invalid handles, unknown ids.
    error = problem(METHODS[name], params)
    is_about_text = error is not None and (
        error.code != "invalid_params" or "UUID" in error.message or "one of" in error.message
    )
    if not is_about_text:
        allowed = SCHEMAS[name].is_valid(params)
        assert allowed == (error is None), f"{name}: {params} {error}"


@pytest.mark.parametrize("handle", [{}, [{}], {"a": 1}, [HANDLE, {"plugin": "echo"}], [[]], 1])
def test_values_that_are_not_handles_are_refused_before_the_call(handle: object) -> None:
    error = problem(UNIVERSAL_METHODS["resolve_handle"], {"handle": handle})
    assert error is not None
    is_object = isinstance(handle, dict) or (isinstance(handle, list) and handle != [[]])
    assert error.code == ("handle_invalid" if is_object else "invalid_params")


@pytest.mark.parametrize(
    "handle",
    [
        "no handle, which the method itself reports",
        {"plugin": "echo", "version": "1.0.0", "method": "once", "meta": ["hi"]},
        [HANDLE, {"source": "cone", "source_version": "1.0.0", "identifier": "a:b"}],
    ],
)
def test_texts_and_older_object_forms_are_handles(handle: object) -> None:
    assert problem(UNIVERSAL_METHODS["resolve_handle"], {"handle": handle}) is None
