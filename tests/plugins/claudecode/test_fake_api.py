"""The fake Messages API, tried by the only client that counts: the real `claude` program."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent_process import Program, claude_program
from tests.fakes.messages_api import FakeMessagesApi
from tests.fakes.script import SIGNATURE, answer_to


@pytest.fixture
async def api() -> AsyncIterator[FakeMessagesApi]:
    async with FakeMessagesApi() as running:
        yield running


class Claude(Program):
    """The real program, with a fake API."""

    def __init__(self, directory: Path, api: FakeMessagesApi) -> None:
        retries = {"CLAUDE_CODE_MAX_RETRIES": "3"}
        super().__init__(directory, claude_program(), api_url=api.url, **retries)
        self.api = api


@pytest.fixture(params=[pytest.param("claude", marks=pytest.mark.soak)])
def claude(tmp_path: Path, api: FakeMessagesApi) -> Claude:
    return Claude(tmp_path, api)


def texts(conversation: list[dict[str, Any]]) -> str:
    return json.dumps(conversation)


async def test_the_fake_api_follows_the_directives_of_the_prompt(claude: Claude) -> None:
    output = await claude.ask("SAY[two words]")
    assert output.blocks("assistant") == [{"type": "text", "text": "two words"}]
    assert output.lines[-1]["result"] == "two words"
    assert output.lines[-1]["usage"]["output_tokens"] == 8


async def test_a_prompt_without_directives_is_echoed(claude: Claude) -> None:
    output = await claude.ask("hello there")
    assert output.lines[-1]["result"] == "echo: hello there"


async def test_thinking_reaches_claude_with_its_signature(claude: Claude) -> None:
    output = await claude.ask("THINK[two and two] SAY[four]")
    thought, spoken = output.blocks("assistant")
    assert thought == {"type": "thinking", "thinking": "two and two", "signature": SIGNATURE}
    assert spoken["text"] == "four"


async def test_claude_runs_a_tool_and_sends_its_result(claude: Claude) -> None:
    output = await claude.ask("RUN_BASH[touch made && echo done]", "--allowedTools", "Bash")
    assert (claude.cwd / "made").exists()
    assert output.lines[-1]["result"] == "final answer; tool said: done"
    assert len(claude.api.conversations) == 2


async def test_directives_after_a_tool_are_followed_after_its_result(claude: Claude) -> None:
    # Quoted: the shell may be one that looks for a file of such a name.
    prompt = "RUN_BASH[echo 'a[0]'] RUN_BASH[echo b] SAY[both done]"
    output = await claude.ask(prompt, "--allowedTools", "Bash")
    assert [block["content"] for block in output.blocks("user")] == ["a[0]", "b"]
    assert output.lines[-1]["result"] == "both done"


async def test_two_tools_of_one_message_are_both_run(claude: Claude) -> None:
    calls = [{"name": "Bash", "input": {"command": f"echo {word}"}} for word in ("one", "two")]
    prompt = f"SAY[two at once] TOOLS{json.dumps(calls)}"
    output = await claude.ask(prompt, "--allowedTools", "Bash")
    used = [block["id"] for block in output.blocks("assistant") if block["type"] == "tool_use"]
    results = {block["tool_use_id"]: block["content"] for block in output.blocks("user")}
    assert [results[key] for key in used] == ["one", "two"]
    identities = {line["message"]["id"] for line in output.of_type("assistant")[:3]}
    assert len(identities) == 1


async def test_claude_retries_an_overloaded_api(claude: Claude) -> None:
    output = await claude.ask("STATUS[529 x2] SAY[recovered]")
    retries = output.of_type("system", "api_retry")
    assert [(retry["attempt"], retry["error_status"]) for retry in retries] == [(1, 529), (2, 529)]
    assert output.lines[-1]["result"] == "recovered"
    assert len(claude.api.conversations) == 3


async def test_a_permanent_error_is_in_the_result(claude: Claude) -> None:
    output = await claude.ask("STATUS[400]", status=1)
    result = output.lines[-1]
    assert (result["subtype"], result["is_error"]) == ("success", True)
    assert result["api_error_status"] == 400


async def test_claude_requests_the_answer_again_after_a_cut_connection(claude: Claude) -> None:
    output = await claude.ask("CUT[half a senten] SAY[a whole sentence]")
    assert output.lines[-1]["result"] == "a whole sentence"
    assert len(claude.api.conversations) == 2


async def test_a_slow_answer_arrives_complete(claude: Claude) -> None:
    output = await claude.ask("SLOW[0.2] SAY[one piece after the other]")
    assert output.lines[-1]["result"] == "one piece after the other"


async def test_a_resumed_session_sends_the_earlier_messages(claude: Claude) -> None:
    first = await claude.ask("first SAY[alpha]")
    session = first.lines[-1]["session_id"]
    second = await claude.ask("second SAY[beta]", f"--resume={session}")
    assert second.lines[-1]["session_id"] == session
    sent = texts(claude.api.conversations[-1])
    assert sent.index("first SAY[alpha]") < sent.index('"alpha"') < sent.index("second SAY[beta]")


async def test_a_fork_at_a_message_sends_only_the_messages_before_it(claude: Claude) -> None:
    first = await claude.ask("first SAY[alpha]")
    session = first.lines[-1]["session_id"]
    at = first.of_type("assistant")[-1]["uuid"]
    await claude.ask("second SAY[beta]", f"--resume={session}")
    flags = (f"--resume={session}", "--fork-session", "--resume-session-at", at)
    third = await claude.ask("third SAY[gamma]", *flags)
    assert third.lines[-1]["session_id"] != session
    sent = texts(claude.api.conversations[-1])
    assert "first SAY[alpha]" in sent
    assert "third SAY[gamma]" in sent
    assert "beta" not in sent


async def test_an_interrupt_ends_a_turn_that_hangs_and_the_next_one_works(claude: Claude) -> None:
    async with claude.talk() as running:
        await running.say("SAY[never finished] HANG[]")
        await running.until(lambda line: "content_block_delta" in json.dumps(line))
        await running.interrupt()
        interrupted = await running.turn()
        assert interrupted[-1]["subtype"] == "error_during_execution"
        assert interrupted[-1]["terminal_reason"] == "aborted_streaming"
        await running.say("SAY[still alive]")
        assert (await running.turn())[-1]["result"] == "still alive"
        assert await running.end() == 0
    assert await claude.survivors() == set()


async def test_the_requests_are_kept_with_path_and_body(claude: Claude) -> None:
    await claude.ask("SAY[x]", "--append-system-prompt", "a marker")
    [request] = claude.api.requests
    assert (request.method, request.path) == ("POST", "/v1/messages?beta=true")
    assert "a marker" in json.dumps(request.body["system"]) + texts(request.body["messages"])


async def exchange(api: FakeMessagesApi, request: str) -> bytes:
    """One raw request, and all that comes back."""
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request.encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in answer.split(b"\r\n") if line.startswith(b"Content-Length"))
    answer += await reader.readexactly(int(length.split(b":")[1]))
    writer.close()
    await writer.wait_closed()
    return answer


async def test_probes_token_counts_and_requests_that_do_not_stream_are_answered(
    api: FakeMessagesApi,
) -> None:
    assert (await exchange(api, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 200")
    body = '{"messages": []}'
    head = f"Host: x\r\nContent-Length: {len(body)}\r\n\r\n"
    counted = await exchange(api, f"POST /v1/messages/count_tokens HTTP/1.1\r\n{head}{body}")
    assert json.loads(counted.partition(b"\r\n\r\n")[2])["input_tokens"] > 0
    body = '{"messages": [{"role": "user", "content": "THINK[hm] SAY[yes]"}]}'
    head = f"Host: x\r\nContent-Length: {len(body)}\r\n\r\n"
    whole = await exchange(api, f"POST /v1/messages HTTP/1.1\r\n{head}{body}")
    message = json.loads(whole.partition(b"\r\n\r\n")[2])
    assert [block["type"] for block in message["content"]] == ["thinking", "text"]
    assert message["stop_reason"] == "end_turn"
    unknown = await exchange(api, f"POST /v1/nothing HTTP/1.1\r\n{head}{body}")
    assert unknown.startswith(b"HTTP/1.1 404")


def test_a_prompt_with_results_of_an_interrupted_tool_is_a_new_prompt() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    note = {"type": "text", "text": "[Request interrupted by user for tool use]"}
    prompt = {"type": "text", "text": "SAY[fresh]"}
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "RUN_BASH[x]"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result, note, prompt]},
        {"role": "system", "content": "a reminder of claude's own"},
    ]
    answer = answer_to(messages)
    assert [block.text for block in answer.blocks] == ["fresh"]
    assert answer.step == 0
