"""The schemas of activations, with their hashes. Pure functions."""

from collections.abc import Callable, Mapping
from typing import Any, cast
from uuid import UUID

from hubd.activation.base import Activation
from hubd.activation.method import Method
from hubd.activation.resolver import Resolver
from hubd.activation.schema_cache import PACKAGE, SCHEMA_CACHE
from hubd.wire.schema import Annotations, HandleSchema, MethodSchema, PluginSchema, content_hash


def plugin_schema(
    activation: Activation,
    path: str,
    plugin_id: UUID,
    children: Mapping[str, PluginSchema],
) -> PluginSchema:
    """Return the schema of a namespace, with summaries of its children."""
    methods = [method_schema(entry, activation, path) for entry in activation.methods.values()]
    handles = [handle_schema(entry, activation, path) for entry in activation.resolvers.values()]
    own: dict[str, Any] = {
        "namespace": path,
        "version": activation.version,
        "description": activation.description,
        "long_description": activation.details,
        "methods": sorted(method["hash"] for method in methods),
        "handles": sorted(handles, key=lambda handle: handle["method"]),
    }
    self_hash = content_hash(own)
    schema: PluginSchema = {
        "namespace": path,
        "version": activation.version,
        "description": activation.description,
        "plugin_id": str(plugin_id),
        "self_hash": self_hash,
        "hash": self_hash,
        "methods": methods,
        "handles": handles,
    }
    if activation.details:
        schema["long_description"] = activation.details
    if children:
        hashes = {name: child["hash"] for name, child in children.items()}
        schema["children_hash"] = children_hash(hashes)
        schema["hash"] = tree_hash(self_hash, hashes)
        schema["children"] = [
            {"namespace": name, "description": children[name]["description"], "hash": child_hash}
            for name, child_hash in sorted(hashes.items())
        ]
    return schema


def cached_self_hash(activation: Activation, path: str, build: Callable[[], str]) -> str:
    """Return the hash of a namespace without its children.

    Args:
        activation: The activation.
        path: Its path.
        build: Returns the hash from the schema; a built-in plugin needs it once per installation.
    """
    owner = type(activation)
    functions = [entry.function for entry in activation.methods.values()]
    functions += [entry.function for entry in activation.resolvers.values()]
    # A built-in class may have methods of another package. Generated code may have no module.
    is_built_in = all(str(function.__module__).startswith(PACKAGE) for function in functions)
    return SCHEMA_CACHE.value(
        owner.__module__ if is_built_in else "",
        f"{owner.__qualname__} at {path}: {activation.description}",
        build,
    )


def children_hash(hashes: Mapping[str, str]) -> str:
    """Return the hash of all children, from their hashes by name."""
    return content_hash(sorted(hashes.items()))


def tree_hash(self_hash: str, hashes: Mapping[str, str]) -> str:
    """Return the hash of a namespace with its children, from their hashes by name."""
    return content_hash([self_hash, children_hash(hashes)]) if hashes else self_hash


def method_schema(method: Method, activation: Activation, path: str) -> MethodSchema:
    """Return the schema of a method."""
    schema: dict[str, Any] = {
        "name": method.name,
        "description": method.description,
        "params": method.params_schema,
        "returns": method.returns_schema,
        "streaming": method.streaming,
        "bidirectional": method.bidirectional,
    }
    if method.details:
        schema["long_description"] = method.details
    produced = [
        entry
        for handle in method.produces
        for entry in activation.resolvers.values()
        if entry.handle is handle
    ]
    if produced:
        schema["handle_schema"] = handle_schema(produced[0], activation, path)
        schema["produces"] = [
            f"{path}@{activation.version}::{entry.handle.method}" for entry in produced
        ]
    if method.annotations:
        schema["annotations"] = cast(Annotations, dict(method.annotations))
    schema["hash"] = content_hash(schema)
    return cast(MethodSchema, schema)


def handle_schema(entry: Resolver, activation: Activation, path: str) -> HandleSchema:
    """Return the schema of a handle type."""
    return {
        "plugin": path,
        "version": activation.version,
        "method": entry.handle.method,
        "description": (entry.handle.__doc__ or "").strip().partition("\n")[0],
        "meta_fields": entry.handle.meta_fields(),
        "kind": entry.handle.kind,
        "resolve_schema": entry.resolve_schema,
    }
