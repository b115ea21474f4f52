"""A small tree of text and handles, made by tool calls of any client."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

# The expected response.
RENDER: Final = (
    "└──\n"
    "    ├── [cone:msg-aaa:system:init]\n"
    "    └── [cone:msg-bbb:user:q1]\n"
    "        └── [cone:msg-ccc:assistant:a1]"
)

# Both forms in which seeds write a handle.
SYSTEM: Final = "cone@1.0.0::chat:msg-aaa:system:init"
USER: Final = {"source": "cone", "source_version": "1.0.0", "identifier": "msg-bbb:user:q1"}
ASSISTANT: Final = "cone@1.0.0::chat:msg-ccc:assistant:a1"

# Calls a tool; returns the only event of its structured content.
CallTool = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


async def make_tree(call: CallTool) -> str:
    """Make the tree; returns its id."""
    tree_id = str((await call("arbor.tree_create", {}))["tree_id"])
    await call("arbor.node_create_external", {"tree_id": tree_id, "handle": SYSTEM})
    user = await call("arbor.node_create_external", {"tree_id": tree_id, "handle": USER})
    # The name that some clients make of it.
    below = {"tree_id": tree_id, "handle": ASSISTANT, "parent": user["node_id"]}
    await call("arbor_node_create_external", below)
    return tree_id
