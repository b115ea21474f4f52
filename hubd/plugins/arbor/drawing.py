"""A rendering of a tree: which nodes, what each line says, what is left out."""

from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from hubd.activation import Host, HubError
from hubd.plugins.arbor.render import Line, draw, handle_line, text_line
from hubd.storage import ids, walk
from hubd.storage.database import Database
from hubd.storage.tree import LANES, TreeRow
from hubd.storage.walk import Node

# More lines than this are not a picture any more, and one message has to hold them all.
MAX_NODES: Final = 10_000


@dataclass(frozen=True)
class Limits:
    """How much of a tree is drawn."""

    depth: int
    nodes: int
    width: int


@dataclass(frozen=True)
class Drawing:
    """The text, the same as flat nodes, and how many nodes are missing."""

    text: str
    nodes: list[dict[str, Any]]
    more: int


async def drawing(
    db: Database, host: Host | None, tree: TreeRow, lanes: frozenset[int], limits: Limits
) -> Drawing:
    """Draw a tree; with a host, what its handles point at rather than the handles."""
    nodes: list[Node] = []
    async for page in walk.whole(db, tree, lanes, depth=limits.depth):
        nodes += page
        if len(nodes) > limits.nodes:
            break
    nodes = nodes[: limits.nodes]
    # Not less than none, should some have been deleted meanwhile.
    more = max(0, await walk.count(db, tree, lanes) - len(nodes))
    hidden = await _hidden(db, nodes, lanes, limits.depth) if more else {}
    summaries = await _summaries(host, nodes, limits.width) if host else {}
    shown = {node.id for node in nodes}
    lines: list[Line] = []
    flat: list[dict[str, Any]] = []
    if tree.root_id not in shown:  # its lane is not among those asked for
        lines.append(Line(tree.root_id, None, ""))
    # Children come in the order in which they were made, also where a later one
    # continues its parent's segment.
    for node in sorted(nodes, key=lambda node: node.key):
        text = _line(node, summaries, limits.width)
        # A node of another lane than its parent's hangs at the root where that is not shown.
        parent = node.parent if node.parent is None or node.parent in shown else tree.root_id
        lines.append(Line(node.id, parent, text, hidden.get(node.key, 0)))
        flat.append(_flat(node, text))
    # What lies below a node of the last depth is told there, the others at the root.
    rest = max(0, more - sum(hidden.values()))
    return Drawing(draw(lines, rest), flat, more)


async def _hidden(
    db: Database, nodes: list[Node], lanes: frozenset[int], depth: int
) -> dict[int, int]:
    """How many nodes lie below those of the greatest depth, by key."""
    counts = {}
    for node in nodes:
        if node.depth == depth and (below := await walk.count_below(db, node, lanes)):
            counts[node.key] = below
    return counts


async def _summaries(host: Host, nodes: list[Node], width: int) -> dict[int, str]:
    """One line for each handle, by the key of its node."""
    external = [(node.key, node.handle) for node in nodes if node.handle is not None]
    found: dict[int, str] = {}
    answers = host.resolve_each([handle for _, handle in external])
    async with aclosing(answers):
        keys = iter(external)
        async for answer in answers:
            key, handle = next(keys)
            if isinstance(answer, HubError):
                reason = text_line(f"{handle_line(handle)[1:-1]}: {answer.message}", width)
                found[key] = f"[unresolved: {reason}]"
            else:
                found[key] = text_line(answer.summary, width)
    return found


def _line(node: Node, summaries: dict[int, str], width: int) -> str:
    if node.handle is None:
        return text_line(node.text or "", width)
    return summaries.get(node.key) or handle_line(node.handle)


def _flat(node: Node, text: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": ids.text(node.id),
        "parent": ids.text(node.parent) if node.parent is not None else None,
        "depth": node.depth,
        "lane": LANES[node.lane],
        "summary": text,
    }
    if node.handle is not None:
        found["handle"] = node.handle
    if node.label is not None:
        found["label"] = node.label
    return found
