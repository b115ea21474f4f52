"""The rendering of a tree: the nodes to show, the text of each, the number left out."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hubd.activation import Host, HubError, Style
from hubd.plugins.arbor.box_drawing import DEPTH, Line, draw, handle_line, text_line
from hubd.storage import ids
from hubd.storage.arbor import outline, walk
from hubd.storage.arbor.tree import LANES, MAIN, TreeRow
from hubd.storage.arbor.walk import Node
from hubd.storage.database import Database

# One message holds all lines.
MAX_NODES: Final = 10_000
# The text ends at DEPTH, because every level indents it further; the flat nodes may be deeper.
MAX_DEPTH: Final = 100_000


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


async def render(
    db: Database,
    host: Host | None,
    tree: TreeRow,
    lanes: frozenset[int],
    limits: Limits,
    style: Style | None = None,
) -> Rendering:
    """Draw a tree. With a host, show the data behind handles instead of the handles.

    With a style, the data is shown by the templates of its handle type.
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
    summaries = await _summaries(host, nodes, limits.width, style) if host else {}

    def compose() -> Rendering:
        entries = [
            _Entry(
                node,
                _line(node, summaries, limits.width),
                short_ids.get(node.id),
                left_out.get((node.segment, node.depth), 0),
            )
            for node in _depth_first(nodes)
        ]
        more = sum(left_out.values())
        # The root is left out if its lane is not shown. Then no entry has its count.
        rest = more - sum(entry.more for entry in entries)
        lines = _lines(entries, tree.root_id, rest)
        return Rendering(draw(lines), [_flat(entry) for entry in entries], more)

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
    for node, text, _, left_out in entries:
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


async def _summaries(
    host: Host, nodes: list[Node], width: int, style: Style | None
) -> dict[int, str]:
    """Return a line for each handle, by the key of its node."""
    external = [(node.key, node.handle) for node in nodes if node.handle is not None]
    summaries: dict[int, str] = {}
    text_of = host.renderer(style) if style is not None else None
    answers = host.resolve_each([handle for _, handle in external])
    async with aclosing(answers):
        keys = iter(external)
        async for answer in answers:
            key, handle = next(keys)
            if isinstance(answer, HubError):
                reason = text_line(f"{handle_line(handle)[1:-1]}: {answer.message}", width)
                summaries[key] = f"[unresolved: {reason}]"
            else:
                text = await text_of(answer) if text_of is not None else answer.summary
                summaries[key] = text_line(text.strip(), width)
    return summaries


def _line(node: Node, summaries: dict[int, str], width: int) -> str:
    if node.handle is None:
        return text_line(node.text or "", width)
    return summaries.get(node.key) or handle_line(node.handle)


def _flat(entry: _Entry) -> dict[str, Any]:
    node = entry.node
    fields: dict[str, Any] = {
        "id": ids.text(node.id),
        "short_id": entry.short_id,
        "parent": ids.text(node.parent) if node.parent is not None else None,
        "depth": node.depth,
        "lane": LANES[node.lane],
        "summary": entry.text,
        "more": entry.more,
    }
    if node.handle is not None:
        fields["handle"] = node.handle
    if node.label is not None:
        fields["label"] = node.label
    return fields
