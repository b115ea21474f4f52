"""Conversations as Markdown documents."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.conversations.export import markdown
from hubd.conversations.export.entries import Entry, Speaker
from hubd.storage.arbor.walk import Node
from tests.plugins.claudecode.chat_support import run, say, think, world

NODE = Node(None, 1, b"n", 1, 0, 0, "", None, None, None, 0)


def written(speaker: Speaker, blocks: list[dict[str, Any]], name: str | None = None) -> str:
    return markdown.entry(Entry(NODE, speaker, blocks, name))


@pytest.mark.parametrize(
    ("speaker", "blocks", "expected"),
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
            "tool",
            [{"type": "tool_result", "content": [{"type": "text", "text": "out\n"}]}],
            "## tool\n\nThe tool returned:\n\n```\nout\n```",
        ),
        (
            "tool",
            [{"type": "tool_result", "content": "```\n````", "is_error": True}],
            "## tool\n\nThe tool failed:\n\n`````\n```\n````\n`````",
        ),
        ("user", [{"type": "image", "source": 1}], "## user\n\n[image]"),
        (
            "user",
            [{"type": "image", "source": {"media_type": "image/png", "data": "AAAA" * 1000}}],
            "## user\n\n[image, image/png, 3 KiB]",
        ),
        # Blocks that were cut off.
        ("assistant", [{"type": "content", "text": "half"}], "## assistant\n\nhalf"),
        ("assistant", [{"type": "thinking", "text": "half"}], "## assistant\n\n> half"),
        ("attachment", [{"type": "attachment", "text": "a.txt"}], "## attachment\n\na.txt"),
        ("user", [{"type": "text", "text": ""}], "## user"),
        ("user", [], "## user"),
    ],
)
def test_an_entry_becomes_markdown(
    speaker: Speaker, blocks: list[dict[str, Any]], expected: str
) -> None:
    assert written(speaker, blocks) == expected


def test_the_name_of_a_speaker_stays_on_its_line() -> None:
    assert written("user", [], "ann\n# x") == "## user (ann # x)"
    assert written("user", [], "user") == "## user"


@given(st.text(st.sampled_from("`ab\n"), max_size=40))
def test_tool_output_cannot_close_its_fence(output: str) -> None:
    text = written("tool", [{"type": "tool_result", "content": output}])
    [opening, *inside, closing] = text.splitlines()[4:]
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


async def test_secrets_are_replaced_everywhere_in_every_format_unless_they_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    private = f"-----BEGIN PRIVATE KEY-----\n{body}\n{body}\n-----END PRIVATE KEY-----\n"
    async with world(tmp_path, monkeypatch, "offline") as here:
        # The answer is streamed in parts, and the second command has the key as JSON.
        await here.chat(
            think(f"I see {key} there"),
            run(f"echo {key}"),
            run("echo '" + json.dumps({"private_key": private}) + "'"),
            say(f"It is {key} or \\n{key}, of course."),
            name=f"about {key}",
            allowed_tools=["Bash"],
            attach=[f"echo@1.0.0::once:attached%20{key}"],
        )
        for format in ("markdown", "jsonl", "html"):
            call = {"name": f"about {key}", "format": format}
            parts = await here.call("claudecode.export", **call)
            text = "\n".join(part["text"] for part in parts)
            assert key not in text, format
            assert body not in text, format
            replaced = text.count("[REDACTED:aws-access-key]")
            assert "[REDACTED:private-key]" in text, format
            parts = await here.call("claudecode.export", **call, redact=False)
            whole = "\n".join(part["text"] for part in parts)
            # The prompt, thinking, a command, its result, twice in the answer, and an attachment.
            assert whole.count(key) == replaced >= 9, format
            assert body in whole, format


async def test_a_document_of_another_node_ends_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch, "offline") as here:
        await here.chat(say("one"))
        [_, answer] = await here.call("get_conversation", name="s")
        await here.chat(say("two"))
        parts = await here.call("claudecode.export", name="s", node_id=answer["node_id"])
        text = "\n".join(part["text"] for part in parts)
        assert "one" in text
        assert "two" not in text
