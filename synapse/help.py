"""Help from the schema: what a hub, a namespace and a method can do, as plain text."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from synapse.example import HANDLE, arguments
from synapse.render.safe import clean
from synapse.schemas import Schemas, shown

if TYPE_CHECKING:
    from synapse.cache import Cache

OWN_OPTIONS = """\
Options of synapse itself, anywhere on the line:
  -o, --output auto|json|ndjson|table|raw   how events are printed
  -j, --json          one JSON object a line (= -o ndjson)
  --items             whole stream items
  --fields a,b.c      only these fields
  --raw               only the text of each event
  --params JSON       parameters as one JSON object; also @file or - for stdin
  --timeout SECONDS   give up after that
  --answer TEXT       answer a question; repeatable      -y, --yes    say yes
  --no-input          never ask
  --dry-run           print the request instead of sending it
  --schema            print the schema
  --hub NAME|URL      another hub ($SYNAPSE_HUB); with --token-file FILE ($SYNAPSE_TOKEN)
  --home DIR          the local hub of that home
  --no-autostart      do not start a daemon
  -h, --help          this help                          --version"""

EXIT_STATUS = """\
Exit status: 0 done, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 no daemon or unavailable,
6 timeout, 7 conflict, 8 the chat waits for approval or was denied, 9 version mismatch,
130 interrupted."""


def fitted(text: str) -> str:
    """Help as the terminal can show it: nothing that it would obey, lines no longer than it is.

    Examples stay in one piece, so that they can be copied.
    """
    text = clean(text)
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        line if len(line) <= width or line.startswith("  synapse ") else _folded(line, width)
        for line in text.split("\n")
    )


def _folded(line: str, width: int) -> str:
    indent = " " * min(len(line) - len(line.lstrip()) + 4, width // 2)
    return textwrap.fill(
        line, width, subsequent_indent=indent, replace_whitespace=False, break_on_hyphens=False
    )


def root_help(cache: Cache) -> str:
    """Everything there is: the tree of namespaces with one line each."""
    lines = ["synapse NAMESPACE… METHOD [--param value]…", "", "Namespaces:"]
    rows = [(cache.root, cache.describe(cache.root))]
    rows += _tree_rows(cache, "", 0)
    rows.append(("self", "synapse itself: status, doctor, schema, cache, completion, version"))
    width = max(len(name) for name, _ in rows)
    lines += [f"  {name:<{width}}  {description}" for name, description in rows]
    lines += ["", "synapse NAMESPACE --help shows its methods.", "", OWN_OPTIONS, "", EXIT_STATUS]
    return "\n".join(lines)


def _tree_rows(cache: Cache, path: str, depth: int) -> list[tuple[str, str]]:
    rows = []
    for name in cache.children(path):
        below = f"{path}.{name}" if path else name
        rows.append(("  " * depth + name, cache.describe(below)))
        rows += _tree_rows(cache, below, depth + 1)
    return rows


def namespace_help(cache: Cache, path: str) -> str:
    """The methods and children of one namespace."""
    schema = cache.namespace(path)
    lines = [f"{path} - {schema['description']}"]
    if schema.get("long_description"):
        lines += ["", schema["long_description"]]
    methods = [(shown(name), cache.describe_method(path, name)) for name in cache.methods(path)]
    lines += _section("Methods:", methods)
    if path != cache.root:
        children = [(name, cache.describe(f"{path}.{name}")) for name in cache.children(path)]
        lines += _section("Namespaces:", children)
    handles = [
        (f"{path}@{schema['version']}::{entry['method']}", entry["description"])
        for entry in schema.get("handles", [])
    ]
    lines += _section("Handles:", handles)
    if methods:
        words = " ".join(path.split("."))
        lines += ["", f"synapse {words} {methods[0][0]} --help shows one method."]
    return "\n".join(lines)


def method_help(cache: Cache, path: str, name: str) -> str:
    """One method, as seed 002 lays it out."""
    schema = cache.method(path, name)
    command = " ".join((*path.split("."), shown(name)))
    lines = [f"{path}.{name} - {schema['description']}"]
    if schema.get("long_description"):
        lines += ["", schema["long_description"]]
    aliases = schema.get("annotations", {}).get("aliases", {})
    rows = [
        _parameter_row(schema["params"], entry, aliases.get(entry, []))
        for entry in _parameters(schema["params"])
    ]
    lines += _section("Parameters:", rows)
    returned = returns_name(schema["returns"])
    lines += ["", f"Returns: {f'Stream[{returned}]' if schema['streaming'] else returned}"]
    lines += [f"  {line}" for line in _event_lines(schema["returns"])]
    handles = {
        f"{path}@{entry['version']}::{entry['method']}": entry
        for entry in cache.namespace(path).get("handles", [])
    }
    for produced in schema.get("produces", []):
        lines += _handle_lines(produced, handles.get(produced) or schema["handle_schema"])
    example = arguments(schema["params"])
    if example is not None:
        if HANDLE in example:
            example = example.replace(HANDLE, sample_handle(cache))
        lines += ["", "Example:", f"  synapse {command}{example}"]
    return "\n".join(lines)


def _section(title: str, rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    width = max(len(name) for name, _ in rows)
    return ["", title, *(f"  {name:<{width}}  {text}".rstrip() for name, text in rows)]


def _parameters(params: dict[str, Any]) -> list[str]:
    required = params.get("required", [])
    return sorted(params.get("properties", {}), key=lambda name: name not in required)


def _parameter_row(params: dict[str, Any], name: str, aliases: list[str]) -> tuple[str, str]:
    schema = params["properties"][name]
    kind = type_name(schema, params)
    flag = f"--{shown(name)}/--no-{shown(name)}" if kind == "boolean" else f"--{shown(name)} {kind}"
    text = schema.get("description", "")
    choice = [option for entry in params.get("oneOf", []) for option in entry["required"]]
    if name in params.get("required", []):
        text = f"{text} (required)".strip()
    elif name in choice:
        flags = ", ".join(f"--{shown(option)}" for option in choice)
        text = f"{text} (give one of {flags})".strip()
    elif schema.get("default") not in (None, ""):
        text = f"{text} (default: {schema['default']})".strip()
    if aliases:
        text = f"{text} (also {', '.join(f'--{shown(alias)}' for alias in aliases)})".strip()
    return flag, text


def type_name(schema: dict[str, Any], root: dict[str, Any]) -> str:
    """What to write for a value of this schema."""
    schema = Schemas(root).resolve(schema)
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    union = schema.get("anyOf") or schema.get("oneOf")
    if union:
        names = [type_name(entry, root) for entry in union]
        return "|".join(name for name in dict.fromkeys(names) if name != "null") or "null"
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        return f"{type_name(items, root) if isinstance(items, dict) else 'value'}…"
    if schema.get("format") and kind == "string":
        return str(schema["format"]).replace("plexus-handle", "handle")
    return {"string": "text", None: "value"}.get(kind, str(kind))


def returns_name(returns: dict[str, Any]) -> str:
    """The names of the events."""
    tags = [tag for tag, _ in _events(returns)]
    return " | ".join(tags) or "object"


def _events(returns: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for entry in returns.get("oneOf") or returns.get("anyOf") or [returns]:
        schema = Schemas(returns).resolve(entry)
        tag = schema.get("properties", {}).get("type", {}).get("const")
        if tag:
            found.append((str(tag), schema))
    return found


def _event_lines(returns: dict[str, Any]) -> list[str]:
    lines = []
    for tag, schema in _events(returns):
        fields = (
            f"{name}: {_field_type(field, returns)}"
            for name, field in schema["properties"].items()
            if name != "type"
        )
        lines.append(f"{tag} {{{', '.join(fields)}}}")
    return lines


def _field_type(schema: dict[str, Any], root: dict[str, Any]) -> str:
    """The type of a field as seed 002 writes it: `string?` where it may be missing."""
    schema = Schemas(root).resolve(schema)
    union = schema.get("anyOf") or schema.get("oneOf")
    if union:
        names = [_field_type(entry, root) for entry in union]
        plain = "|".join(name for name in dict.fromkeys(names) if name != "null")
        return f"{plain}?" if "null" in names else plain
    if schema.get("format") == "plexus-handle":
        return "handle"
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        return f"[{_field_type(schema['items'], root)}]"
    return str(schema.get("const") or schema.get("type") or "value")


def _handle_lines(produced: str, handle: dict[str, Any]) -> list[str]:
    lines = ["", f"Produces handles: {produced}"]
    for field in handle["meta_fields"]:
        prefix = f" (prefix: {field['prefix']})" if field.get("prefix") else ""
        lines.append(f"  meta[{field['index']}]: {field['name']}{prefix}")
    resolved = handle["resolve_schema"]
    lines += ["", f"  Resolve returns: {returns_name(resolved)} ({handle['kind']})"]
    for _, schema in _events(resolved):
        lines += [
            f"    {name}: {_field_type(field, resolved)}"
            for name, field in schema["properties"].items()
            if name != "type"
        ]
    return lines


def sample_handle(cache: Cache) -> str:
    """A handle to show the form; of a type without ids, if there is one: nobody can guess those."""
    found: list[tuple[int, str]] = []
    for path in cache.paths():
        for entry in cache.namespace(path).get("handles", []):
            needed = [field["name"] for field in entry["meta_fields"] if field["required"]]
            guesses = sum(name.endswith("id") for name in needed)
            meta = ":hello" * len(needed)
            found.append((guesses, f"{path}@{entry['version']}::{entry['method']}{meta}"))
    return min(found)[1] if found else HANDLE
