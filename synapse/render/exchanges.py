"""Conversations in a tree: one entry for each prompt, with the tools and the text of its answer.

The kinds of the data behind the nodes decide: a `turn`, or a `message` that is not the assistant's,
begins an entry. Messages, blocks and outputs below it belong to it.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from synapse.render.nodes import node_text
from synapse.render.tables import cut
from synapse.render.values import flat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from synapse.render.nodes import Detail

    Node = Mapping[str, Any]

# The least columns of a tool's input, and the step in which inputs are narrowed to fit a line.
TOOL_ROOM = 24
ROOM_STEP = 8
# The kinds of data that a conversation consists of.
_BEGINNINGS = ("turn", "message")
_PARTS = ("message", "block", "output")


class Exchange:
    """One entry of a conversation, or any other node."""

    def __init__(self, first: Node) -> None:
        self.nodes = [first]
        # The id of the exchange before this one, if there is one.
        self.parent: str | None = None

    @property
    def id(self) -> str:
        """The id of the first node."""
        return str(self.nodes[0]["id"])

    @property
    def is_prompt(self) -> bool:
        """Whether the entry is a prompt with its answer."""
        first = self.nodes[0]
        return first.get("kind") == "turn" or first.get("role") == "user"

    def takes(self, node: Node) -> bool:
        """Return whether a node below this exchange belongs to it."""
        first = self.nodes[0]
        if first.get("kind") not in _BEGINNINGS or node.get("kind") not in _PARTS:
            return False
        if node["kind"] != "message" or node.get("role") == "assistant":
            return True
        # The prompt of a turn repeats the turn's own text.
        is_first = all(other.get("kind") != "message" for other in self.nodes)
        return first.get("kind") == "turn" and node.get("parent") == first["id"] and is_first

    def node(self) -> dict[str, Any]:
        """Return the entry as one node, with the id at which the conversation continues."""
        first = self.nodes[0]
        answers = [node for node in self.nodes if node.get("role") == "assistant"]
        last = answers[-1] if answers else first
        text = _text(first) if self.is_prompt else None
        marks = [name for node in self.nodes for name in node.get("marks") or ()]
        counts = [node.get("more") for node in self.nodes]
        return {
            "id": self.id,
            "parent": self.parent,
            "short_id": last.get("short_id"),
            "summary": text or node_text({**first, "label": None}),
            "label": next((node["label"] for node in self.nodes if node.get("label")), None),
            "created_at": first.get("created_at"),
            "marks": marks,
            "more": sum(count for count in counts if isinstance(count, int)),
        }

    def details(self) -> list[Detail]:
        """Return the lines below the entry: the tools, and the text of the answer."""
        results = {node.get("tool_use_id"): node for node in self.nodes if "is_error" in node}
        tools: list[Callable[[int], str]] = []
        for node in self.nodes:
            if node.get("tool_name"):
                result = results.get(node.get("tool_use_id"), {})
                tools.append(partial(_tool, node, bool(result.get("is_error"))))
        lines: list[Detail] = [partial(_tools_line, tools)] if tools else []
        if texts := self._texts():
            lines.append(partial(cut, texts[-1]))
        return lines

    def _texts(self) -> list[str]:
        """Return the texts of the answer: those of its blocks, else those of its messages."""
        blocks = [node for node in self.nodes[1:] if node.get("kind") == "block"]
        plain = [node for node in blocks if not node.get("tool_name") and not _is_thinking(node)]
        messages = [node for node in self.nodes[1:] if node.get("role") == "assistant"]
        texts = [_text(node) for node in plain or messages]
        return [text for text in texts if text]


class Conversation:
    """The exchanges of a tree."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.exchanges: list[Exchange] = []
        owners: dict[str, Exchange] = {}
        for node in nodes:
            above = owners.get(str(node.get("parent")))
            if above is not None and above.takes(node):
                above.nodes.append(node)
            else:
                above, parent = Exchange(node), above
                above.parent = parent.id if parent else None
                self.exchanges.append(above)
            owners[str(node["id"])] = above

    @property
    def prompts(self) -> int:
        """The number of prompts."""
        return sum(exchange.is_prompt for exchange in self.exchanges)

    @property
    def branches(self) -> int:
        """The number of ends of the conversation."""
        below = Counter(exchange.parent for exchange in self.exchanges)
        return sum(exchange.id not in below for exchange in self.exchanges)


def is_conversation(nodes: Sequence[Node]) -> bool:
    """Return whether a tree has turns or messages."""
    return any(node.get("kind") in _BEGINNINGS for node in nodes)


def _text(node: Node) -> str:
    """Return the text of a node: by the template of the chosen style, else its own."""
    return flat(str(node.get("styled") or node.get("text") or ""))


def _tool(node: Node, is_failed: bool, room: int) -> str:
    """Return a tool call with at most so many columns for its input."""
    text = f"{node['tool_name']} {cut(_text(node), room)}"
    return f"⏺ {flat(str(node.get('styled') or text))}".rstrip() + (" ✗" if is_failed else "")


def _tools_line(tools: list[Callable[[int], str]], width: int) -> str:
    """Return the tools on one line; those without room are counted."""
    # A tool takes at least four columns.
    most = width // 4
    for room in range(width, TOOL_ROOM, -ROOM_STEP) if len(tools) <= most else ():
        line = "  ".join(tool(room) for tool in tools)
        if cell_len(line) <= width:
            return line
    for shown in range(min(len(tools), most), 0, -1):
        more = _count_of(len(tools) - shown)
        for room in (TOOL_ROOM,) if shown > 1 else (TOOL_ROOM, 16, 8):
            line = "  ".join(tool(room) for tool in tools[:shown]) + more
            if cell_len(line) <= width:
                return line
    more = _count_of(len(tools) - 1)
    room = width - cell_len(more)
    if room > 3:
        return cut(tools[0](TOOL_ROOM), room) + more
    return cut(_count_of(len(tools)).strip(), width)


def _count_of(left: int) -> str:
    """Return the end of a line that counts the tools without room."""
    return f"  … +{left} {'tool' if left == 1 else 'tools'}" if left else ""


def _is_thinking(node: Node) -> bool:
    """Return whether a block is thinking, by the type of its handle."""
    handle = str(node.get("handle") or "")
    return "thinking" in handle.partition("::")[2].partition(":")[0]
