"""The API of the real `claude` fails in the middle of a turn, after a tool was used."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.failing_api import ApiFailingAfterTools
from tests.plugins.claudecode.chat_support import World, is_sound, run, say, text_of, world


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "claude") as running, ApiFailingAfterTools() as api:
        running.api = api
        running.environment["ANTHROPIC_BASE_URL"] = api.url
        yield running


@pytest.fixture
def api(here: World) -> ApiFailingAfterTools:
    assert isinstance(here.api, ApiFailingAfterTools)
    return here.api


@pytest.mark.soak
@pytest.mark.parametrize("status", [400, 529, 401, 0])
async def test_blocks_before_an_api_failure_stay_and_the_next_chat_continues(
    here: World, api: ApiFailingAfterTools, status: int
) -> None:
    await here.chat(say("one"), allowed_tools=["Bash"])
    start = await here.head()
    api.status = status
    failed = await here.chat(run("echo seen | tee proof"), say("never said"))
    assert (here.cwd / "proof").read_text() == "seen\n"
    # The stream has the error. A cut connection has no status to quote.
    assert failed.status == "failed"
    assert failed.error
    if status:
        assert str(status) in failed.error
    assert failed.events[-1] == {
        **failed.events[-1],
        "type": "error",
        "message": failed.error,
        "code": "failed",
    }
    assert failed.of("complete") == []
    [result] = failed.of("tool_result")
    assert (result["output"], result["is_error"]) == ("seen", False)
    # The tree keeps the turn, and the session stands at the message that was finished: the one
    # with the tool call, not the program's own message about the error.
    finished = failed.of("assistant_message")[0]["position"]["node_id"]
    head = await here.head()
    assert head == finished != start
    node = (await here.one("arbor.node_get", **result["position"]))["node"]
    assert node["parent"] == head
    context = await here.context()
    assert is_sound(context)
    assert [role for role, _ in context] == ["user", "assistant", "user", "assistant", "user"]
    assert context[-1][1][0]["content"] == "seen"
    # The API is well again: it is asked with all of that, and the new prompt.
    api.status = None
    on = await here.chat(say("two"))
    assert (on.status, on.text) == ("complete", "two")
    messages = await here.model_messages()
    assert is_sound(messages)
    assert messages[:-1] == context[:-1]
    results, prompt = messages[-1][1]
    assert (results["type"], results["content"]) == ("tool_result", "seen")
    assert prompt == {"type": "text", "text": "SAY[two]"}
    assert "fake" not in str(messages)
    assert [text for role, text in text_of(await here.context()) if role == "assistant"] == [
        "one",
        "I will run it.",
        "two",
    ]


@pytest.mark.soak
async def test_claude_retries_a_temporary_failure_of_the_second_request(
    here: World, api: ApiFailingAfterTools
) -> None:
    api.status = 529
    stream = await here.begin(run("echo seen"), say("after all"), allowed_tools=["Bash"])
    await here.until(stream, lambda event: "retry" in event.get("event_type", ""))
    api.status = None
    ended = await here.end_of(stream)
    assert (ended.status, ended.error) == ("complete", None)
    assert ended.text.endswith("after all")
    last = ended.of("assistant_message")[-1]["position"]["node_id"]
    assert await here.head() == last == ended.events[-1]["new_head"]["node_id"]
