"""Activations to schemas, and the hashes over them. Pure: looks at classes, calls nothing."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from hubd.activation.base import Activation
from hubd.activation.method import Method, Resolver
from hubd.wire.schema import HandleSchema, MethodSchema, PluginSchema, content_hash


def plugin_schema(
    activation: Activation,
    path: str,
    plugin_id: UUID,
    children: Mapping[str, PluginSchema],
) -> PluginSchema:
    """The shallow schema of one namespace."""
    described = [method_schema(entry, activation, path) for entry in activation.methods.values()]
    handles = [handle_schema(entry, activation, path) for entry in activation.resolvers.values()]
    own: dict[str, Any] = {
        "namespace": path,
        "version": activation.version,
        "description": activation.description,
        "long_description": activation.details,
        "methods": sorted(method["hash"] for method in described),
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
        "methods": described,
        "handles": handles,
    }
    if activation.details:
        schema["long_description"] = activation.details
    if children:
        below = sorted((name, child["hash"]) for name, child in children.items())
        schema["children_hash"] = content_hash(below)
        schema["hash"] = content_hash([self_hash, schema["children_hash"]])
        schema["children"] = [
            {"namespace": name, "description": children[name]["description"], "hash": child_hash}
            for name, child_hash in below
        ]
    return schema


def method_schema(method: Method, activation: Activation, path: str) -> MethodSchema:
    """The schema of one method."""
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
        schema["annotations"] = dict(method.annotations)
    hashed: MethodSchema = {**schema, "hash": content_hash(schema)}  # type: ignore[typeddict-item]
    return hashed


def handle_schema(entry: Resolver, activation: Activation, path: str) -> HandleSchema:
    """The schema of one handle type."""
    return {
        "plugin": path,
        "version": activation.version,
        "method": entry.handle.method,
        "description": (entry.handle.__doc__ or "").strip().partition("\n")[0],
        "meta_fields": entry.handle.meta_fields(),
        "kind": entry.handle.kind,
        "resolve_schema": entry.resolve_schema,
    }
