"""The overview of a hub: one line for each top-level namespace, and three commands to try."""

from __future__ import annotations

import sys

from hubd.wire.terminal import one_line
from synapse.help import OWN_HELP, USAGE, continued, example, fit_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from synapse.hub.cache import Cache

# The number of commands to try.
COMMANDS = 3
MORE = "synapse NAMESPACE --help shows its methods, synapse --help all options."
SELF = "synapse itself: status, doctor, alias, use, completion and more"


class Row:
    """A line of the overview."""

    def __init__(self, name: str, purpose: str, below: int = 0) -> None:
        # The namespace and its purpose.
        self.name = name
        self.purpose = purpose
        # The number of namespaces below it, in words.
        plural = "" if below == 1 else "s"
        self.note = f"({below} namespace{plural} below)" if below else ""


def show(cache: Cache, *, in_full: bool) -> str:
    """Return the overview for stdout; `in_full` adds synapse's own options."""
    rows, commands = namespaces(cache), suggestions(cache)
    text = _drawn(rows, commands) if sys.stdout.isatty() else _plain(rows, commands)
    return f"{text}\n\n{fit_terminal(OWN_HELP if in_full else MORE)}"


def plain(cache: Cache) -> str:
    """Return the whole overview as plain text."""
    return f"{_plain(namespaces(cache), suggestions(cache))}\n\n{OWN_HELP}"


def namespaces(cache: Cache) -> list[Row]:
    """Return the namespaces, the most useful first, then the root and synapse itself."""
    names = cache.children("")
    weights = {name: max(cache.weights(name).values(), default=0) for name in names}
    paths = cache.paths()
    rows = [
        Row(name, cache.describe(name), sum(path.startswith(f"{name}.") for path in paths))
        for name in sorted(names, key=lambda name: (-weights[name], name))
    ]
    return [*rows, Row(cache.root, cache.describe(cache.root)), Row("self", SELF)]


def suggestions(cache: Cache) -> list[tuple[str, str]]:
    """Return the first commands of the most useful methods' examples, each with its purpose."""
    weighted = [
        (-weight, path, method)
        for path in cache.paths()
        for method, weight in cache.weights(path).items()
    ]
    commands: list[tuple[str, str]] = []
    for _, path, method in sorted(weighted):
        # The first lines of an example create the object that the last one uses.
        commands += [(line, _purpose(cache, line)) for line in example(cache, path, method)]
        if len(commands) >= COMMANDS:
            break
    return commands[:COMMANDS]


def _purpose(cache: Cache, command: str) -> str:
    *path, method = command.partition(" --")[0].split()[1:]
    return cache.describe_method(".".join(path), method.replace("-", "_")).partition(". ")[0]


def _plain(rows: list[Row], commands: list[tuple[str, str]]) -> str:
    width = max(len(row.name) for row in rows)
    lines = [USAGE, "", "Namespaces:"]
    lines += [f"  {row.name:<{width}}  {row.purpose}  {row.note}".rstrip() for row in rows]
    if commands:
        lines += ["", "Try:", *(f"  {command}" for command, _ in commands)]
    return "\n".join(lines)


def _drawn(rows: list[Row], commands: list[tuple[str, str]]) -> str:
    """Return the overview with styles, each namespace on one line of the terminal."""
    from rich.cells import cell_len
    from rich.text import Text

    from synapse.render.console import console
    from synapse.render.tables import cut

    screen = console()
    width = max(cell_len(one_line(row.name)) for row in rows)
    lines = [Text(USAGE, style="bold"), Text()]
    for row in rows:
        name = one_line(row.name)
        room = screen.width - width - 4 - (len(row.note) + 2 if row.note else 0)
        line = Text.assemble("  ", (name, "bold cyan"), " " * (width - cell_len(name) + 2))
        # On a narrow screen the purpose matters more than the count.
        purpose = cut(one_line(row.purpose), room if room >= 16 else screen.width - width - 4)
        line.append(purpose)
        if row.note and room >= 16:
            line.append(f"  {row.note}", style="dim")
        lines.append(line)
    if commands:
        lines += [Text(), Text("Try:", style="bold")]
    longest = max((cell_len(one_line(command)) for command, _ in commands), default=0) + 2
    room = screen.width - longest - 2
    for command, purpose in commands:
        parts = continued(f"  {one_line(command)}", screen.width)
        lines += [Text.assemble((part, "green")) for part in parts]
        if room >= 24:
            lines[-1].append(" " * (longest - lines[-1].cell_len))
            lines[-1].append(f"  {cut(one_line(purpose), room)}", style="dim")
    with screen.capture() as capture:
        for line in lines:
            # A command stays in one piece, to be copied.
            screen.print(line, soft_wrap=line.plain.startswith("  synapse "))
    return capture.get().rstrip("\n")
