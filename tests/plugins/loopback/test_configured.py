"""A `claude` that hubd did not start asks for approvals over MCP."""

import asyncio
import json
import stat
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.fakes.agent_process import claude_program
from tests.plugins.loopback.support import Failure, desk
from tests.support import PATIENCE_SECONDS, few


@pytest.mark.claude
@pytest.mark.parametrize("approve", few([True, False], 1))
async def test_another_claude_asks_over_mcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, approve: bool
) -> None:
    async with desk(tmp_path, "claude", monkeypatch) as person:
        configured = await person.one("loopback.configure", session="outside")
        assert stat.S_IMODE(Path(configured["file"]).stat().st_mode) == 0o600
        command = [claude_program(), *configured["flags"], "--strict-mcp-config"]
        command += ["-p", "--output-format=json", "--", "RUN_BASH[echo x >> ran]"]
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=person.cwd,
            env=person.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        waited = await person.one("loopback.wait_for_approval", timeout_secs=PATIENCE_SECONDS)
        [approval] = waited["approvals"]
        assert approval["tool_name"] == "Bash"
        assert "session_id" not in approval
        await person.answer(approval, approve)
        async with asyncio.timeout(PATIENCE_SECONDS):
            output, _ = await process.communicate()
        assert json.loads(output)["type"] == "result"
        assert person.lines_in() == int(approve)


async def test_its_token_may_ask_for_approvals_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        first = await person.one("loopback.configure", session="outside")
        server = json.loads(Path(first["file"]).read_text())["mcpServers"]["plexus"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        }
        headers = {
            **server["headers"],
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/list",
        }
        async with httpx2.AsyncClient(verify=False, timeout=PATIENCE_SECONDS) as http:
            answer = await http.post(
                server["url"], json={**body, "params": {"_meta": meta}}, headers=headers
            )
            names = [tool["name"] for tool in answer.json()["result"]["tools"]]
            assert names == ["loopback.permit"]
            headers["Authorization"] = "Bearer another"
            refused = await http.post(server["url"], json=body, headers=headers)
            assert refused.status_code == 401


async def test_an_approval_whose_agent_has_left_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        call = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "toolu_1"}
        async with person.daemon.client() as client:
            await client.send("plexus.call", {"method": "loopback.permit", "params": call})
            waited = await person.one("loopback.wait_for_approval", timeout_secs=10)
            [approval] = waited["approvals"]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await person.one("loopback.pending"))["approvals"]:  # noqa: ASYNC110
                await asyncio.sleep(0)
        with pytest.raises(Failure, match="needs no answer any more"):
            await person.answer(approval)
