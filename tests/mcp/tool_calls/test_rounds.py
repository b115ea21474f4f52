"""Questions in protocol 2026-07-28, with hand-written requests: states, answers, expiry."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from hubd.mcp import calls as mcp_calls
from hubd.mcp.server import HubMcp
from tests.mcp.desk import (
    WAYS,
    Desk,
    Person,
    attached,
    said_in,
    saying,
)
from tests.mcp.support import (
    MODERN,
    TOKEN,
    Served,
    Transport,
    connected,
    over_http,
    registered,
    serving,
)
from tests.support import PATIENCE_SECONDS, McpDaemon


async def ask(client: Client, name: str, arguments: dict[str, Any] | None = None) -> str:
    """Call a tool that asks; returns the state to come back with."""
    result = await client.session.call_tool(name, arguments or {}, allow_input_required=True)
    assert isinstance(result, InputRequiredResult)
    assert result.input_requests is not None
    [(key, request)] = result.input_requests.items()
    assert key == "answer"
    assert isinstance(request, ElicitRequest)
    assert result.request_state is not None
    return result.request_state


async def come_back(
    client: Client,
    state: str,
    *,
    name: str = "desk.confirm",
    arguments: dict[str, Any] | None = None,
    key: str = "answer",
    value: Any = True,
) -> CallToolResult | InputRequiredResult:
    return await client.session.call_tool(
        name,
        arguments or {},
        input_responses={key: ElicitResult(action="accept", content={"value": value})},
        request_state=state,
        allow_input_required=True,
    )


async def calls_of(served: Served) -> mcp_calls.ToolCalls:
    server: HubMcp = await served.lazy.server()
    return server._calls


async def leaves_nothing(served: Served) -> None:
    """Check that all calls have ended and are forgotten."""
    calls = await calls_of(served)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while tasks := [one.task for one in served.lazy.clients.calls._running]:
            await asyncio.wait(tasks)
    assert calls._parked == {}
    assert calls._asking == set()
    assert calls._active == 0
    assert served.lazy.clients.questions._waiting == {}


@pytest.fixture
def asker() -> Person:
    """Makes a client one that can be asked; tests answer by themselves."""
    return saying(True)


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_an_answer_is_good_for_one_time(
    tmp_path: Path, transport: Transport, asker: Person
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, MODERN, elicitation_callback=asker) as client,
    ):
        state = await ask(client, "desk.confirm")
        [waiting] = (await calls_of(served))._parked.values()
        result = await come_back(client, state)
        assert isinstance(result, CallToolResult)
        assert said_in(result) == "sure: True"
        assert waiting.expiry is not None
        assert waiting.expiry.cancelled()
        with pytest.raises(MCPError) as caught:
            await come_back(client, state)
        assert caught.value.code == INVALID_PARAMS
        assert caught.value.message == (
            "no call waits for this answer: it has ended, or the daemon was restarted"
        )
        await leaves_nothing(served)


async def test_of_two_answers_at_once_one_counts(tmp_path: Path, asker: Person) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "http", MODERN, elicitation_callback=asker) as client,
    ):
        state = await ask(client, "desk.confirm")
        both = await asyncio.gather(
            come_back(client, state), come_back(client, state), return_exceptions=True
        )
        assert sorted(type(result).__name__ for result in both) == ["CallToolResult", "MCPError"]
        await leaves_nothing(served)


async def test_another_client_may_bring_the_answer(tmp_path: Path, asker: Person) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "stdio", MODERN, elicitation_callback=asker) as first,
        attached(served, tmp_path, "http", MODERN, elicitation_callback=asker) as second,
    ):
        result = await come_back(second, await ask(first, "desk.confirm"))
        assert isinstance(result, CallToolResult)
        assert said_in(result) == "sure: True"


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "v1.AAAA"},
        {"state": ""},
        {"name": "desk.prompt"},
        {"arguments": {"default": True}},
    ],
    ids=["forged", "empty", "another tool", "other arguments"],
)
async def test_a_state_that_was_not_given_out_for_this_call_is_refused(
    tmp_path: Path, asker: Person, changed: dict[str, Any]
) -> None:
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "http", MODERN, elicitation_callback=asker) as client,
    ):
        state = await ask(client, "desk.confirm")
        with pytest.raises(MCPError) as caught:
            await come_back(client, **{"state": state, **changed})
        assert caught.value.code == INVALID_PARAMS
        assert not desk.ended.is_set()
        # The call still waits for the right one.
        result = await come_back(client, state)
        assert isinstance(result, CallToolResult)


async def test_another_session_cannot_answer_a_question(tmp_path: Path, asker: Person) -> None:
    def speaking_for(session: str) -> Any:
        headers = {"X-Plexus-Session": session}
        return over_http(served.url, TOKEN, MODERN, headers=headers, elicitation_callback=asker)

    async with (
        serving(tmp_path, Desk()) as served,
        registered(served, "one", "another"),
        speaking_for("one") as first,
        speaking_for("another") as second,
    ):
        state = await ask(first, "desk.confirm")
        with pytest.raises(MCPError) as caught:
            await come_back(second, state)
        assert caught.value.code == INVALID_PARAMS
        assert isinstance(await come_back(first, state), CallToolResult)


async def test_an_answer_to_another_question_is_asked_for_again(
    tmp_path: Path, asker: Person
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "http", MODERN, elicitation_callback=asker) as client,
    ):
        state = await ask(client, "desk.confirm")
        again = await come_back(client, state, key="something else")
        assert isinstance(again, InputRequiredResult)
        assert again.input_requests is not None
        [request] = again.input_requests.values()
        assert isinstance(request.params, ElicitRequestFormParams)
        assert request.params.message == "Sure? (the request had no answer)"
        assert again.request_state is not None
        assert again.request_state != state
        result = await come_back(client, again.request_state)
        assert isinstance(result, CallToolResult)
        await leaves_nothing(served)


async def test_progress_before_a_question_is_reported_first(tmp_path: Path, asker: Person) -> None:
    told: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "stdio", MODERN, elicitation_callback=asker) as client,
    ):
        state = await ask(client, "desk.interview", {"questions": 2})
        again = await client.session.call_tool(
            "desk.interview",
            {"questions": 2},
            input_responses={"answer": ElicitResult(action="accept", content={"value": "a"})},
            request_state=state,
            allow_input_required=True,
            progress_callback=hear,
        )
        assert isinstance(again, InputRequiredResult)
        assert told == ["0: a"]
        (await calls_of(served)).close()


async def test_a_call_without_an_answer_to_its_question_expires(
    tmp_path: Path, asker: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_calls, "PARKED_SECONDS", 0.05)
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "http", MODERN, elicitation_callback=asker) as client,
    ):
        state = await ask(client, "desk.confirm")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await desk.ended.wait()
        await leaves_nothing(served)
        with pytest.raises(MCPError) as caught:
            await come_back(client, state)
        assert caught.value.code == INVALID_PARAMS


async def test_a_result_is_deleted_with_its_cancelled_call(tmp_path: Path, asker: Person) -> None:
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "http", MODERN, elicitation_callback=asker) as client,
    ):
        calls = await calls_of(served)
        await ask(client, "desk.fill_after_asking", {"wait": 0.01, "size": 100_000})
        await desk.ended.wait()
        assert len(list((tmp_path / "results").iterdir())) == 1
        calls.close()
        assert list((tmp_path / "results").iterdir()) == []
        await leaves_nothing(served)


async def test_of_too_many_calls_that_wait_the_oldest_is_ended(
    tmp_path: Path, asker: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "http", MODERN, elicitation_callback=asker) as client,
    ):
        first = await ask(client, "desk.confirm")
        second = await ask(client, "desk.confirm")
        # A limit that is reached by those which wait; calls themselves have room.
        calls = await calls_of(served)
        monkeypatch.setattr(mcp_calls, "MAX_CALLS", 2)
        calls._active -= 2
        third = await ask(client, "desk.confirm")
        calls._active += 2
        with pytest.raises(MCPError):
            await come_back(client, first)
        for state in (second, third):
            assert isinstance(await come_back(client, state), CallToolResult)
        await leaves_nothing(served)


async def test_a_call_that_waits_ends_with_the_hub(tmp_path: Path, asker: Person) -> None:
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "http", MODERN, elicitation_callback=asker) as client,
    ):
        await ask(client, "desk.confirm")
        assert not desk.ended.is_set()
    assert desk.ended.is_set()


async def test_a_call_that_waits_ends_with_the_server_that_it_came_to(
    tmp_path: Path, asker: Person
) -> None:
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "http", MODERN, elicitation_callback=asker) as client,
    ):
        state = await ask(client, "desk.confirm")
        # The hub goes on; the next client gets another server.
        assert served.lazy._task is not None
        served.lazy._task.cancel()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await desk.ended.wait()
        with pytest.raises(MCPError) as caught:
            await come_back(client, state)
        assert caught.value.code == INVALID_PARAMS
        await leaves_nothing(served)


async def test_an_answer_that_comes_after_a_restart_is_refused(home: Path, asker: Person) -> None:
    daemon = McpDaemon(home, "--plugin", "tests.mcp.desk:Desk")
    with daemon:
        async with connected(daemon, "http", MODERN, elicitation_callback=asker) as client:
            state = await ask(client, "desk.confirm")
    with daemon:
        async with connected(daemon, "http", MODERN, elicitation_callback=asker) as client:
            with pytest.raises(MCPError) as caught:
                await come_back(client, state)
            assert caught.value.code == INVALID_PARAMS


async def test_a_daemon_asks_through_http_and_the_bridge(home: Path) -> None:
    with McpDaemon(home, "--plugin", "tests.mcp.desk:Desk") as daemon:
        for transport, era in WAYS:
            async with connected(
                daemon, transport, era, elicitation_callback=saying("Ada")
            ) as client:
                assert said_in(await client.call_tool("desk.prompt", {})) == "name: Ada"
