"""`--all`: a call without the limit on the number of rows or nodes."""

from __future__ import annotations

from synapse.errors import UsageError
from synapse.params.schemas import Schemas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubd.wire.schema import JsonSchema

# The parameters that limit a list or a tree.
LIMITS = ("limit", "depth")
# The value of a limit that has no maximum and can't be left out.
UNLIMITED = 2**31 - 1


def limits_hint(params: dict[str, Any], schema: JsonSchema) -> str:
    """Return the limits of a call, and how to lift them; empty for a method without limits."""
    properties = schema.get("properties", {})
    schemas = Schemas(schema)
    limits: list[str] = []
    # The largest value of each limit that can be larger.
    larger: dict[str, Any] = {}
    for name in LIMITS:
        value = params.get(name, properties.get(name, {}).get("default"))
        if value is not None:
            limits.append(f"--{name} {value}")
            largest = _largest(schemas, properties.get(name, {}))
            if largest != value:
                larger[name] = largest
    if not limits:
        return ""
    if not larger:
        more = "the most that one call shows"
    elif "limit" not in larger:
        more = "--all lifts --depth"
    elif larger["limit"] in (None, UNLIMITED):
        more = "--all shows everything"
    else:
        more = f"--all shows up to {larger['limit']:,}"
    return f"{', '.join(limits)}; {more}"


def lift_limit(params: dict[str, Any], schema: JsonSchema) -> None:
    """Set the limits of a method to their largest values, or to none.

    Raises:
        UsageError: The method has no limit, or the command line sets it.
    """
    properties = schema.get("properties", {})
    if "limit" not in properties:
        raise UsageError("--all needs a method with a limit", hint="This method has no --limit")
    if params.get("limit") is not None:
        raise UsageError("--all and --limit exclude each other")
    schemas = Schemas(schema)
    for name in LIMITS:
        if name not in properties or params.get(name) is not None:
            continue
        # Without a default there is no limit.
        if properties[name].get("default") is not None:
            params[name] = _largest(schemas, properties[name])


def _largest(schemas: Schemas, schema: JsonSchema) -> Any:
    """Return the largest value of a limit; None if it can be left out."""
    kinds = schemas.variants(schema)
    if any(kind.get("type") == "null" for kind in kinds):
        return None
    largest = [kind["maximum"] for kind in kinds if "maximum" in kind]
    return max(largest, default=UNLIMITED)
