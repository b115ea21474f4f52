"""The hub's methods as MCP tools. Pure: schemas in, tool definitions out.

A method whose schema some client would choke on is left out and reported: one bad plugin must
not cost a client the whole list.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import unquote

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Tool, ToolAnnotations

from hubd.mcp.access import Facts, offered
from hubd.mcp.metaschema import problem_of
from hubd.plexus.hub import Hub
from hubd.plexus.namespace import UNIVERSAL_METHODS, resolves
from hubd.wire.schema import JsonSchema, MethodSchema

# Clients put `mcp__plexus__` in front, and the APIs of models take 64 characters.
MAX_NAME: Final = 50
# No dots: those are for paths.
_OWN_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}")
# What APIs of models accept as the name of a parameter.
_PARAMETER: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Deeper than any type a person writes, and shallow enough for readers that recurse into it.
MAX_NESTING: Final = 50
MAX_SCHEMA_BYTES: Final = 256 * 1024
# An error about an unknown tool names at most so many in its text.
MAX_NAMES: Final = 60

# The formats of JSON Schema itself. Some clients warn of every other one.
_FORMATS: Final = frozenset(
    (
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname"),
        *("idn-hostname", "ipv4", "ipv6", "uri", "uri-reference", "iri", "iri-reference", "uuid"),
        *("uri-template", "json-pointer", "relative-json-pointer", "regex"),
    )
)
# Keywords whose value is a schema or a list of schemas, and those with schemas by name.
_SCHEMAS: Final = frozenset(
    (
        *("items", "prefixItems", "contains", "additionalProperties", "propertyNames", "not"),
        *("allOf", "anyOf", "oneOf", "if", "then", "else", "unevaluatedItems"),
        *("unevaluatedProperties", "contentSchema"),
    )
)
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})

# What the APIs of models refuse at the top of a schema, and what says nothing new there.
_NOT_AT_THE_TOP: Final = ("oneOf", "anyOf", "allOf", "$schema")

# What every result looks like, whatever the method: its events, or the first of them.
_RESULT: Final[Mapping[str, JsonSchema]] = {
    "count": {"type": "integer", "description": "How many events there were"},
    "truncated": {"type": "boolean", "description": "Whether `events` holds only the first ones"},
    "text": {
        "type": "string",
        "description": "The drawing of the only event, or its text if it is too large itself",
    },
    "resource": {"type": "string", "description": "Where all of them can be read, if truncated"},
}


class Unfit(Exception):
    """Why a method cannot be a tool."""


@dataclass(frozen=True)
class HubTool:
    """One method as a tool."""

    namespace: str
    method: str
    tool: Tool
    # Answers one text block and nothing else.
    text_only: bool

    @property
    def path(self) -> str:
        """The hub's path of the method.

        The name of the tool is the same, or has `_` for `.`, or is the one that the method gives
        itself for MCP.
        """
        return f"{self.namespace}.{self.method}"


@dataclass(frozen=True)
class ToolList:
    """The tools of one state of the hub, in the order of their names."""

    tools: Mapping[str, HubTool]
    # By the name in which every separator is `_`.
    by_flat_name: Mapping[str, HubTool]
    # Methods that are no tools, with the reason.
    refused: Mapping[str, str]
    # Methods that every namespace answers and only the root lists, by their flat names: what they
    # are called with, and the root's tool.
    unlisted: Mapping[str, tuple[str, HubTool]] = field(default_factory=dict)
    # Namespaces that a connection is offered only if it asks for them.
    on_request: frozenset[str] = frozenset()

    def offered_to(self, facts: Facts) -> list[Tool]:
        """Those that are listed for a connection."""
        return [
            entry.tool
            for entry in self.tools.values()
            if facts.allows(entry.namespace, entry.method)
            and (facts.profile is not None or not offered(entry.namespace, self.on_request))
        ]

    def find(self, name: str) -> HubTool | None:
        """The tool of this name, in either spelling."""
        if name in self.refused:
            return None  # not the one that has its name without dots
        flat_name = _flat(name)
        found = self.tools.get(name) or self.by_flat_name.get(flat_name)
        if found is None and flat_name in self.unlisted:
            namespace, tool = self.unlisted[flat_name]
            return replace(tool, namespace=namespace)
        return found


def all_methods(hub: Hub) -> list[tuple[str, MethodSchema]]:
    """Every method with its namespace, in the order of their paths."""
    found = [(node.path, method) for node in hub.root.walk() for method in node.schema["methods"]]
    return sorted(found, key=lambda pair: (pair[0], pair[1]["name"]))


def namespaces_on_request(hub: Hub) -> frozenset[str]:
    """The namespaces of plugins that are offered only to those who ask for them."""
    return frozenset(node.path for node in hub.root.walk() if node.activation.mcp_on_request)


def with_unlisted(listed: ToolList, hub: Hub) -> ToolList:
    """The same tools, and those that every namespace answers though only the root lists them."""
    unlisted: dict[str, tuple[str, HubTool]] = {}
    for method in UNIVERSAL_METHODS:
        tool = listed.find(f"{hub.name}.{method}")
        for node in hub.root.walk():
            if tool is not None and (method != "resolve_handle" or resolves(node)):
                unlisted[_flat(f"{node.path}.{method}")] = (node.path, tool)
    return replace(listed, unlisted=unlisted, on_request=namespaces_on_request(hub))


def list_tools(methods: Iterable[tuple[str, MethodSchema]], separator: str = ".") -> ToolList:
    """Those methods that can be tools. Takes a few milliseconds for each: run it in a thread."""
    tools: dict[str, HubTool] = {}
    flat: dict[str, HubTool] = {}
    refused: dict[str, str] = {}
    # Those with a name of their own last: none of them takes the name that is another's path.
    for namespace, method in sorted(methods, key=lambda pair: _own_name(pair[1]) is not None):
        path = f"{namespace}.{method['name']}"
        own_name = _own_name(method)
        flat_name = _flat(path) if own_name is None else str(own_name)
        try:
            if own_name is not None and not _OWN_NAME.fullmatch(str(own_name)):
                raise Unfit(f"its name for MCP is not 1 to {MAX_NAME} letters, digits, '_' or '-'")
            if flat_name in flat:
                raise Unfit(f"without its dots its name is that of {flat[flat_name].path}")
            tool = _tool(path if own_name is None else flat_name, method, separator)
        except Unfit as error:
            refused[path] = str(error)
            continue
        text_only = bool(method.get("annotations", {}).get("mcp", {}).get("text_only"))
        tools[tool.name] = flat[flat_name] = HubTool(namespace, method["name"], tool, text_only)
    return ToolList(tools, flat, refused)


def no_such_tool(name: str, names: Sequence[str]) -> MCPError:
    """The error for a tool that is not there: the nearest names, and those that are there."""
    flat = {_flat(one).lower(): one for one in names}
    matches = get_close_matches(_flat(name[:100]).lower(), flat, n=3, cutoff=0.6)
    nearest = [flat[match] for match in matches]
    advice = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
    separator = "." if "." in name else "_"
    namespace = name[:100].rpartition(separator)[0]
    beside = [one for one in names if one.startswith(f"{namespace}{separator}")]
    listed = beside if namespace and beside else names
    shown = ", ".join(listed[:MAX_NAMES]) + (", …" if len(listed) > MAX_NAMES else "")
    return MCPError(
        INVALID_PARAMS,
        f"no tool '{name[:200]}'.{advice} Available: {shown}",
        data={"nearest": nearest, "available": list(names)},
    )


def _own_name(method: MethodSchema) -> object:
    """How a method wants to be called over MCP, if not by its path."""
    return method.get("annotations", {}).get("mcp", {}).get("name")


def _flat(name: str) -> str:
    return name.replace(".", "_")


def _tool(name: str, method: MethodSchema, separator: str) -> Tool:
    if len(name) > MAX_NAME:
        raise Unfit(f"its name is longer than the {MAX_NAME} characters that clients take")
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
    """The parameters as every client takes them, and in words what had to be left out.

    The APIs of models refuse alternatives at the top of a tool's schema.
    """
    _check(schema)
    strange = [name for name in schema.get("properties", {}) if not _PARAMETER.fullmatch(name)]
    if strange:
        raise Unfit(f"no API of a model takes a parameter called {strange[0][:100]!r}")
    standard = standard_formats(schema)
    plain = {name: part for name, part in standard.items() if name not in _NOT_AT_THE_TOP}
    plain["type"] = "object"
    plain.setdefault("properties", {})
    return plain, _advice(schema)


def _advice(schema: JsonSchema) -> str:
    """What the alternatives at the top of a method's parameters say, if it is a simple thing."""
    alternatives = [
        part["required"][0]
        for part in schema.get("oneOf", [])
        if isinstance(part, dict) and part.keys() == {"required"} and len(part["required"]) == 1
    ]
    if len(alternatives) < len(schema.get("oneOf", [])) or not alternatives:
        return ""
    return f"Give exactly one of {', '.join(alternatives)}."


