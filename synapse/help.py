"""The help of the hub, of a namespace and of a method, from the cached schema."""

from __future__ import annotations

import sys

from hubd.wire.terminal import clean, one_line
from hubd.wire.text import shorten
from synapse.params.example import HANDLE, TEXTS, arguments, is_id, needed
from synapse.params.schemas import dashed, one_of
from synapse.params.type_names import events, field_type, returns_name, type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubd.wire.schema import HandleSchema, JsonSchema
    from synapse.hub.cache import Cache

# The characters of a default value.
MAX_DEFAULT = 60
# The least columns for the texts of a list beside their names.
MIN_ROOM = 24
USAGE = "synapse NAMESPACE… METHOD [--param value]…"

# The options that decide the output: their flags, the placeholder of a value, and a text.
OUTPUT_OPTIONS = (
    ("--output, -o", "auto|json|ndjson|table|raw", "the format of the events"),
    ("--json, -j", "", "one JSON object per line (= -o ndjson)"),
    ("--raw", "", "only the text of the answer (= -o raw)"),
    ("--exit-code", "", "exit with the status of the command that the method ran"),
    ("--items", "", "whole stream items"),
    ("--fields", "a,b.c", "only these fields"),
    ("--all", "", "everything: no limit for lists and trees"),
    ("--thinking", "", "show an agent's thinking in a chat"),
    ("--times", "", "exact times on a terminal"),
    ("--watch", "", "draw a list again every 2 s"),
    ("--no-pager", "", "never use $PAGER"),
    ("--dry-run", "", "print the request instead of sending it"),
    ("--schema", "", "print the schema"),
)
OTHER_OPTIONS = (
    ("--params", "JSON", "parameters as one JSON object; also @file or - for stdin"),
    ("--timeout", "SECONDS", "the longest time for the call"),
    ("--answer", "TEXT", "answer a question; repeatable"),
    ("--yes, -y", "", "answer yes/no questions"),
    ("--no-input", "", "ask no questions"),
    ("--hub", "NAME|URL", "another hub ($SYNAPSE_HUB)"),
    ("--token-file", "FILE", "the token of that hub ($SYNAPSE_TOKEN)"),
    ("--home", "DIR", "the home of the local hub ($HUBD_HOME)"),
    ("--no-autostart", "", "do not start a daemon"),
    ("--help, -h", "", "this help"),
    ("--version", "", "the version of synapse"),
)

EXIT_STATUS = """\
Exit status: 0 done, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 no daemon or unavailable,
6 timeout, 7 conflict, 8 the chat waits for approval or was denied, 9 version mismatch,
130 interrupted."""


def _own_help() -> str:
    rows = [
        (", ".join(sorted(flags.split(", "), key=len)) + (f" {value}" if value else ""), text)
        for flags, value, text in (*OUTPUT_OPTIONS, *OTHER_OPTIONS)
    ]
    width = max(len(flags) for flags, _ in rows if len(flags) < 30)
    lines = [f"  {flags:<{width}}  {text}" for flags, text in rows]
    return "\n".join(("Options of synapse itself, anywhere on the line:", *lines, "", EXIT_STATUS))


# The options and exit statuses of synapse itself.
OWN_HELP = _own_help()


def fit_terminal(text: str) -> str:
    """Return help without control characters, with lines that fit the terminal.

    Examples are folded in such a way that they can be copied.
    """
    text = clean(text)
    if not sys.stdout.isatty():
        return text
    import shutil

    width = shutil.get_terminal_size().columns
    return "\n".join(
        "\n".join(continued(line, width)) if line.startswith("  synapse ") else _folded(line, width)
        for line in text.split("\n")
    )


def continued(command: str, width: int) -> list[str]:
    """Return a command of a shell on lines that fit, if it can be folded before options.

    A backslash ends each line but the last, so the command can still be copied.
    """
    lines, line = [], ""
    for part in command.split(" --"):
        longer = f"{line} --{part}" if line else part
        is_open = line.count("'") % 2 or line.count('"') % 2
        if line and not is_open and len(longer) > width - 2 and len(command) > width:
            lines.append(f"{line} \\")
            longer = f"      --{part}"
        line = longer
    return [*lines, line]


def paragraphs(text: str) -> str:
    """Return a text with each paragraph on one line, for a terminal of any width."""
    import re

    return "\n\n".join(
        part if re.search(r"^[\s>|*+-]|^\d+[.)]", part, re.MULTILINE) else " ".join(part.split())
        for part in text.split("\n\n")
    )


