"""The hub's methods as MCP tools. Pure: schemas in, tool definitions out.

A method whose schema some clients reject is left out and reported, so that one bad plugin does
not cost a client the whole list.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final
from urllib.parse import unquote

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import X_MCP_HEADER_KEY
from mcp_types import INVALID_PARAMS, Tool, ToolAnnotations
from pydantic_core import to_json

from hubd.mcp.access import Access
from hubd.mcp.metaschema import problem_of
from hubd.plexus.hub import Hub
from hubd.plexus.namespace import UNIVERSAL_METHODS, resolves
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.schema import JsonSchema, MethodSchema
from hubd.wire.summary import KEYWORDS, SUMMARY_KEYWORD
from hubd.wire.text import nearest_names, suggestion

# Clients prepend `mcp__plexus__`, and model APIs accept 64 characters.
MAX_NAME: Final = 50
# Without dots, which separate the parts of paths.
_DECLARED_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}")
# The names of parameters that model APIs accept.
_PARAMETER: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Deeper than any hand-written type, and shallow enough for recursive readers.
MAX_NESTING: Final = 50
MAX_SCHEMA_BYTES: Final = 256 * 1024
# The most tools that the error for an unknown tool names in its text.
MAX_NAMES: Final = 60
# A parameter with this keyword, as JSON, is repeated in a header.
_HEADER_KEY: Final = f'"{X_MCP_HEADER_KEY}"'.encode()

# The formats that JSON Schema defines. Some clients warn about every other one.
_FORMATS: Final = frozenset(
    (
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname"),
        *("idn-hostname", "ipv4", "ipv6", "uri", "uri-reference", "iri", "iri-reference", "uuid"),
        *("uri-template", "json-pointer", "relative-json-pointer", "regex"),
    )
)
# Keywords that hold a schema or a list of schemas, and those that hold schemas by name.
_SCHEMAS: Final = frozenset(
    (
        *("items", "prefixItems", "contains", "additionalProperties", "propertyNames", "not"),
        *("allOf", "anyOf", "oneOf", "if", "then", "else", "unevaluatedItems"),
        *("unevaluatedProperties", "contentSchema"),
    )
)
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})

# Keywords that model APIs reject at the top of a schema, and `$schema`, which is implied.
_NOT_AT_THE_TOP: Final = ("oneOf", "anyOf", "allOf", "$schema")

# Fields of every result besides `events`.
_RESULT: Final[Mapping[str, JsonSchema]] = {
    "count": {"type": "integer", "description": "Number of events of the call"},
    "truncated": {"type": "boolean", "description": "Whether `events` holds only the first events"},
    "text": {
        "type": "string",
        "description": "Text of the only event, also if the event itself is too large for `events`",
    },
    "resource": {
        "type": "string",
        "description": "URI of all events, if truncated",
    },
}


class Unfit(Exception):
    """The reason why a method cannot be a tool."""


@dataclass(frozen=True)
class HubTool:
    """One method as a tool."""

    namespace: str
    method: str
    tool: Tool
    # Whether its result is one text block and nothing else.
    text_only: bool
    # Templates of its events' lines, by event type.
    summaries: Mapping[str, str] = field(default_factory=dict)
    # Whether headers repeat some of its arguments, so that the SDK has to compare them.
    has_headers: bool = False

    @property
    def path(self) -> str:
        """The path of the method.

        The name of the tool is the same, or has `_` for `.`, or is declared by the method.
        """
        return f"{self.namespace}.{self.method}"


@dataclass(frozen=True)
class ToolList:
    """The tools of one state of the hub, sorted by name."""

    tools: Mapping[str, HubTool]
    # Tools by their names with `_` as separator.
    by_flat_name: Mapping[str, HubTool]
    # Methods that cannot be tools, with the reasons.
    refused: Mapping[str, str]
    # Methods of every namespace that only the root lists, by flat name: the namespace, and the
    # root's tool.
    unlisted: Mapping[str, tuple[str, HubTool]] = field(default_factory=dict)
    # Namespaces that are listed only for connections that ask for them.
    on_request: frozenset[str] = frozenset()

    def offered_to(self, access: Access) -> list[Tool]:
        """Return the tools that are listed for a connection."""
        return [
            entry.tool
            for entry in self.tools.values()
            if access.allows(entry.namespace, entry.method)
            and access.lists(entry.namespace, self.on_request, entry.method)
        ]

    def find(self, name: str) -> HubTool | None:
        """Return the tool with this name, with dots or with `_`."""
        if name in self.refused:
            return None  # another tool may have this name without dots
        flat_name = _flat(name)
        listed = self.tools.get(name) or self.by_flat_name.get(flat_name)
        if listed is None and flat_name in self.unlisted:
            namespace, tool = self.unlisted[flat_name]
            return replace(tool, namespace=namespace)
        return listed


def all_methods(hub: Hub) -> list[tuple[str, MethodSchema]]:
    """Return every method with its namespace, sorted by path."""
    methods = [(node.path, method) for node in hub.root.walk() for method in node.schema["methods"]]
    return sorted(methods, key=lambda pair: (pair[0], pair[1]["name"]))


def namespaces_on_request(hub: Hub) -> frozenset[str]:
    """Return the namespaces that are listed only for connections that ask for them."""
    return frozenset(node.path for node in hub.root.walk() if node.activation.mcp_on_request)


def with_unlisted(listed: ToolList, hub: Hub) -> ToolList:
    """Return the tools with the methods that every namespace has and only the root lists."""
    unlisted: dict[str, tuple[str, HubTool]] = {}
    for method in UNIVERSAL_METHODS:
        tool = listed.find(f"{hub.name}.{method}")
        for node in hub.root.walk():
            if tool is not None and (method != "resolve_handle" or resolves(node)):
                unlisted[_flat(f"{node.path}.{method}")] = (node.path, tool)
    return replace(listed, unlisted=unlisted, on_request=namespaces_on_request(hub))


def list_tools(methods: Iterable[tuple[str, MethodSchema]], separator: str = ".") -> ToolList:
    """Return the methods that can be tools. It takes 2 ms for each, so run it in a thread."""
    tools: dict[str, HubTool] = {}
    flat: dict[str, HubTool] = {}
    refused: dict[str, str] = {}
    # Methods with a declared name last, so that none takes the name of another method's path.
    for namespace, method in sorted(methods, key=lambda pair: _declared_name(pair[1]) is not None):
        path = f"{namespace}.{method['name']}"
        declared_name = _declared_name(method)
        flat_name = _flat(path) if declared_name is None else str(declared_name)
        try:
            if declared_name is not None and not _DECLARED_NAME.fullmatch(str(declared_name)):
                raise Unfit(f"its name for MCP must be 1 to {MAX_NAME} letters, digits, '_' or '-'")
            if flat_name in flat:
                raise Unfit(f"without dots its name equals that of {flat[flat_name].path}")
            tool = _tool(path if declared_name is None else flat_name, method, separator)
        except Unfit as error:
            refused[path] = str(error)
            continue
        text_only = bool(method.get("annotations", {}).get("mcp", {}).get("text_only"))
        summaries = _summaries(method["returns"])
        has_headers = _HEADER_KEY in to_json(tool.input_schema)
        tools[tool.name] = flat[flat_name] = HubTool(
            namespace, method["name"], tool, text_only, summaries, has_headers
        )
    return ToolList(tools, flat, refused)


def no_such_tool(name: str, names: Sequence[str]) -> MCPError:
    """Return the error for an unknown tool, with the nearest names and those that exist."""
    flat = {_flat(one): one for one in names}
    nearest = [flat[near] for near in nearest_names(_flat(name[:100]), flat, 3)]
    advice = f" {suggestion(nearest)}" if nearest else ""
    separator = "." if "." in name else "_"
    namespace = name[:100].rpartition(separator)[0]
    siblings = [one for one in names if one.startswith(f"{namespace}{separator}")]
    listed = siblings if namespace and siblings else names
    available = ", ".join(listed[:MAX_NAMES]) + (", …" if len(listed) > MAX_NAMES else "")
    return MCPError(
        INVALID_PARAMS,
        f"no tool '{name[:200]}'.{advice} Available: {available}",
        data={"nearest": nearest, "available": list(names)},
    )


def _declared_name(method: MethodSchema) -> object:
    """Return the tool name that a method declares, if any."""
    return method.get("annotations", {}).get("mcp", {}).get("name")


def _flat(name: str) -> str:
    return name.replace(".", "_")


def _tool(name: str, method: MethodSchema, separator: str) -> Tool:
    if len(name) > MAX_NAME:
        raise Unfit(f"its name is longer than {MAX_NAME} characters")
    hints = method.get("annotations", {})
    text_only = hints.get("mcp", {}).get("text_only")
    parameters, advice = _parameters(method["params"])
    description = "\n\n".join(
        part for part in (method["description"], method.get("long_description"), advice) if part
    )
    return Tool(
        name=name if separator == "." else name.replace(".", separator),
        description=description,
        input_schema=parameters,
        output_schema=None if text_only else _result(method["returns"]),
        annotations=ToolAnnotations(
            read_only_hint=bool(hints.get("read_only")),
            destructive_hint=bool(hints.get("destructive")),
        ),
    )


def _parameters(schema: JsonSchema) -> tuple[JsonSchema, str]:
    """Return the parameters as every client accepts them, and the removed rules in words.

    Model APIs reject alternatives (`oneOf`, `anyOf`) at the top of a tool's schema.
    """
    _check(schema)
    invalid = [name for name in schema.get("properties", {}) if not _PARAMETER.fullmatch(name)]
    if invalid:
        raise Unfit(f"model APIs reject the parameter name {invalid[0][:100]!r}")
    published = for_clients(schema)
    plain = {name: part for name, part in published.items() if name not in _NOT_AT_THE_TOP}
    plain["type"] = "object"
    plain.setdefault("properties", {})
    return plain, _advice(schema)


def _advice(schema: JsonSchema) -> str:
    """Return a sentence for alternatives at the top, if each requires one parameter."""
    keyword, number = ("oneOf", "exactly") if "oneOf" in schema else ("anyOf", "at least")
    choices = schema.get(keyword, [])
    alternatives = [
        part["required"][0]
        for part in choices
        if isinstance(part, dict) and part.keys() == {"required"} and len(part["required"]) == 1
    ]
    if len(alternatives) < len(choices) or not alternatives:
        return ""
    return f"Give {number} one of {', '.join(alternatives)}."


def _result(returns: JsonSchema) -> JsonSchema:
    _check(returns)
    returns = for_clients(returns)
    event = {name: part for name, part in returns.items() if name not in ("$defs", "$schema")}
    schema: JsonSchema = {
        "type": "object",
        "properties": {"events": {"type": "array", "items": event}, **_RESULT},
        "required": ["events", "count", "truncated"],
    }
    if "$defs" in returns:
        # References start at the top of the whole schema.
        schema["$defs"] = returns["$defs"]
    return schema


def for_clients(schema: Any) -> Any:
    """Return a schema without the formats and keywords that JSON Schema does not define.

    TypeScript clients warn about each of them.
    """
    if isinstance(schema, list):
        return [for_clients(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS and isinstance(value, dict):
            kept[keyword] = {name: for_clients(part) for name, part in value.items()}
        elif keyword in _SCHEMAS:
            kept[keyword] = for_clients(value)
        elif keyword not in KEYWORDS and (keyword != "format" or value in _FORMATS):
            kept[keyword] = value
    return kept


def _summaries(schema: Any) -> dict[str, str]:
    """Return the templates in the schema of events, by event type."""
    summaries: dict[str, str] = {}
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, list):
            left.extend(part)
        elif isinstance(part, dict):
            template = part.get(SUMMARY_KEYWORD)
            properties = part.get("properties")
            if isinstance(template, str) and isinstance(properties, dict):
                tag = properties.get("type")
                summaries[str(tag.get("const") if isinstance(tag, dict) else None)] = template
            left.extend(part.values())
    return summaries


def _check(schema: JsonSchema) -> None:
    """Refuse a value that is not a JSON Schema, refers to other documents, or is too large."""
    _check_shape(schema)
    try:
        problem = problem_of(schema)
    except RecursionError:
        raise Unfit("its schema is nested too deeply to be checked") from None
    if problem is not None:
        raise Unfit(f"its schema is not a valid JSON Schema: {problem[:200]}")


def _check_shape(schema: JsonSchema) -> None:
    definitions = schema.get("$defs")
    defined = definitions if isinstance(definitions, dict) else {}
    # Not recursive, because the schema may be nested too deeply.
    left: list[tuple[Any, int]] = [(schema, 0)]
    size = 0
    while left:
        part, depth = left.pop()
        if depth > MAX_NESTING:
            raise Unfit(f"its schema is nested deeper than {MAX_NESTING}")
        size += len(part) if isinstance(part, str) else 8
        if size > MAX_SCHEMA_BYTES:
            raise Unfit(f"its schema is larger than {MAX_SCHEMA_BYTES} bytes")
        if isinstance(part, dict):
            for name, below in part.items():
                if isinstance(below, str):
                    _check_reference(name, below, defined)
                size += len(name)
                left.append((below, depth + 1))
        elif isinstance(part, list):
            left.extend((below, depth + 1) for below in part)


def _check_reference(keyword: str, reference: str, defined: Mapping[str, Any]) -> None:
    """Refuse a reference that does not lead to a definition in the same schema."""
    if keyword in ("$ref", "$dynamicRef"):
        name = unquote(reference.removeprefix("#/$defs/"))
        if (
            not reference.startswith("#/$defs/")
            or "/" in name
            or name.replace("~1", "/").replace("~0", "~") not in defined
        ):
            raise Unfit(f"its schema refers to {reference[:100]!r}, which is not in its $defs")
    elif keyword == "$id":
        # It would change the base of references.
        raise Unfit(f"its schema has an $id: {reference[:100]!r}")
