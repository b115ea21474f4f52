"""The shapes in which the hub describes itself, and the hashes that tell when they change.

A schema is plain JSON. A hash is the first 16 hex digits of the SHA-256 of canonical JSON, so
it is the same in every process and on every machine, whatever the order of registration.
"""

import hashlib
import json
from typing import Any, Final, NotRequired, TypedDict

HASH_LENGTH: Final = 16

JsonSchema = dict[str, Any]

# A string that is a handle says so by this JSON Schema format.
HANDLE_FORMAT: Final = "plexus-handle"


class MetaField(TypedDict):
    """One meta value of a handle type."""

    name: str
    index: int
    prefix: NotRequired[str]
    required: bool
    description: NotRequired[str]


class HandleSchema(TypedDict):
    """One handle type: what its meta values mean and what resolving gives."""

    plugin: str
    version: str
    method: str
    description: str
    meta_fields: list[MetaField]
    kind: str
    resolve_schema: JsonSchema


class MethodSchema(TypedDict):
    """One method."""

    name: str
    description: str
    long_description: NotRequired[str]
    hash: str
    params: JsonSchema
    returns: JsonSchema
    streaming: bool
    bidirectional: bool
    handle_schema: NotRequired[HandleSchema]
    produces: NotRequired[list[str]]
    annotations: NotRequired[dict[str, Any]]


class ChildSummary(TypedDict):
    """A child in its parent's schema; `namespace` is one segment."""

    namespace: str
    description: str
    hash: str


class PluginSchema(TypedDict):
    """One namespace. Shallow: children are summaries, asked for one by one."""

    namespace: str
    version: str
    description: str
    long_description: NotRequired[str]
    plugin_id: str
    self_hash: str
    children_hash: NotRequired[str]
    hash: str
    methods: list[MethodSchema]
    children: NotRequired[list[ChildSummary]]
    handles: list[HandleSchema]


def canonical_json(value: object) -> bytes:
    """JSON in the one form that hashes are taken of."""
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode()


def content_hash(value: object) -> str:
    """The short hash of any JSON value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:HASH_LENGTH]
