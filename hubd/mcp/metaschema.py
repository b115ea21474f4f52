"""Whether something is a JSON Schema, told five times as fast as by the published metaschema.

That one is spread over several documents, each of which refers to the whole dynamically so that
others can extend it. Nobody extends it here, so the parts are put into one plain schema.
"""

from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # it has no stubs

_PARTS: Final = (
    "core",
    "applicator",
    "unevaluated",
    "validation",
    "meta-data",
    "format-annotation",
    "content",
)


def problem_of(schema: object) -> str | None:
    """Why something is no JSON Schema of draft 2020-12; None if it is one.

    Raises:
        RecursionError: It is nested too deeply to tell.
    """
    error = next(_VALIDATOR.iter_errors(schema), None)
    return None if error is None else str(error.message)


def _in_one_piece() -> dict[str, Any]:
    whole: dict[str, Any] = {"type": ["object", "boolean"], "properties": {}, "$defs": {}}
    for part in _PARTS:
        published = REGISTRY.contents(f"https://json-schema.org/draft/2020-12/meta/{part}")
        for name in ("properties", "$defs"):
            whole[name] |= _plain(published.get(name, {}))
    return whole


def _plain(part: Any) -> Any:
    if isinstance(part, list):
        return [_plain(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    if part.get("$dynamicRef") == "#meta":
        return {"$ref": "#"}
    return {name: _plain(value) for name, value in part.items()}


# The formats too: a pattern that is no regular expression is of no use to a client.
_VALIDATOR: Final = Draft202012Validator(
    _in_one_piece(), format_checker=Draft202012Validator.FORMAT_CHECKER
)
