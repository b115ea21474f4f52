"""Conversations as Markdown documents."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.plugins.claudecode.record import markdown
from tests.plugins.claudecode.chat_support import run, say, think, world


@pytest.mark.parametrize(
    ("role", "blocks", "written"),
    [
        ("user", [{"type": "text", "text": " Hello\n"}], "## user\n\nHello"),
        (
            "assistant",
            [{"type": "thinking", "thinking": "a\n\nb"}, {"type": "text", "text": "c"}],
            "## assistant\n\n> a\n>\n> b\n\nc",
        ),
        (
            "assistant",
            [{"type": "tool_use", "name": "Bash", "input": {"command": "é"}}],
            '## assistant\n\nCalls **Bash**:\n\n```json\n{\n  "command": "é"\n}\n```',
        ),
        (
            "user",
            [{"type": "tool_result", "content": [{"type": "text", "text": "out\n"}]}],
            "## tool\n\nThe tool gave:\n\n```\nout\n```",
        ),
        (
            "user",
            [{"type": "tool_result", "content": "```\n````", "is_error": True}],
            "## tool\n\nThe tool gave, which failed:\n\n`````\n```\n````\n`````",
        ),
        ("user", [{"type": "image", "source": 1}], None),
        ("user", [{"type": "text", "text": ""}], "## user"),
        ("user", [], "## user"),
    ],
)
def test_a_message_becomes_markdown(
    role: str, blocks: list[dict[str, Any]], written: str | None
) -> None:
    found = markdown.message(role, blocks)
    if written is None:
        assert '"type": "image"' in found
    else:
        assert found == written


@given(st.text(st.sampled_from("`ab\n"), max_size=40))
def test_tool_output_cannot_close_its_fence(output: str) -> None:
    found = markdown.message("user", [{"type": "tool_result", "content": output}])
    [opening, *inside, closing] = found.splitlines()[4:]
    assert opening == closing
    assert re.fullmatch("`{3,}", opening)
    assert not any(line.startswith(opening) for line in inside)


async def test_a_session_is_exported_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch, "offline") as here:
        steps = (think("hm"), run("echo two"), say("three"))
        await here.chat(*steps, allowed_tools=["Bash"])
        parts = await here.call("claudecode.export", name="s")
        text = "\n".join(part["text"] for part in parts)
        assert text.startswith("# s\n\n## user\n\n")
        assert re.findall("^## .*", text, re.MULTILINE) == [
            "## user",
            "## assistant",
            "## tool",
            "## assistant",
        ]
        for wanted in ("> hm", "Calls **Bash**", "echo two", "```\ntwo\n```", "three"):
            assert wanted in text
