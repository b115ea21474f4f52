"""Numbers and texts that no system takes, in every parameter: refused in words, or harmless."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Context
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.bash.plugin import Bash
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.cone.plugin import Cone
from hubd.plugins.web.plugin import Web
from tests.support import PATIENCE_SECONDS, Collector, hub_with

EXTREME: dict[str, list[Any]] = {
    "integer": [2**63, -(2**63) - 1, 2**70],
    "number": [1e308, 9007199254740993],
    "string": ["a\0b", "x" * 300, "/" + "a/" * 3000, "~no-such-user/x"],
}
# What other parameters of the same call are, if they are required.
ORDINARY: dict[str, Any] = {
    "command": "true",
    "content": "x",
    "consumer": "c",
    "handle": "echo@1.0.0::echo:x",
    "identifier": "c",
    "metadata": {},
    "name": "s",
    "new_name": "fork",
    "prompt": "hello",
    "seq": 0,
    "fetch_id": "550e8400",
    "url": "http://127.0.0.1:1/",
}


def types_of(schema: dict[str, Any], definitions: dict[str, Any]) -> set[str]:
    """The JSON types that a parameter takes."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    types = {schema["type"]} if isinstance(schema.get("type"), str) else set()
    return types.union(*(types_of(each, definitions) for each in schema.get("anyOf", ())))


def extreme_calls(hub: Hub, namespace: str, known: dict[str, Any]) -> list[tuple[str, Any]]:
    """A call for every parameter of every method, and every value that is too much for it."""
    calls: list[tuple[str, Any]] = []
    for name, method in hub.find([namespace]).activation.methods.items():
        schema = method.params_schema
        for parameter, field in schema.get("properties", {}).items():
            if name in ("chat", "chat_async") and parameter != "working_dir":
                continue  # would start an agent
            params = {each: known[each] for each in schema.get("required", ()) if each in known}
            others = {"session_id", "stream_id", "identifier"}
            if "name" in schema["properties"] and parameter not in others:
                params["name"] = "s"
            for kind in sorted(types_of(field, schema.get("$defs", {})) & EXTREME.keys()):
                path = f"{namespace}.{name}"
                calls += [(path, {**params, parameter: value}) for value in EXTREME[kind]]
    return calls


async def test_no_parameter_causes_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "offline")
    claudecode = ClaudeCode()

    async def items(method: str, params: Any) -> list[dict[str, Any]]:
        caller = Collector(Context(cwd=str(tmp_path)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await Call(hub, method, params, caller).run()
        return caller.items

    async with (
        hub_with(tmp_path, Arbor(), Bash(), Cone(), Web(), claudecode) as hub,
    ):
        await items("claudecode.chat", {"name": "s", "prompt": "say: hi"})
        await items("cone.create", {"name": "c"})
        [created, _] = await items("arbor.tree_create", {})
        tree_id = created["content"]["tree_id"]
        [node, _] = await items("arbor.node_create_text", {"tree_id": tree_id, "content": "x"})
        values = {**ORDINARY, "tree_id": tree_id, "node_id": node["content"]["node_id"]}
        wrong = []
        for namespace in ("bash", "claudecode", "cone", "arbor", "web"):
            for method, params in extreme_calls(hub, namespace, values):
                last = (await items(method, params))[-2:][0]
                if last["type"] == "error" and last["code"] in ("internal", "execution_error"):
                    wrong.append((method, str(params)[:80], last["message"][:80]))
        assert wrong == []
    assert [record for record in caplog.records if record.exc_info] == []
