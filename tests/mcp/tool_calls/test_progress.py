"""Progress: few reports, growing numbers, always the last event, and heartbeats."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp_types import CallToolResult

from hubd.activation import Activation, Event, method
from hubd.mcp import caller as mcp_caller
from hubd.mcp.progress import ALIVE, MAX_LINE, MAX_MESSAGE, Meter, Report, one_line
from tests.mcp.desk import WAYS, Desk, attached, both_eras, events_in, every_way
from tests.mcp.support import MODERN, TOKEN, Era, Transport, over_http, serving

HEARTBEAT = 10.0


@dataclass
class Watcher:
    """The progress notifications of one call."""

    reports: list[tuple[float, float | None, str | None]] = field(default_factory=list)

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.reports.append((progress, total, message))

    @property
    def numbers(self) -> list[float]:
        return [progress for progress, _, _ in self.reports]


def grows(numbers: list[float]) -> bool:
    return all(before < after for before, after in pairwise(numbers))


happenings = st.lists(
    st.tuples(st.floats(0, 15), st.none() | st.floats(0, 100)), min_size=1, max_size=60
)


@given(happenings)
def test_reports_are_few_and_growing_and_include_the_last_event(
    happened: list[tuple[float, float | None]],
) -> None:
    now, ends = 0.0, 0.0
    meter = Meter(now, HEARTBEAT)
    reports: list[tuple[float, Report]] = []

    def run_until(end: float) -> None:
        nonlocal now
        while (due := now + meter.wait(now)) <= end:
            now = due
            reports.append((now, meter.take(now)))
        now = end

    for n, (pause, percentage) in enumerate(happened):
        run_until(ends := ends + pause)
        meter.note(lambda n=n: str(n), percentage)  # type: ignore[misc]
    run_until(ends)
    if meter.has_news:
        reports.append((now, meter.take(now)))

    # The last one comes at once; of all others there are at most ten a second.
    times = [at for at, _ in reports]
    gaps = [after - before for before, after in pairwise(times[:-1])]
    assert all(gap >= 0.1 - 1e-6 for gap in gaps)
    # And never so few that the client gives up.
    assert all(
        after - before <= HEARTBEAT + 1e-6
        for before, after in zip([0.0, *times], times, strict=False)
    )
    assert grows([report.progress for _, report in reports])
    told = [report.message for _, report in reports if report.message != ALIVE]
    assert told[-1] == str(len(happened) - 1)
    assert told == sorted(told, key=int)
    percentages = [percentage for _, percentage in happened if percentage is not None]
    assert (reports[-1][1].total == 100.0) == bool(percentages)
    if percentages:
        assert reports[-1][1].progress >= percentages[-1]


def test_a_percentage_is_the_progress_of_a_hundred() -> None:
    meter = Meter(0.0, HEARTBEAT)
    shown = []
    for second, percentage in enumerate([0.0, 0.0, 12.5, 50.0, 100.0]):
        meter.note(lambda: "up", percentage)
        report = meter.take(float(second))
        shown.append((round(report.progress, 1), report.total))
    assert shown == [(0.0, 100.0), (0.0, 100.0), (12.5, 100.0), (50.0, 100.0), (100.0, 100.0)]


def test_later_events_do_not_hide_a_percentage() -> None:
    meter = Meter(0.0, HEARTBEAT)
    meter.note(lambda: "half way", 50.0)
    meter.note(lambda: "an event")
    assert meter.take(0.0) == Report(50.0, 100.0, "an event")


def test_texts_are_made_only_for_reports_that_are_sent() -> None:
    made: list[int] = []

    def message(n: int) -> str:
        made.append(n)
        return str(n)

    meter = Meter(0.0, HEARTBEAT)
    for n in range(1000):
        meter.note(lambda n=n: message(n))  # type: ignore[misc]
    assert meter.take(0.0).message == "999"
    assert made == [999]


@given(st.binary(max_size=200) | st.text().map(lambda text: f'{{"text":"{text}"}}'.encode()))
def test_any_event_is_one_short_line(content: bytes) -> None:
    line = one_line(content, "desk.say", {})
    assert "\n" not in line
    assert len(line) <= MAX_LINE


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{"type":"said","text":"  two\\n words "}', "two words"),
        (b'{"type":"said","text":"","line":"the line"}', "the line"),
        (b'{"type":"stopped","code":3}', "stopped"),
        (b'"a text"', "a text"),
        (b"[1,2]", "desk.say"),
        (b'{"text":"\\ud83d"}', "desk.say"),
        (b'{"text":"' + b"x" * 20_000 + b'"}', "desk.say"),
        (b'{"text":"' + b"x" * 2_000 + b'"}', "x" * (MAX_LINE - 1) + "…"),
    ],
    ids=["text", "line", "type", "string", "list", "half a character", "huge", "long"],
)
def test_an_event_without_a_template_shows_its_text_or_type(content: bytes, line: str) -> None:
    assert one_line(content, "desk.say", {}) == line


def test_an_event_with_a_template_shows_its_summary() -> None:
    event = b'{"type":"tool_used","tool_name":"Bash","status":"ended","text":"ls"}'
    summaries = {"tool_used": "{tool_name}: {status}"}
    assert one_line(event, "desk.say", summaries) == "Bash: ended"
    assert one_line(b'{"type":"tool_used","text":"ls"}', "desk.say", summaries) == "ls"


class Step(Event, summary="{done} of {total}"):
    """A step of a long task."""

    done: int
    total: int


class Stopped(Event):
    """The end of a task that failed."""


class Task(Activation, namespace="task", version="1.0.0"):
    """A plugin with an event that has a summary."""

    @method
    async def work(self) -> AsyncIterator[Step | Stopped]:
        """Report one step."""
        yield Step(done=2, total=3)


async def test_progress_shows_the_summary_that_the_event_declares(tmp_path: Path) -> None:
    messages: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    async with (
        serving(tmp_path, Task()) as served,
        over_http(served.url, TOKEN, MODERN) as client,
    ):
        await client.call_tool("task.work", {}, progress_callback=note)
        [tool] = [one for one in (await client.list_tools()).tools if one.name == "task.work"]
    assert messages == ["2 of 3"]
    assert "x-summary" not in str(tool.output_schema)


@every_way
async def test_thousands_of_events_are_a_few_reports_and_the_last_is_among_them(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    watcher = Watcher()
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        loop = asyncio.get_running_loop()
        begun = loop.time()
        result = await client.call_tool(
            "desk.fill", {"count": 5000, "size": 2}, progress_callback=watcher
        )
        lasted = loop.time() - begun
        assert result.structured_content is not None
        assert result.structured_content["count"] == 5000
    # Ten a second, the first and the last.
    assert 1 <= len(watcher.reports) <= 2 + 10 * lasted
    assert grows(watcher.numbers)
    assert watcher.reports[-1][2] == "4999:ü"


@every_way
async def test_percentages_reach_the_client_and_always_grow(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    watcher = Watcher()
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        steps = [0.0, 10.0, 10.0, 5.0, 100.0]
        await client.call_tool("desk.climb", {"percentages": steps}, progress_callback=watcher)
    assert grows(watcher.numbers)
    assert {total for _, total, _ in watcher.reports} == {100.0}
    assert watcher.reports[-1][0] >= 100.0
    assert watcher.reports[-1][2] == "there"


@both_eras
async def test_a_long_message_is_cut(tmp_path: Path, era: Era) -> None:
    watcher = Watcher()
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "stdio", era) as client,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(
            client.call_tool(
                "desk.climb",
                {"percentages": [1.0], "message": "m" * 100_000},
                progress_callback=watcher,
            )
        )
    assert max(len(message or "") for _, _, message in watcher.reports) <= MAX_MESSAGE


@every_way
async def test_a_request_without_a_token_learns_nothing(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    told: list[object] = []

    async def hear(message: Any) -> None:
        told.append(message)

    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era, message_handler=hear) as client,
    ):
        assert len(events_in(await client.call_tool("desk.fill", {"count": 500, "size": 2}))) == 500
        watcher = Watcher()
        await client.call_tool("desk.fill", {"count": 1, "size": 2}, progress_callback=watcher)
        assert watcher.reports
    # All other notifications belong to the second call.
    assert [message for message in told if "499:" in repr(message)] == []


@every_way
async def test_a_method_that_never_waits_does_not_delay_other_calls(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, transport, era) as busy,
        attached(served, tmp_path, transport, era) as other,
    ):
        done: list[str] = []

        async def call(client: Client, name: str, arguments: dict[str, Any]) -> CallToolResult:
            result = await client.call_tool(name, arguments)
            done.append(name)
            return result

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(call(busy, "desk.fill", {"count": 50_000, "size": 2}))
            await desk.begun.wait()
            tasks.create_task(call(other, "desk.add", {"left": 1}))
        assert done == ["desk.add", "desk.fill"]


@every_way
async def test_a_silent_call_sends_heartbeats(
    tmp_path: Path, transport: Transport, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_caller, "HEARTBEAT_SECONDS", 0.2)
    desk, watcher = Desk(), Watcher()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, transport, era) as client,
        asyncio.TaskGroup() as tasks,
    ):

        async def watch(progress: float, total: float | None, message: str | None) -> None:
            await watcher(progress, total, message)
            if len(watcher.reports) == 3:
                desk.open.set()

        call = tasks.create_task(client.call_tool("desk.block", {}, progress_callback=watch))
        assert events_in(await call) == [{"type": "said", "text": "through"}]
    assert [message for _, _, message in watcher.reports[:3]] == [ALIVE] * 3
    assert grows(watcher.numbers)
    assert watcher.reports[-1][2] == "through"


@pytest.mark.soak
async def test_four_clients_wait_half_a_minute_without_a_timeout(tmp_path: Path) -> None:
    """The real heartbeat, and the real time that a person takes to permit something."""
    async with serving(tmp_path, Desk()) as served:

        async def wait(transport: Transport, era: Era) -> None:
            watcher = Watcher()
            async with attached(served, tmp_path, transport, era) as client:
                result = await client.call_tool(
                    "desk.block", {"seconds": 30.0}, progress_callback=watcher
                )
            assert events_in(result) == [{"type": "said", "text": "through"}]
            messages = [message for _, _, message in watcher.reports]
            assert messages.count(ALIVE) >= 2
            assert messages[-1] == "through"
            assert grows(watcher.numbers)

        async with asyncio.TaskGroup() as tasks:
            for transport, era in WAYS:
                tasks.create_task(wait(transport, era))
