"""Outputs, files and pages reach models through `attach`, exactly as they were."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.bash.plugin import Bash
from hubd.plugins.cone.plugin import Cone
from hubd.plugins.file.plugin import File
from hubd.plugins.web.plugin import Web
from hubd.testing import InProcessHub, hub
from tests.fakes.hostile_web import HostileWeb, hostile_web, response
from tests.fakes.messages_api import FakeMessagesApi
from tests.plugins.claudecode import chat_support
from tests.plugins.claudecode.chat_support import asking, say, world

COMMAND = "echo one; echo two >&2; exit 2"
OUTPUT = (
    "[output, exit code 2: echo one; echo two >&2; exit 2]\n```\none\n```\n[stderr]\n```\ntwo\n```"
)
PAGE = b"<html><head><title>A page</title></head><body><p>Hello</p></body></html>"
ADDED = (
    "hubd.plugins.bash.plugin:Bash",
    "hubd.plugins.file.plugin:File",
    "hubd.plugins.web.plugin:Web",
)


class Sources:
    """Takes a handle of each source, and knows its text for a model."""

    def __init__(self, directory: Path, call: Any) -> None:
        self._file = directory / "notes.md"
        self._call = call

    async def handles(self, server: HostileWeb) -> dict[str, str]:
        server.answers["/page"] = response(PAGE, "Content-Type: text/html; charset=utf-8")
        url = f"{server.url}/page"
        self._file.write_text("Buy ```milk```\n")
        [*_, ended] = await self._call("bash.execute", command=COMMAND)
        [copied] = await self._call("file.snapshot", path=str(self._file))
        [fetched] = await self._call("web.fetch", url=url)
        # The handles keep the content as it was.
        self._file.unlink()
        day = datetime.now(UTC).date().isoformat()
        return {
            ended["handle"]: OUTPUT,
            copied["handle"]: f"[document, digest {copied['digest'][:12]}: {self._file}]\n"
            "````\nBuy ```milk```\n````",
            fetched["handle"]: f"[document, {day}: {url}]\n[title: A page]\n```\nHello\n```",
        }


@pytest.mark.soak
async def test_claude_gets_a_command_a_file_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_support, "PLUGINS", (*chat_support.PLUGINS, *ADDED))
    async with hostile_web() as server, world(tmp_path, monkeypatch, "claude") as claude:
        # `world` empties the environment of the hub.
        monkeypatch.setenv("HUBD_WEB_ALLOW_PRIVATE", "true")
        rendered = await Sources(tmp_path, claude.call).handles(server)
        await claude.chat(say("done"), attach=list(rendered))
        [(role, blocks)] = (await claude.model_messages())[:1]
        assert role == "user"
        assert [block["text"] for block in blocks] == [
            *rendered.values(),
            asking("claude", say("done")),
        ]


async def test_a_provider_gets_a_command_a_file_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    settings = {"web": {"allow_private": True}}
    async with (
        hostile_web() as server,
        FakeMessagesApi() as api,
        hub(Arbor(), Bash(), Cone(), File(), Web(), settings=settings) as running,
    ):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        h: InProcessHub = running.calling(cwd=tmp_path, env={"PATH": os.environ["PATH"]})

        async def call(method: str, **params: Any) -> list[dict[str, Any]]:
            return [event async for event in h.call(method, **params)]

        rendered = await Sources(tmp_path, call).handles(server)
        await call("cone.create", name="c", model_id="anthropic/m")
        await call("cone.chat", identifier="c", prompt="SAY[done]", attach=list(rendered))
        [messages] = api.conversations
        contents = [message["content"] for message in messages]
        assert contents == [*rendered.values(), "SAY[done]"]
        # The same handles as nodes of a tree.
        [created] = await call("arbor.tree_create")
        for handle in rendered:
            await call("arbor.node_create_external", tree_id=created["tree_id"], handle=handle)
        walked = await call("plexus.walk_and_resolve", tree_id=created["tree_id"])
        kinds = [event["kind"] for event in walked if event["type"] == "resolved"]
        assert kinds == ["output", "document", "document"]
