"""Names of sessions, cones, templates, consumers, owners and labels are safe to show."""

from pathlib import Path
from typing import Any
from uuid import uuid4

from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.cone.plugin import Cone
from hubd.plugins.mustache.plugin import Mustache
from tests.support import call_error, hub_with

TREE, NODE = str(uuid4()), str(uuid4())
# Every parameter that gives something a name, with what else its method needs.
NAMED: list[tuple[str, str, dict[str, Any]]] = [
    ("claudecode.create", "name", {}),
    ("claudecode.chat", "name", {"prompt": "hi"}),
    ("claudecode.chat_async", "name", {"prompt": "hi"}),
    ("claudecode.fork", "new_name", {"name": "s"}),
    ("claudecode.poll", "consumer", {"name": "s"}),
    ("claudecode.sessions_import", "name", {"claude_session_id": TREE}),
    ("cone.create", "name", {}),
    ("cone.fork", "new_name", {"identifier": "c"}),
    ("mustache.register_template", "name", {"template": "x"}),
    ("arbor.tree_create", "owner_id", {}),
    ("arbor.tree_claim", "owner_id", {"tree_id": TREE}),
    ("arbor.node_create_text", "label", {"tree_id": TREE, "content": "x"}),
    ("arbor.node_label", "label", {"tree_id": TREE, "node_id": NODE}),
]


async def test_unsafe_names_are_rejected_by_every_method_that_takes_one(tmp_path: Path) -> None:
    async with hub_with(tmp_path, Arbor(), Cone(), Mustache(), ClaudeCode()) as hub:
        for method, parameter, others in NAMED:
            for name in ("a\nb", "\x1b[31mred", "a\u202eb", "a\u200bb", "a\U000e0041b"):
                error = await call_error(hub, method, **{**others, parameter: name})
                assert error["code"] == "invalid_params", method
                assert f"parameter '{parameter}'" in error["message"], method
                if not method.startswith("mustache"):
                    assert f"parameter '{parameter}' can't contain U+" in error["message"], method