def _folded(line: str, width: int) -> str:
    """Return a line in parts that fit.

    The text of a row continues below its start, or below its name if that leaves more room. Other
    lines continue indented, except for sentences.
    """
    import re

    row = re.match(r"(  \S.*?)  +(?=\S)", line)
    column = row.end() if row else 0
    if row and column > width - MIN_ROOM:
        return f"{row[1]}\n{_filled(line[column:], width, ' ' * 6, ' ' * 6)}"
    if len(line) <= width:
        return line
    is_sentence = line.endswith(".") and not line.startswith(" ")
    others = 0 if is_sentence else min(len(line) - len(line.lstrip()) + 4, width // 2)
    indent = column or others
    return _filled(line, width, "", " " * indent)


def _filled(text: str, width: int, first: str, others: str) -> str:
    import textwrap

    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        replace_whitespace=False,
        break_on_hyphens=False,
    )


def own_help() -> str:
    """Return the help of synapse itself, without a hub."""
    start = "No daemon runs, so the hub's namespaces are unknown. Start it: hubd start"
    return "\n".join((USAGE, "", start, "", OWN_HELP))


def namespace_help(cache: Cache, path: str) -> str:
    """Return the help of a namespace: its methods, children and handles."""
    schema = cache.namespace(path)
    lines = [f"{path} - {schema['description']}"]
    if schema.get("long_description"):
        details = schema["long_description"]
        lines += ["", paragraphs(details) if sys.stdout.isatty() else details]
    methods = [(dashed(name), cache.describe_method(path, name)) for name in cache.methods(path)]
    lines += _section("Methods:", methods)
    if path != cache.root:
        children = [(name, cache.describe(f"{path}.{name}")) for name in cache.children(path)]
        lines += _section("Namespaces:", children)
    return "\n".join([*lines, *namespace_end(cache, path)])


def namespace_end(cache: Cache, path: str) -> list[str]:
    """Return the end of a namespace's help: its handles, and how to go on."""
    schema = cache.namespace(path)
    handles = [
        (f"{path}@{schema['version']}::{entry.get('method')}", entry.get("description", ""))
        for entry in schema.get("handles", [])
    ]
    lines = _section("Handles:", handles)
    if methods := cache.methods(path):
        words = " ".join((*path.split("."), dashed(methods[0])))
        lines += ["", f"synapse {words} --help shows one method."]
    return lines


def method_help(cache: Cache, path: str, name: str) -> str:
    """Return the help of one method: parameters, events, handles, an example."""
    schema = cache.method(path, name)
    lines = [f"{path}.{name} - {schema['description']}"]
    if schema.get("long_description"):
        details = schema["long_description"]
        lines += ["", paragraphs(details) if sys.stdout.isatty() else details]
    aliases = schema.get("annotations", {}).get("aliases", {})
    rows = [
        _parameter_row(schema["params"], entry, aliases.get(entry, []))
        for entry in parameters(schema["params"])
    ]
    lines += _section("Parameters:", rows)
    return "\n".join([*lines, *method_end(cache, path, name)])


def method_end(cache: Cache, path: str, name: str) -> list[str]:
    """Return the end of a method's help: its events, its handles, and an example."""
    schema = cache.method(path, name)
    returned = returns_name(schema["returns"])
    lines = ["", f"Returns: {f'Stream[{returned}]' if schema['streaming'] else returned}"]
    lines += [f"  {line}" for line in _event_lines(schema["returns"])]
    handles = {
        f"{path}@{entry.get('version')}::{entry.get('method')}": entry
        for entry in cache.namespace(path).get("handles", [])
    }
    for produced in schema.get("produces", []):
        handle = handles.get(produced) or schema.get("handle_schema")
        lines += _handle_lines(produced, handle or {})
    if commands := example(cache, path, name):
        lines += ["", "Example:", *(f"  {line}" for line in commands)]
    return lines


def usage(cache: Cache, path: str, name: str) -> str:
    """Return one line with the required parameters of a method."""
    words = usage_words(cache.method(path, name)["params"])
    return " ".join(filter(None, ("synapse", *path.split("."), dashed(name), words)))


def usage_words(params: JsonSchema) -> str:
    """Return the required parameters, each with a placeholder."""
    words = [_usage_of(params, entry) for entry in params.get("required", [])]
    choice = [_usage_of(params, entry) for entry in one_of(params)]
    return " ".join((*words, f"({' | '.join(choice)})") if choice else words)


def _usage_of(params: JsonSchema, name: str) -> str:
    kind = type_name(params["properties"].get(name, {}), params)
    if kind == "boolean":
        return f"--{dashed(name)}"
    if kind == "text" and name.endswith(("name", "identifier")):
        kind = "name"
    elif kind in ("text", "uuid") and name.endswith("id"):
        kind = "id"
    word = kind if "|" in kind else kind.upper().replace("INTEGER", "NUMBER")
    return f"--{dashed(name)} {word}"


