"""The rendering of a tree: the nodes to show, the text of each, the number left out."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from hubd.activation import Host, HubError, Style
from hubd.plugins.arbor.box_drawing import DEPTH, Line, draw, handle_line, text_line
from hubd.storage import ids
from hubd.storage.arbor import outline, walk
from hubd.storage.arbor.tree import LANES, MAIN, TreeRow
from hubd.storage.arbor.walk import Node
from hubd.storage.database import Database
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.summary import TEXT_FIELDS

# One message holds all lines.
MAX_NODES: Final = 10_000
# The text ends at DEPTH, because every level indents it further; the flat nodes may be deeper.
MAX_DEPTH: Final = 100_000
# The fields of resolved data that a drawing uses, and their types.
_DRAWN: Final = (("role", str), ("tool_name", str), ("tool_use_id", str), ("is_error", bool))
# Characters of such a field.
MAX_NAME: Final = 200


@dataclass(frozen=True)
class Limits:
    """The largest depth, number of nodes, and width of a text that are drawn."""

    depth: int
    nodes: int
    width: int


@dataclass(frozen=True)
class Rendering:
    """A tree as text and as flat nodes, and the number of nodes left out."""

    text: str
    nodes: list[dict[str, Any]]
    more: int


class _Entry(NamedTuple):
    """A node to show: its line, its short id, and the number of nodes left out below it."""

    node: Node
    text: str
    short_id: str | None
    more: int
    # Fields of the data behind its handle.
    data: Mapping[str, Any]


async def render(
    db: Database,
    host: Host | None,
    tree: TreeRow,
    lanes: frozenset[int],
    limits: Limits,
    marks: Mapping[str, list[str]] | None = None,
    style: Style | None = None,
) -> Rendering:
    """Draw a tree. With a host, show the data behind handles instead of the handles.

    Args:
        db: The database.
        host: The hub that resolves the handles.
        tree: The tree.
        lanes: The lanes to show.
        limits: The largest size of the drawing.
        marks: Names for nodes, by their ids.
        style: Show the data by the templates of this style.
    """
    nodes: list[Node] = []
    async for page in walk.whole(db, tree, lanes, depth=limits.depth):
        nodes += page
        if len(nodes) > limits.nodes:
            break
    nodes = nodes[: limits.nodes]
    left_out: dict[tuple[int, int], int] = {}
    if await walk.count(db, tree, lanes) > len(nodes):
        last_key = nodes[-1].key if len(nodes) == limits.nodes else 2**62
        left_out = await outline.left_out(db, tree, lanes, last_key, limits.depth)
    short_ids = await outline.short_ids(
        db, tree.key, [node.id for node in nodes if node.lane == MAIN]
    )
    resolved = await _resolve(host, nodes, limits.width, style) if host else {}

    def compose() -> Rendering:
        entries = [
            _Entry(
                node,
                _line(node, resolved, limits.width),
                short_ids.get(node.id),
                left_out.get((node.segment, node.depth), 0),
                resolved[node.key].fields if node.key in resolved else {},
            )
            for node in _depth_first(nodes)
        ]
        more = sum(left_out.values())
        # The root is left out if its lane is not shown. Then no entry has its count.
        rest = more - sum(entry.more for entry in entries)
        lines = _lines(entries, tree.root_id, rest)
        return Rendering(draw(lines), [_flat(entry, marks or {}) for entry in entries], more)

    # Thousands of lines would delay other clients.
    return compose() if len(nodes) <= walk.PAGE_NODES else await asyncio.to_thread(compose)


def _depth_first(nodes: list[Node]) -> list[Node]:
    """Return the nodes depth first, siblings in order of creation.

    Args:
        nodes: The nodes in order of creation. A node without its parent is at the top level.
    """
    node_ids = {node.id for node in nodes}
    top: list[Node] = []
    children: dict[bytes, list[Node]] = {}
    for node in nodes:
        if node.parent in node_ids:
            children.setdefault(node.parent, []).append(node)
        else:
            top.append(node)
    # The root is first. Nodes with a parent in another lane follow after its branches.
    ordered: list[Node] = []
    waiting = top[::-1]
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        waiting += reversed(children.get(node.id, ()))
    return ordered


def _lines(entries: list[_Entry], root_id: bytes, rest: int) -> list[Line]:
    """Return the lines of the text in order of creation, down to `DEPTH`."""
    node_ids = {entry.node.id for entry in entries}
    # The line of each node; of a node that is too deep, the line that counts it.
    line_of: dict[bytes, bytes] = {}
    more = {root_id: rest}
    texts: list[tuple[int, bytes, bytes | None, str]] = []
    if root_id not in node_ids:
        texts.append((0, root_id, None, ""))
    for node, text, _, left_out, _ in entries:
        # A node with a parent that is not shown is drawn below the root.
        parent = node.parent if node.parent is None or node.parent in node_ids else root_id
        if node.depth > DEPTH and parent is not None:
            line_of[node.id] = line = line_of.get(parent, parent)
            more[line] = more.get(line, 0) + 1 + left_out
        else:
            texts.append((node.key, node.id, parent, text))
            line_of[node.id] = node.id
            more[node.id] = more.get(node.id, 0) + left_out
    # Children are drawn in order of creation.
    texts.sort(key=lambda line: line[0])
    return [Line(id, parent, text, more.get(id, 0)) for _, id, parent, text in texts]


class _Resolved(NamedTuple):
    """The data behind a handle: its line, and the fields that a drawing uses."""

    line: str
    fields: Mapping[str, Any]


async def _resolve(
    host: Host, nodes: list[Node], width: int, style: Style | None
) -> dict[int, _Resolved]:
    """Return the data behind each handle, by the key of its node."""
    external = [(node.key, node.handle) for node in nodes if node.handle is not None]
    resolved: dict[int, _Resolved] = {}
    text_of = host.renderer(style) if style is not None else None
    answers = host.resolve_each([handle for _, handle in external])
    async with aclosing(answers):
        keys = iter(external)
        async for answer in answers:
            key, handle = next(keys)
            if isinstance(answer, HubError):
                reason = text_line(f"{handle_line(handle)[1:-1]}: {answer.message}", width)
                resolved[key] = _Resolved(f"[unresolved: {reason}]", {})
            else:
                text = await text_of(answer) if text_of is not None else answer.summary
                line = text_line(text.strip(), width)
                fields = _fields(answer.kind, answer.data, width)
                if text != answer.summary:
                    # A template made it, so it replaces every other drawing of the data.
                    fields["styled"] = line
                resolved[key] = _Resolved(line, fields)
    return resolved


def _fields(kind: str, data: Mapping[str, Any], width: int) -> dict[str, Any]:
    """Return the fields of resolved data that a drawing uses, by their names."""
    fields: dict[str, Any] = {"kind": kind}
    for name, type_ in _DRAWN:
        if isinstance(data.get(name), type_):
            fields[name] = data[name] if type_ is bool else data[name][:MAX_NAME]
    texts = [data[name] for name in TEXT_FIELDS if isinstance(data.get(name), str)]
    if not texts and isinstance(data.get("input"), dict):
        # The first text of a tool's input says what the call is about.
        texts = [value for value in data["input"].values() if isinstance(value, str)]
    if texts:
        fields["text"] = text_line(texts[0], width)
    return fields


def _line(node: Node, resolved: Mapping[int, _Resolved], width: int) -> str:
    if node.handle is None:
        return text_line(node.text or "", width)
    return (resolved[node.key].line if node.key in resolved else "") or handle_line(node.handle)


def _flat(entry: _Entry, marks: Mapping[str, list[str]]) -> dict[str, Any]:
    node = entry.node
    node_id = ids.text(node.id)
    fields: dict[str, Any] = {
        "id": node_id,
        "short_id": entry.short_id,
        "parent": ids.text(node.parent) if node.parent is not None else None,
        "depth": node.depth,
        "lane": LANES[node.lane],
        "summary": entry.text,
        "more": entry.more,
        "created_at": node.created_at,
        **entry.data,
    }
    if node.handle is not None:
        fields["handle"] = node.handle
    if node.label is not None:
        fields["label"] = node.label
    if node_id in marks:
        fields["marks"] = marks[node_id]
    return fields