def _result(returns: JsonSchema) -> JsonSchema:
    _check(returns)
    returns = standard_formats(returns)
    event = {name: part for name, part in returns.items() if name not in ("$defs", "$schema")}
    schema: JsonSchema = {
        "type": "object",
        "properties": {"events": {"type": "array", "items": event}, **_RESULT},
        "required": ["events", "count", "truncated"],
    }
    if "$defs" in returns:
        # A reference says where it leads from the top of the whole schema.
        schema["$defs"] = returns["$defs"]
    return schema


def standard_formats(schema: Any) -> Any:
    """Return a schema without the formats that JSON Schema does not define."""
    if isinstance(schema, list):
        return [standard_formats(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS and isinstance(value, dict):
            kept[keyword] = {name: standard_formats(part) for name, part in value.items()}
        elif keyword in _SCHEMAS:
            kept[keyword] = standard_formats(value)
        elif keyword != "format" or value in _FORMATS:
            kept[keyword] = value
    return kept


def _check(schema: JsonSchema) -> None:
    """Refuse what is no JSON Schema, leads outside, or is too much for a reader."""
    _check_shape(schema)
    try:
        problem = problem_of(schema)
    except RecursionError:
        raise Unfit("its schema is nested too deep to be checked") from None
    if problem is not None:
        raise Unfit(f"its schema is no JSON Schema: {problem[:200]}")


def _check_shape(schema: JsonSchema) -> None:
    definitions = schema.get("$defs")
    known = definitions if isinstance(definitions, dict) else {}
    # Not recursive: the nesting is just what is in question.
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
                    _check_reference(name, below, known)
                size += len(name)
                left.append((below, depth + 1))
        elif isinstance(part, list):
            left.extend((below, depth + 1) for below in part)


def _check_reference(keyword: str, reference: str, known: Mapping[str, Any]) -> None:
    """A reference must lead to a definition in the schema: nobody fetches one for us."""
    if keyword in ("$ref", "$dynamicRef"):
        name = unquote(reference.removeprefix("#/$defs/"))
        if (
            not reference.startswith("#/$defs/")
            or "/" in name
            or name.replace("~1", "/").replace("~0", "~") not in known
        ):
            raise Unfit(f"its schema refers to {reference[:100]!r}, which is not in its $defs")
    elif keyword == "$id":
        # It would say where references begin.
        raise Unfit(f"its schema has an address of its own: {reference[:100]!r}")