def example(cache: Cache, path: str, name: str) -> list[str]:
    """Return the commands of an example; none if a value can't be guessed."""
    schema = cache.method(path, name)
    hints = schema.get("annotations", {})
    completes, is_destructive = hints.get("completes", {}), hints.get("destructive")
    before: list[str] = []
    existing: dict[str, str] = {}
    for entry in needed(schema["params"]):
        if entry in completes:
            space, _, lister = str(completes[entry]).rpartition(".")
            if command := _create_command(cache, space):
                before, existing[entry] = [command], TEXTS[0]
            # A copied example must not delete the first entry of a list.
            elif not is_destructive and (listed := _listed(cache, space, lister, entry)):
                existing[entry] = listed
    words = arguments(schema["params"], existing)
    if words is None:
        return []
    if HANDLE in words:
        words = words.replace(HANDLE, sample_handle(cache))
    return [*before, f"synapse {' '.join((*path.split('.'), dashed(name)))}{words}"]


def _create_command(cache: Cache, space: str) -> str:
    """Return the command that creates a named object in a namespace, if there is one."""
    if not cache.has_method(space, "create"):
        return ""
    params = cache.method(space, "create")["params"]
    words = " ".join(space.split("."))
    return f"synapse {words} create --name {TEXTS[0]}" if needed(params) == ["name"] else ""


def _listed(cache: Cache, space: str, lister: str, parameter: str) -> str:
    """Return shell words for the first id that the hub lists; empty for other parameters."""
    if not is_id(parameter) or not cache.has_method(space, lister):
        return ""
    schema = cache.method(space, lister)
    if needed(schema["params"]):
        return ""
    from synapse.render.fields import declared

    fields = declared((parameter, "name", "id"), schema["returns"])
    words = " ".join((*space.split("."), dashed(lister)))
    return f'"$(synapse {words} --fields {fields[0]} --raw | head -n 1)"' if fields else ""


def _section(title: str, rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    width = max(len(name) for name, _ in rows)
    return ["", title, *(f"  {name:<{width}}  {text}".rstrip() for name, text in rows)]


def parameters(params: JsonSchema) -> list[str]:
    """Return the names of the parameters: required ones, then those of a choice, then others."""
    required, choice = params.get("required", []), one_of(params)
    return sorted(
        params.get("properties", {}),
        key=lambda name: 0 if name in required else 1 if name in choice else 2,
    )


def _parameter_row(params: JsonSchema, name: str, aliases: list[str]) -> tuple[str, str]:
    schema = params["properties"][name]
    kind = type_name(schema, params)
    flag = (
        f"--{dashed(name)}/--no-{dashed(name)}" if kind == "boolean" else f"--{dashed(name)} {kind}"
    )
    return flag, parameter_text(params, name, aliases)


def parameter_text(params: JsonSchema, name: str, aliases: list[str]) -> str:
    """Return the description of a parameter, with its default and its other names."""
    schema = params["properties"][name]
    text: str = schema.get("description", "")
    choice = one_of(params)
    if name in params.get("required", []):
        text = f"{text} (required)".strip()
    elif name in choice:
        flags = ", ".join(f"--{dashed(option)}" for option in choice)
        text = f"{text} (give one of {flags})".strip()
    elif schema.get("default") not in (None, ""):
        default = shorten(one_line(str(schema["default"])), MAX_DEFAULT)
        text = f"{text} (default: {default})".strip()
    if aliases:
        text = f"{text} (also {', '.join(f'--{dashed(alias)}' for alias in aliases)})".strip()
    return text


def _event_lines(returns: JsonSchema) -> list[str]:
    lines = []
    for tag, schema in events(returns):
        fields = (
            f"{name}: {field_type(field, returns)}"
            for name, field in schema["properties"].items()
            if name != "type"
        )
        lines.append(f"{tag} {{{', '.join(fields)}}}")
    return lines


def _handle_lines(produced: str, handle: HandleSchema | JsonSchema) -> list[str]:
    lines = ["", f"Produces handles: {produced}"]
    for number, field in enumerate(handle.get("meta_fields") or []):
        prefix = f" (prefix: {field['prefix']})" if field.get("prefix") else ""
        lines.append(f"  meta[{field.get('index', number)}]: {field.get('name', '')}{prefix}")
    resolved = handle.get("resolve_schema") or {}
    kind = handle.get("kind") or "unknown"
    lines += ["", f"  Resolve returns: {returns_name(resolved)} ({kind})"]
    for _, schema in events(resolved):
        lines += [
            f"    {name}: {field_type(field, resolved)}"
            for name, field in schema["properties"].items()
            if name != "type"
        ]
    return lines


def sample_handle(cache: Cache) -> str:
    """Return a sample handle, of a type without ids if there is one."""
    samples: list[tuple[int, str]] = []
    for path in cache.paths():
        for entry in cache.namespace(path).get("handles", []):
            fields = entry.get("meta_fields") or []
            names = [str(field.get("name")) for field in fields if field.get("required")]
            guesses = sum(name.endswith("id") for name in names)
            meta = ":hello" * len(names)
            handle = f"{path}@{entry.get('version')}::{entry.get('method')}{meta}"
            samples.append((guesses, handle))
    return min(samples)[1] if samples else HANDLE
