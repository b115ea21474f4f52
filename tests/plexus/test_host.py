"""Calls, handles, questions and threads of a plugin, through its host."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Activation, Context, Event, ExecutionError, method
from hubd.plexus.dispatch import Call
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.plexus.root import build_hub
from hubd.plugins.echo import EchoPlugin
from hubd.wire.caller import HUB
from hubd.wire.item import Item
from hubd.wire.item import Request as RequestItem
from tests.sample_plugins.trouble import Trouble
from tests.support import Collector, call_error, call_events, hub_with


class Line(Event):
    text: str


setting: ContextVar[str] = ContextVar("setting")


def in_words(place: str, *, suffix: str) -> str:
    assert threading.current_thread() is not threading.main_thread()
    return f"{setting.get()}, {place}{suffix}"


class Nosy(Activation, namespace="nosy", version="1.0.0"):
    """Uses other plugins through the hub."""

    @method
    async def first(self, of: str, count: int) -> AsyncIterator[Line]:
        """Take only the first event of a long stream."""
        async with self.host.call(of, message="x", count=count) as events:
            async for event in events:
                yield Line(text=str(event["count"]))
                break

    @method(streaming=False)
    async def summary(self, handle: str) -> AsyncIterator[Line]:
        """Resolve a handle of another plugin."""
        resolved = await self.host.resolve(handle)
        yield Line(text=f"{resolved.kind}: {resolved.summary}")

    @method(streaming=False, bidirectional=True)
    async def ask_through(self) -> AsyncIterator[Line]:
        """Call a method that asks."""
        async with self.host.call("trouble.ask_confirm") as events:
            async for event in events:
                yield Line(text=event["text"])

    @method
    async def only(self, of: str, count: int) -> Line:
        """Take the only event of a method."""
        event = await self.host.call_one(of, message="x", count=count)
        return Line(text=event["message"])

    @method
    async def none(self, message: str, count: int) -> AsyncIterator[Line]:
        """Send nothing."""
        for _ in range(0):
            yield Line(text="")

    @method
    async def calculate(self) -> Line:
        """Calculate in a thread."""
        setting.set("the caller's")
        text = await self.host.in_thread(in_words, "here", suffix="!")
        return Line(text=text)

    @method
    async def nested_mistake(self) -> Line:
        """Call a method without its parameter."""
        async with self.host.call("echo.once") as events:
            [line] = [Line(text=str(event)) async for event in events]
        return line

    @method
    async def fails(self) -> Line:
        """Fail without advice."""
        raise ExecutionError("it did not work")

    @method
    async def nested_failure(self) -> Line:
        """Call a method that fails."""
        async with self.host.call("nosy.fails") as events:
            [line] = [Line(text=str(event)) async for event in events]
        return line

    @method(streaming=False)
    async def nested_context(self) -> AsyncIterator[Line]:
        """Return the working directory that a nested call sees."""
        async with self.host.call("trouble.where") as events:
            async for event in events:
                yield Line(text=event["text"])


class Answering(Collector):
    """A caller that answers every question from a list."""

    def __init__(self, host: PlexusHost, *answers: Any) -> None:
        super().__init__()
        self._host = host
        self._answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.problems: list[str | None] = []

    async def send(self, item: Item) -> None:
        self.post(item)
        if isinstance(item, RequestItem):
            self.asked.append(item.request_data)
            if self._answers:
                problem = self._host.questions.answer(
                    item.request_id, self._answers.pop(0), self.client.actor
                )
                self.problems.append(problem)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, EchoPlugin(), Trouble(), Nosy()) as built:
        yield built


def host_of(hub: Hub) -> PlexusHost:
    host = hub.find(["nosy"]).activation.host
    assert isinstance(host, PlexusHost)
    return host


async def ask(hub: Hub, method: str, *answers: Any, **params: Any) -> Answering:
    caller = Answering(host_of(hub), *answers)
    await Call(hub, method, params, caller).run()
    return caller


async def test_a_plugin_calls_another_through_the_hub(hub: Hub) -> None:
    [event] = await call_events(hub, "trouble.relay", to="echo.once", message="hello")
    assert event["text"] == "hello"


async def test_an_error_of_a_nested_call_ends_the_outer_call(hub: Hub) -> None:
    error = await call_error(hub, "trouble.relay", to="echo.onec", message="x")
    assert error["code"] == "method_not_found"
    assert error["guidance"]["suggestion"] == "Did you mean once?"
    assert error["metadata"]["provenance"] == ["plexus", "trouble", "relay"]


async def test_invalid_params_of_a_nested_call_are_a_defect_of_the_plugin(hub: Hub) -> None:
    error = await call_error(hub, "nosy.nested_mistake")
    assert error["code"] == "execution_error"
    assert error["message"] == "echo.once: parameter 'message' is missing"
    assert error["guidance"]["suggestion"] == (
        "This is a defect of nosy.nested_mistake, which called echo.once"
    )


async def test_an_error_that_points_to_the_log_is_in_the_log_once(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    for failing in ("nosy.fails", "nosy.nested_failure", "trouble.twice", "trouble.raises"):
        caplog.clear()
        error = await call_error(hub, failing)
        assert "hubd logs" in error["guidance"]["suggestion"]
        [record] = [record for record in caplog.records if record.exc_info]
        assert error["message"] in (record.exc_text or record.getMessage())


async def test_leaving_the_block_of_a_nested_call_cancels_it(hub: Hub) -> None:
    [event] = await call_events(hub, "nosy.first", of="echo.echo", count=1_000_000)
    assert event["text"] == "1"
    others = [task for task in asyncio.all_tasks() if task.get_name().startswith("nested")]
    assert others == []


async def test_a_plugin_resolves_handles_of_other_plugins(hub: Hub) -> None:
    [event] = await call_events(hub, "nosy.summary", handle="echo@1.0.0::once:hi%3A there")
    assert event["text"] == "output: hi: there"


async def test_every_kind_of_question_is_asked_and_answered(hub: Hub) -> None:
    caller = await ask(
        hub,
        "trouble.ask_all",
        {"type": "confirmed", "value": True},
        {"type": "text", "value": "Bob"},
        {"type": "selected", "values": ["g"]},
        {"type": "custom", "data": 42},
    )
    assert caller.problems == [None] * 4
    assert caller.items[-2]["content"]["text"] == "True Bob g 42"
    assert caller.asked == [
        {"type": "confirm", "message": "Sure?"},
        {"type": "prompt", "message": "Name?", "placeholder": "yours"},
        {
            "type": "select",
            "message": "Colour?",
            "options": [{"value": "r", "label": "Red"}, {"value": "g", "label": "Green"}],
        },
        {"type": "custom", "data": {"any": "thing"}},
    ]


async def test_a_question_of_a_nested_call_reaches_the_outer_caller(hub: Hub) -> None:
    caller = await ask(hub, "nosy.ask_through", {"type": "confirmed", "value": False})
    assert caller.items[-2]["content"]["text"] == "False"


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        {"type": "text", "value": "yes"},
        {"type": "confirmed"},
        {"type": "confirmed", "value": "yes"},
    ],
)
async def test_an_invalid_answer_is_refused_and_the_question_stays_open(
    hub: Hub, answer: Any
) -> None:
    caller = await ask(hub, "trouble.ask_confirm", answer, wait=0.01)
    [problem] = caller.problems
    assert problem is not None
    assert caller.items[-2]["code"] == "timeout"


async def test_after_a_timeout_the_default_is_the_answer(hub: Hub) -> None:
    caller = await ask(hub, "trouble.ask_confirm", default=True, wait=0.01)
    assert caller.items[-2]["content"]["text"] == "True"


async def test_a_declined_answer_ends_the_call_as_cancelled(hub: Hub) -> None:
    caller = await ask(hub, "trouble.ask_confirm", {"type": "cancelled"})
    assert caller.items[-2]["code"] == "cancelled"


async def test_an_answer_without_a_question_is_refused(hub: Hub) -> None:
    assert host_of(hub).questions.answer("unknown", {"type": "cancelled"}, HUB) is not None


async def test_a_question_without_a_caller_is_cancelled(hub: Hub) -> None:
    host = host_of(hub)
    with pytest.raises(Exception, match="no caller to ask"):
        await host.confirm("Sure?")


async def test_nested_calls_have_the_context_of_the_caller(
    hub: Hub,
) -> None:
    caller = Collector(Context(cwd="/somewhere", env={"GREETING": "hello"}))
    await Call(hub, "nosy.nested_context", {}, caller).run()
    assert caller.items[0]["content"]["text"] == "/somewhere hello"
    assert host_of(hub).context == Context()
    assert "GREETING" not in repr(caller.context)


async def test_progress_outside_of_a_call_is_ignored() -> None:
    hub = build_hub()
    await PlexusHost(hub).progress("nobody listens")


async def test_call_one_returns_the_only_event(hub: Hub) -> None:
    [line] = await call_events(hub, "nosy.only", of="echo.echo", count=1)
    assert line["text"] == "x"


@pytest.mark.parametrize(
    ("path", "count", "message"),
    [
        ("echo.echo", 3, "echo.echo sent more than one event; read them with `host.call`"),
        ("nosy.none", 0, "nosy.none sent no event; call_one needs exactly one"),
    ],
)
async def test_call_one_refuses_no_event_and_several(
    hub: Hub, path: str, count: int, message: str
) -> None:
    error = await call_error(hub, "nosy.only", of=path, count=count)
    assert (error["code"], error["message"]) == ("execution_error", message)


async def test_a_nested_call_without_its_block_is_refused_with_the_remedy(hub: Hub) -> None:
    call: Any = PlexusHost(hub).call("echo.once", message="x")
    remedy = r"host\.call\('echo\.once', …\) is a block: write `async with host\.call"
    with pytest.raises(TypeError, match=remedy):
        await call
    with pytest.raises(TypeError, match=remedy):
        _ = [event async for event in call]


async def test_call_one_raises_the_error_of_the_method(hub: Hub) -> None:
    error = await call_error(hub, "nosy.only", of="nosy.missing", count=1)
    assert error["code"] == "method_not_found"


async def test_a_function_in_a_thread_has_the_context_variables_of_the_call(hub: Hub) -> None:
    [line] = await call_events(hub, "nosy.calculate")
    assert line["text"] == "the caller's, here!"


async def test_an_async_function_is_refused_in_a_thread(hub: Hub) -> None:
    async def later() -> None:
        pass

    async def stream() -> AsyncIterator[None]:
        yield

    functions: list[Callable[[], object]] = [later, stream]
    for function in functions:
        with pytest.raises(TypeError, match="which is `async def`; call it without a thread"):
            await PlexusHost(hub).in_thread(function)
