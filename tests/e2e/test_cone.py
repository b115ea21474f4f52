"""Cones in a real daemon: conversations survive a kill, and each caller has its environment."""

import asyncio
import json
from pathlib import Path

from tests.fakes.completions_api import FakeCompletionsApi
from tests.support import Daemon
from tests.synapse.support import synapse_process as synapse


def lines(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


async def test_a_conversation_survives_a_kill_and_continues(home: Path) -> None:
    with Daemon(home) as daemon:
        async with daemon.client() as client:
            await client.call("cone.create", {"name": "c", "system_prompt": "Be brief."})
            first = await client.call("cone.chat", {"identifier": "c", "prompt": "one"})
            handle = first[-2]["content"]["handle"]
            # Asked, and killed before the answer is there.
            await client.send("cone.chat", {"identifier": "c", "prompt": "two"})
            daemon.kill()
        daemon.start()
        async with daemon.client() as client:
            conversation = await client.call("cone.get_conversation", {"identifier": "c"})
            users = [
                item["content"] for item in conversation[:-1] if item["content"]["role"] == "user"
            ]
            assert [message["content"] for message in users] in (["one"], ["one", "two"])
            assert len(conversation) == 2 + 2 * len(users), (
                "no question without its answer on the path"
            )
            resolved = await client.call("plexus.resolve_handle", {"handle": handle})
            assert "You said: one" in resolved[0]["content"]["data"]["content"]
            third = await client.call("cone.chat", {"identifier": "c", "prompt": "three"})
            assert third[-2]["content"]["type"] == "chat_complete"


async def test_the_callers_environment_sets_the_address_of_the_model(home: Path) -> None:
    with Daemon(home, "--log-level", "debug") as daemon:
        async with FakeCompletionsApi() as api:

            def run(*words: str, **env: str) -> tuple[int, list[dict[str, object]], str]:
                result = synapse(*words, "--json", home=daemon.home, **env)
                return result.returncode, lines(result.stdout), result.stderr

            create_command = ("cone", "create", "--name", "c", "--model-id", "openai/tiny-1b")
            chat = ("cone", "chat", "--name", "c", "--prompt", "SAY[from a server of mine]")
            reach = {"OPENAI_BASE_URL": api.base_url, "OPENAI_API_KEY": "sk-mine"}
            nowhere = {"OPENAI_BASE_URL": "", "OPENAI_API_KEY": ""}
            await asyncio.to_thread(run, *create_command, **reach)
            status, events, _ = await asyncio.to_thread(run, *chat, **reach)
            assert status == 0
            pieces = [str(event["content"]) for event in events if "offset" in event]
            assert "".join(pieces) == "from a server of mine"
            assert api.requests[-1].headers["authorization"] == "Bearer sk-mine"
            behind = {"OPENAI_BASE_URL": api.base_url.replace("://", "://me:my-password@")}
            status, events, _ = await asyncio.to_thread(run, *chat, **behind)
            assert status == 0
            # Only the other caller had sent a key.
            status, events, stderr = await asyncio.to_thread(run, *chat, **nowhere)
            assert (status, events) == (5, [])
            assert "OPENAI_API_KEY" in stderr
        log = Path(daemon.paths.log).read_text()
        assert not [word for word in ("sk-mine", "my-password", "of mine") if word in log]
