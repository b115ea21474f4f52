"""The JSON shapes of the hub's schema, and its hashes.

A hash is the first 16 hex digits of the SHA-256 of canonical JSON. It is the same in every process
and on every machine, and does not depend on the order of registration.
"""

import hashlib
import json
from typing import Any, Final, NotRequired, Required, TypedDict

HASH_LENGTH: Final = 16

JsonSchema = dict[str, Any]

# The JSON Schema format of strings that are handles.
HANDLE_FORMAT: Final = "plexus-handle"


class MetaField(TypedDict):
    """One meta value of a handle type."""

    name: str
    index: int
    prefix: NotRequired[str]
    required: bool
    description: NotRequired[str]


class HandleSchema(TypedDict):
    """One handle type: its meta values and the type of its data."""

    plugin: str
    version: str
    method: str
    description: str
    meta_fields: list[MetaField]
    kind: str
    resolve_schema: JsonSchema


class SlashCommand(TypedDict, total=False):
    """A command at the prompt of an interactive method: it calls a method, or sets a parameter."""

    # The path of the method. It gets the parameters of the conversation that it has, too.
    method: str
    # The method's parameter that takes the rest of the line.
    argument: str
    # A method whose only event has values for further parameters, by their names.
    values_from: str
    # The parameters of the conversation that change, each with the field of the method's event.
    switches: dict[str, str]
    # Instead of a method: the parameter of the conversation that takes the rest of the line.
    param: str


class InteractiveHint(TypedDict, total=False):
    """The method can be repeated at a prompt."""

    # The parameter that is asked for at the prompt.
    param: Required[str]
    # The method that ends a running turn; without it the connection is closed.
    cancel: str
    # The commands by their names, without the slash.
    commands: dict[str, SlashCommand]


class Annotations(TypedDict, total=False):
    """The hints of a method; each is absent unless the plugin gives it."""

    read_only: bool
    destructive: bool
    # The method uses the caller context.
    needs_context: bool
    # An agent's session may call the method without a grant.
    open_to_sessions: bool
    # The view of the events: tree, chat, table, text or process.
    render: str
    # The order in overviews: from 1 to 100, the most useful first.
    weight: int
    # The method can be repeated at a prompt that asks for a parameter.
    interactive: InteractiveHint
    # The method that lists the values of a parameter, by parameter.
    completes: dict[str, str]
    # The other names of a parameter, by parameter.
    aliases: dict[str, list[str]]
    # Hints for MCP clients.
    mcp: dict[str, Any]


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
    annotations: NotRequired[Annotations]


class ChildSummary(TypedDict):
    """A child in its parent's schema; `namespace` is one segment."""

    namespace: str
    description: str
    hash: str


class PluginSchema(TypedDict):
    """One namespace. Its children are only summaries."""

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
    """Return canonical JSON, the input of hashes."""
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode()


def content_hash(value: object) -> str:
    """Return the short hash of a JSON value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:HASH_LENGTH]
