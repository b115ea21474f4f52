"""Trees of 10,000 nodes: a conversation with forks, and a chain of texts."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hubd.plugins.claudecode.native import NativeMessage, session_file, write_session
from tests.page.browser.terminal import Terminal

NODES = 10_000
# An imported turn is four nodes: the turn, its prompt, its answer and the block of the answer.
FORKS = 39
TURNS = (NODES - 1 - FORKS) // 4
# The turns between two forks. The other turns are a run after the last fork.
BETWEEN_FORKS = 25
# Shows all turns of a tree.
OPEN_FOLDS = """() => {
  for (let fold; (fold = document.querySelector(".fold")); ) fold.click();
}"""


def conversation(terminal: Terminal) -> str:
    """Make the session `long` with forks inside of each other, and return its tree's id."""
    native_id = str(UUID(int=1))
    messages = []
    for number in range(TURNS):
        prompt, answer = ({"type": "text", "text": f"{each} {number}."} for each in ("Ask", "Say"))
        messages.append(NativeMessage(role="user", content=[prompt]))
        messages.append(NativeMessage(role="assistant", content=[answer]))
    write_session(
        session_file(terminal.environment, terminal.cwd, native_id),
        session_id=native_id,
        cwd=terminal.cwd,
        messages=messages,
        version="2.1.0",
        now=datetime.now(UTC),
    )
    terminal.one("claudecode.sessions_import", claude_session_id=native_id, name="long")
    tree_id = str(terminal.head("long")["tree_id"])
    for answer_id in answers(terminal)[BETWEEN_FORKS - 1 :: BETWEEN_FORKS][:FORKS]:
        params = {"tree_id": tree_id, "parent": answer_id, "content": "Aside."}
        terminal.one("arbor.node_create_text", **params)
    return tree_id


def answers(terminal: Terminal) -> list[str]:
    """Return the nodes of the answers up to the head of the session `long`."""
    pages = terminal.all("arbor.node_get_path", **terminal.head("long"))
    # The root, and then a turn and its answer in turns.
    return [node_id for page in pages for node_id in page["path"]][2::2]


def chain(terminal: Terminal) -> str:
    """Import a tree that is a single chain of texts, and return its id."""
    first = {"owner_id": "test", "metadata": None, "created_at": 0, "format": 1}
    lines: list[dict[str, Any]] = [
        {"type": "tree", "tree_id": str(UUID(int=2)), "root": chain_node(0), **first}
    ]
    for number in range(1, NODES):
        place = {"id": chain_node(number), "parent": chain_node(number - 1), "lane": "main"}
        data = {"type": "text", "content": f"Text {number}."}
        lines.append({"type": "node", "data": data, "created_at": 0, **place})
    file = terminal.cwd / "chain.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return str(terminal.one("arbor.tree_import", file=str(file))["tree_id"])


def chain_node(number: int) -> str:
    return str(UUID(int=1000 + number))
