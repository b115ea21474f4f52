"""The async client against a real daemon."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hubd.client import Hub, Question, connection
from hubd.errors import (
    Cancelled,
    ExecutionError,
    InvalidParams,
    MethodNotFound,
    Overloaded,
    Unauthenticated,
    Unavailable,
)
from tests import schema_file
from tests.client.conftest import Address
from tests.support import PATIENCE_SECONDS, Daemon, hubd


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 -- another process sets it
            await asyncio.sleep(0.01)


async def test_a_call_yields_the_contents_of_its_events(address: Address) -> None:
    async with Hub.connect(**address) as hub:
        assert hub.name == "lab"
        events = [event async for event in hub.call("echo.echo", message="hi", count=3)]
        assert [event["count"] for event in events] == [1, 2, 3]
        resolved = await hub.resolve(events[0]["handle"])
        assert (resolved["kind"], resolved["data"]["message"]) == ("output", "hi")
        assert (await hub.schema("echo"))["namespace"] == "echo"
        assert "echo" in [child["namespace"] for child in (await hub.schema())["children"]]


async def test_a_failed_call_raises_its_typed_error(address: Address) -> None:
    async with Hub.connect(**address) as hub:
        with pytest.raises(MethodNotFound) as unknown:
            await hub.call_one("echo.onse", message="hi")
        assert "once" in unknown.value.suggestion
        assert "once" in unknown.value.available
        with pytest.raises(InvalidParams):
            await hub.call_one("echo.once")
        with pytest.raises(ExecutionError, match="sent 2 events, not one"):
            await hub.call_one("echo.echo", message="hi", count=2)


async def test_many_calls_share_a_connection(address: Address) -> None:
    async with Hub.connect(**address) as hub:
        names = [f"m{number}" for number in range(50)]
        calls = [hub.call_one("echo.once", message=name) for name in names]
        events = await asyncio.gather(*calls)
        assert [event["message"] for event in events] == names


async def test_leaving_the_loop_cancels_the_call(address: Address, tmp_path: Path) -> None:
    marker = tmp_path / "ended"
    async with Hub.connect(**address) as hub:
        async with aclosing(hub.call("trouble.hang", marker=str(marker))) as events:
            assert (await anext(events))["text"] == "hanging"
        await until(marker.exists)
        assert (await hub.call_one("echo.ping"))["message"] == "pong"


async def test_a_cancelled_task_cancels_its_call(address: Address, tmp_path: Path) -> None:
    marker = tmp_path / "ended"
    async with Hub.connect(**address) as hub:
        waiting = asyncio.create_task(hub.call_one("trouble.hang", marker=str(marker)))
        # The hub answers in order, so the first call runs when the second is answered.
        await asyncio.sleep(0)
        await hub.call_one("echo.ping")
        waiting.cancel()
        await asyncio.wait([waiting])
        await until(marker.exists)


async def test_a_function_answers_questions(address: Address) -> None:
    kinds: list[str] = []

    async def answer(question: Question) -> Any:
        kinds.append(question.kind)
        return {"confirm": True, "prompt": "Ada", "select": "g", "custom": 7}[question.kind]

    async with Hub.connect(**address) as hub:
        event = await hub.calling(answer=answer).call_one("trouble.ask_all")
        assert event["text"] == "True Ada g 7"
        assert kinds == ["confirm", "prompt", "select", "custom"]


async def test_questions_are_declined_without_a_function(address: Address) -> None:
    async with Hub.connect(**address) as hub:
        with pytest.raises(Cancelled):
            await hub.call_one("trouble.ask_confirm")


async def test_a_question_that_was_closed_before_it_is_read_is_not_asked(address: Address) -> None:
    asked: list[Question] = []
    async with Hub.connect(**address) as hub:
        caller = hub.calling(answer=asked.append)
        async with aclosing(hub.items("trouble.ask_confirm", wait=0.001)) as items:
            request = await anext(items)
            async for item in items:
                if item["type"] == "request_closed":
                    break
        assert hub.is_closed(request["requestId"])
        question = Question.from_item("trouble.ask_confirm", request)
        assert await caller._answer(question, request["requestId"]) is None
    assert asked == []


async def test_an_answer_that_takes_too_long_is_given_up(address: Address) -> None:
    async def answer(question: Question) -> bool:
        await asyncio.Event().wait()
        return True

    async with Hub.connect(**address) as hub:
        caller = hub.calling(answer=answer)
        event = await caller.call_one("trouble.ask_confirm", default=False, wait=0.1)
        assert event["text"] == "False"


async def test_progress_reaches_a_function(address: Address) -> None:
    reports: list[tuple[str, float | None]] = []
    async with Hub.connect(**address) as hub:
        caller = hub.calling(progress=lambda *report: reports.append(report))
        texts = [event["text"] async for event in caller.call("trouble.with_progress")]
        assert texts == ["first", "second"]
    assert reports == [("half way", 50.0)]


async def test_the_unix_socket_carries_the_caller_context(hub_process: Daemon) -> None:
    async with Hub.connect(home=hub_process.home) as hub:
        caller = hub.calling(cwd="/somewhere", env={"GREETING": "hello"})
        assert (await caller.call_one("trouble.where"))["text"] == "/somewhere hello"
    url = hub_process.record["ws_url"]
    async with Hub.connect(url=url, token=hub_process.token) as hub:
        with pytest.raises(InvalidParams, match="only the Unix socket"):
            await hub.calling(cwd="/somewhere").call_one("trouble.where")


async def test_a_loop_that_calls_is_not_blocked_by_its_own_unread_events(
    address: Address,
) -> None:
    async with Hub.connect(**address) as hub:
        # 4 MiB of events, of which the loop reads one before each call.
        async for _ in hub.call("trouble.count", to=64, pad=64 * 1024):
            await hub.call_one("echo.ping")


async def test_unread_events_are_bounded(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_UNREAD_BYTES", 4 * 1024 * 1024)
    async with Hub.connect(**address) as hub:
        async with aclosing(hub.call("trouble.count", pad=64 * 1024)) as events:
            await anext(events)
            # Nothing waits, so the client stops reading.
            with pytest.raises(Overloaded, match="unread"):
                await _read_after(hub, events)
        assert (await hub.call_one("echo.ping"))["message"] == "pong"


async def _read_after(hub: Hub, events: Any) -> None:
    """Let another call wait without end, so that the client reads on; then read the rest."""
    silent = asyncio.create_task(hub.call_one("trouble.silent"))
    await until(lambda: any(call.failure for call in hub._connection._running.values()))
    silent.cancel()
    async for _ in events:
        pass


async def test_a_lost_connection_ends_the_calls(home: Path) -> None:
    with Daemon(home, "--plugin", "tests.sample_plugins.trouble:Trouble") as daemon:
        async with Hub.connect(home=home) as hub:
            waiting = asyncio.create_task(hub.call_one("trouble.silent"))
            await hub.call_one("echo.ping")
            daemon.kill()
            with pytest.raises(Unavailable, match="closed the connection"):
                await waiting
            with pytest.raises(Unavailable):
                await hub.call_one("echo.ping")


async def test_a_wrong_token_is_refused(hub_process: Daemon) -> None:
    with pytest.raises(Unauthenticated):
        async with Hub.connect(url=hub_process.record["ws_url"], token="wrong"):
            pass


async def test_without_a_daemon_the_error_names_the_remedy(home: Path) -> None:
    with pytest.raises(Unavailable) as failed:
        async with Hub.connect(home=home):
            pass
    assert "hubd start" in failed.value.suggestion
    with pytest.raises(Unavailable, match="no hub answers"):
        async with Hub.connect(url="ws://127.0.0.1:1"):
            pass


async def test_autostart_starts_the_daemon(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBD_PORT", "0")
    monkeypatch.setenv("HUBD_MCP_PORT", "0")
    schema_file.bring(home)
    try:
        async with Hub.connect(home=home, autostart=True) as hub:
            assert (await hub.call_one("echo.ping"))["message"] == "pong"
    finally:
        hubd("stop", home=home)
