"""Help from the schema: what a hub, a namespace and a method can do, as plain text."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from hubd.wire.terminal import clean
from synapse.example import HANDLE, TEXTS, arguments, is_id, needed
from synapse.schemas import Schemas, one_of, shown

if TYPE_CHECKING:
    from synapse.cache import Cache

USAGE = "synapse NAMESPACE… METHOD [--param value]…"

OWN_OPTIONS = """\
Options of synapse itself, anywhere on the line:
  -o, --output auto|json|ndjson|table|raw   how events are printed
  -j, --json          one JSON object a line (= -o ndjson)
  --items             whole stream items
  --fields a,b.c      only these fields
  --raw               only the text of the answer (= -o raw)
  --params JSON       parameters as one JSON object; also @file or - for stdin
  --timeout SECONDS   give up after that
  --answer TEXT       answer a question; repeatable      -y, --yes    answer yes/no questions
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


def own_help() -> str:
    """Return the help of synapse itself, without a hub."""
    start = "The hub's namespaces are not known yet, because no daemon runs. Start it: hubd start"
    return "\n".join((USAGE, "", start, "", OWN_OPTIONS, "", EXIT_STATUS))


def root_help(cache: Cache) -> str:
    """Everything there is: the tree of namespaces with one line each."""
    lines = [USAGE, "", "Namespaces:"]
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
        (f"{path}@{schema['version']}::{entry.get('method')}", entry.get("description", ""))
        for entry in schema.get("handles", [])
    ]
    lines += _section("Handles:", handles)
    if methods:
        words = " ".join(path.split("."))
        lines += ["", f"synapse {words} {methods[0][0]} --help shows one method."]
    return "\n".join(lines)


def method_help(cache: Cache, path: str, name: str) -> str:
    """Return the help of one method: parameters, events, handles, an example."""
    schema = cache.method(path, name)
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
        f"{path}@{entry.get('version')}::{entry.get('method')}": entry
        for entry in cache.namespace(path).get("handles", [])
    }
    for produced in schema.get("produces", []):
        handle = handles.get(produced) or schema.get("handle_schema") or {}
        lines += _handle_lines(produced, handle)
    if example := _example(cache, path, name):
        lines += ["", "Example:", *(f"  {line}" for line in example)]
    return "\n".join(lines)


def usage(cache: Cache, path: str, name: str) -> str:
    """Return one line with what must be given to a method."""
    params = cache.method(path, name)["params"]
    words = ["synapse", *path.split("."), shown(name)]
    words += [_usage_of(params, entry) for entry in params.get("required", [])]
    choice = [_usage_of(params, entry) for entry in one_of(params)]
    return " ".join((*words, f"({' | '.join(choice)})") if choice else words)


def _usage_of(params: dict[str, Any], name: str) -> str:
    kind = type_name(params["properties"].get(name, {}), params)
    if kind == "boolean":
        return f"--{shown(name)}"
    if kind == "text" and name.endswith(("name", "identifier")):
        kind = "name"
    elif kind in ("text", "uuid") and name.endswith("id"):
        kind = "id"
    word = kind if "|" in kind else kind.upper().replace("INTEGER", "NUMBER")
    return f"--{shown(name)} {word}"


def _example(cache: Cache, path: str, name: str) -> list[str]:
    """Return the commands of an example; none if the values can't be guessed."""
    schema = cache.method(path, name)
    hints = schema.get("annotations", {})
    completes, is_destructive = hints.get("completes", {}), hints.get("destructive")
    before: list[str] = []
    existing: dict[str, str] = {}
    for entry in needed(schema["params"]):
        if entry in completes:
            space, _, lister = str(completes[entry]).rpartition(".")
            if made := _made(cache, space):
                before, existing[entry] = [made], TEXTS[0]
            # A copied example must not remove the first thing in a list.
            elif not is_destructive and (listed := _listed(cache, space, lister, entry)):
                existing[entry] = listed
    example = arguments(schema["params"], existing)
    if example is None:
        return []
    if HANDLE in example:
        example = example.replace(HANDLE, sample_handle(cache))
    return [*before, f"synapse {' '.join((*path.split('.'), shown(name)))}{example}"]


def _made(cache: Cache, space: str) -> str:
    """Return the command that makes a thing with a name, if a namespace has one."""
    if not cache.has_method(space, "create"):
        return ""
    params = cache.method(space, "create")["params"]
    words = " ".join(space.split("."))
    return f"synapse {words} create --name {TEXTS[0]}" if needed(params) == ["name"] else ""


def _listed(cache: Cache, space: str, lister: str, parameter: str) -> str:
    """Return the shell's words for the first id that the hub lists; none for other parameters."""
    if not is_id(parameter) or not cache.has_method(space, lister):
        return ""
    schema = cache.method(space, lister)
    if needed(schema["params"]):
        return ""
    from synapse.render.fields import declared

    fields = declared((parameter, "name", "id"), schema["returns"])
    words = " ".join((*space.split("."), shown(lister)))
    return f'"$(synapse {words} --fields {fields[0]} --raw | head -n 1)"' if fields else ""


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
    choice = one_of(params)
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
    """Return the type of a field, with `?` if it may be null."""
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
    for number, field in enumerate(handle.get("meta_fields") or []):
        prefix = f" (prefix: {field['prefix']})" if field.get("prefix") else ""
        lines.append(f"  meta[{field.get('index', number)}]: {field.get('name', '')}{prefix}")
    resolved = handle.get("resolve_schema") or {}
    kind = handle.get("kind") or "unknown"
    lines += ["", f"  Resolve returns: {returns_name(resolved)} ({kind})"]
    for _, schema in _events(resolved):
        lines += [
            f"    {name}: {_field_type(field, resolved)}"
            for name, field in schema["properties"].items()
            if name != "type"
        ]
    return lines


def sample_handle(cache: Cache) -> str:
    """Return a handle that shows the form; of a type without ids, if there is one."""
    found: list[tuple[int, str]] = []
    for path in cache.paths():
        for entry in cache.namespace(path).get("handles", []):
            fields = entry.get("meta_fields") or []
            names = [str(field.get("name")) for field in fields if field.get("required")]
            guesses = sum(name.endswith("id") for name in names)
            meta = ":hello" * len(names)
            handle = f"{path}@{entry.get('version')}::{entry.get('method')}{meta}"
            found.append((guesses, handle))
    return min(found)[1] if found else HANDLE
