"""Chats whose calls wait for approvals while the daemon is killed.

Each scenario is an async generator. At each `yield` the runner kills the daemon and starts another
one, so all scenarios of a run share the same kills.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any

from tests.plugins.claudecode.chat_support import Event, say
from tests.plugins.loopback.support import Desk, events_in, types_in

log = logging.getLogger(__name__)

Scenario = Callable[[Desk, str], AsyncGenerator[None, None]]


async def allowed(person: Desk, name: str) -> AsyncGenerator[None, None]:
    """The answer after the kill lets the same call run once."""
    stream = await person.begin_touch(name, name=name)
    approval = await person.pending(stream)
    yield
    await person.answer(approval)
    await check_end(person, stream, approval)
    assert person.lines_in(name) == 1


async def answered_before(person: Desk, name: str) -> AsyncGenerator[None, None]:
    """A call that was allowed before the kill runs once or has an unknown outcome."""
    stream = await person.begin_touch(name, name=name)
    await person.answer(await person.pending(stream))
    yield
    end = await person.ended(stream)
    check_dense(end)
    assert person.lines_in(name) <= 1
    if end["status"] == "complete":
        assert person.lines_in(name) == 1
    else:
        assert end["status"] == "interrupted", end


async def denied(person: Desk, name: str) -> AsyncGenerator[None, None]:
    """A denial after the kill reaches the model."""
    stream = await person.begin_touch(name, name=name)
    approval = await person.pending(stream)
    yield
    await person.answer(approval, False, message="Not today.")
    end = await check_end(person, stream, approval)
    [result] = events_in(end, "tool_result")
    assert result["is_error"]
    assert "Not today." in result["output"]
    assert person.lines_in(name) == 0


async def edited(person: Desk, name: str) -> AsyncGenerator[None, None]:
    """The input of the answer runs instead of that of the call."""
    stream = await person.begin_touch(name, name=name)
    approval = await person.pending(stream)
    yield
    command = {**approval["input"], "command": f"echo x >> {name}-edited"}
    await person.answer(approval, updated_input=command)
    await check_end(person, stream, approval)
    assert (person.lines_in(name), person.lines_in(f"{name}-edited")) == (0, 1)


async def pending_twice(person: Desk, name: str) -> AsyncGenerator[None, None]:
    """A second kill changes nothing."""
    stream = await person.begin_touch(name, name=name)
    approval = await person.pending(stream)
    yield
    yield
    await person.answer(approval)
    await check_end(person, stream, approval)
    assert person.lines_in(name) == 1


async def parallel(person: Desk, name: str) -> AsyncGenerator[None, None]:
    """Three calls of one message, with a kill before the first answer and after it."""
    words = [f"{name}-{word}" for word in "abc"]
    stream = await person.begin(prompt=parallel_prompt(person, words), name=name)
    first = await person.pending(stream)
    await person.answer(first)
    second = await person.next_pending(stream, first)
    yield
    await person.answer(second)
    third = await person.next_pending(stream, second)
    yield
    await person.answer(third)
    end = await person.ended(stream)
    assert end["status"] == "complete", end
    check_dense(end)
    assert [person.lines_in(word) for word in words] == [1, 1, 1]
    calls = [event["tool_use_id"] for event in events_in(end, "tool_use")]
    results = [event["tool_use_id"] for event in events_in(end, "tool_result")]
    assert sorted(results) == sorted(calls)
    for call in calls:
        check_told_once(person, words[0], call)


async def forked(person: Desk, name: str) -> AsyncGenerator[None, None]:
    """A fork made while the call waits does not run it; the original does."""
    stream = await person.begin_touch(name, name=name)
    approval = await person.pending(stream)
    fork = f"{name}-fork"
    await person.one("claudecode.fork", name=name, new_name=fork)
    yield
    await person.one("claudecode.fork", name=name, new_name=f"{fork}-later")
    for each in (fork, f"{fork}-later"):
        end = await person.ended(await person.begin(say("Forked."), name=each))
        assert end["status"] == "complete", end
    assert person.lines_in(name) == 0
    await person.answer(approval)
    await check_end(person, stream, approval)
    assert person.lines_in(name) == 1


# Each start of `claude` takes about a second, so these are enough for it by default.
SHORT: tuple[Scenario, ...] = (edited, parallel)
ALL: tuple[Scenario, ...] = (*SHORT, allowed, denied, forked, answered_before, pending_twice)


def rounds(person: Desk, count: int) -> Iterator[int]:
    """Count rounds, name each in the log, and forget its requests to the model.

    A long run shares the machine with others, so its waits get more patience.
    """
    person.patience *= 1 if count == 1 else 10
    for number in range(count):
        log.info("%s: round %d of %d", person.engine, number + 1, count)
        yield number
        person.api.requests.clear()
    log.info("%s: %d rounds passed", person.engine, count)


async def run_all(person: Desk, scenarios: Sequence[Scenario], suffix: str = "") -> None:
    """Run scenarios side by side. At each `yield`, kill the daemon."""
    open_scenarios = [scenario(person, f"{scenario.__name__}{suffix}") for scenario in scenarios]
    while open_scenarios:
        advanced = await asyncio.gather(*map(_advance, open_scenarios))
        open_scenarios = [
            each for each, goes_on in zip(open_scenarios, advanced, strict=True) if goes_on
        ]
        if open_scenarios:
            person.daemon.kill()
            person.daemon.start()


async def _advance(scenario: AsyncGenerator[None, None]) -> bool:
    try:
        await anext(scenario)
    except StopAsyncIteration:
        return False
    return True


def parallel_prompt(person: Desk, words: Sequence[str]) -> str:
    """A prompt with one call for each word in one message; each leaves a line in a file."""
    if person.engine == "offline":
        calls = "\n".join(f"- run: echo x >> {word}" for word in words)
        return f"parallel:\n{calls}\nsay: Ready."
    inputs = [{"command": f"echo x >> {word}", "description": word} for word in words]
    tools = ", ".join(json.dumps({"name": "Bash", "input": each}) for each in inputs)
    return f"TOOLS[{tools}] SAY[Ready.]"


def check_dense(end: Event) -> None:
    """The stream has no gap."""
    numbers = [record["seq"] for record in end["events"]]
    assert numbers == list(range(end["total_events"])), numbers


async def check_end(person: Desk, stream: str, approval: Event) -> Event:
    """The chat completes: one question, one answer, one result of the same call."""
    end = await person.ended(stream)
    assert end["status"] == "complete", end
    check_dense(end)
    kinds = types_in(end)
    for kind in ("tool_use", "awaiting_approval", "approval_resolved", "tool_result"):
        assert kinds.count(kind) == 1, kinds
    assert kinds[-1] == "complete"
    [result] = events_in(end, "tool_result")
    assert result["tool_use_id"] == approval["tool_use_id"]
    check_told_once(person, str(approval["input"]["command"]), approval["tool_use_id"])
    return end


def check_told_once(person: Desk, word: str, tool_use_id: str) -> None:
    """The newest request to the model about a chat has one result of a call."""
    if person.engine == "offline":
        return
    conversation = next(
        messages for messages in reversed(person.api.conversations) if word in json.dumps(messages)
    )
    assert len(results_in(conversation, tool_use_id)) == 1


def results_in(messages: Sequence[Event], tool_use_id: str) -> list[Any]:
    """The results of a call in a conversation."""
    return [
        block
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("tool_use_id") == tool_use_id
    ]
