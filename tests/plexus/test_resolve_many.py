"""Resolve handles in groups: `@resolver(many=True)`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd import testing
from hubd.activation import (
    Activation,
    Encoded,
    Event,
    Handle,
    HubError,
    NotFound,
    PermissionDenied,
    resolver,
)
from hubd.plexus import resolve as resolving
from hubd.plexus.hub import Hub
from hubd.plexus.resolve import MAX_GROUP, resolve_each
from tests.support import call_error, call_events, hub_with

KINDS = ("listed", "streamed", "single")
# The results of a resolver, with the code of their error; None for data.
RESULTS = {
    "a": None,
    "json": None,
    "gone": "handle_target_missing",
    "missing": "handle_target_missing",
    "denied": "permission_denied",
    "wrong": "internal",
    "raise": "execution_error",
    "few": "internal",
}


class ListRef(Handle, method="listed", kind="document", summary="{text}"):
    """Resolved by a function that returns a list."""

    how: str


class StreamRef(Handle, method="streamed", kind="document", summary="{text}"):
    """Resolved by a function that yields."""

    how: str


class SingleRef(Handle, method="single", kind="document", summary="{text}"):
    """Resolved one by one."""

    how: str


class Said(Event):
    text: str


class Other(Event):
    text: str


class Groups(Activation, namespace="groups", version="1.0.0"):
    """Resolves handles in groups."""

    def __init__(self) -> None:
        # The number of handles in each call of a resolver.
        self.sizes: list[int] = []
        # The results that a resolver has yielded, and the generators that have ended.
        self.yielded = 0
        self.ended = 0

    @resolver(many=True)
    async def listed(self, refs: list[ListRef]) -> list[Said | Encoded | HubError | None]:
        """Return the results."""
        self.sizes.append(len(refs))
        if any(ref.how == "hang" for ref in refs):
            await asyncio.Event().wait()
        return [_result(ref.how) for ref in refs if ref.how != "few"]

    @resolver(many=True)
    async def streamed(
        self, refs: list[StreamRef]
    ) -> AsyncIterator[Said | Encoded | HubError | None]:
        """Yield the results."""
        self.sizes.append(len(refs))
        try:
            for ref in refs:
                if ref.how == "hang":
                    await asyncio.Event().wait()
                if ref.how == "few":
                    return
                self.yielded += 1
                yield _result(ref.how)
        finally:
            self.ended += 1

    @resolver
    async def single(self, ref: SingleRef) -> AsyncIterator[Said | Encoded]:
        """Return one result."""
        result = _result(ref.how)
        if isinstance(result, HubError):
            raise result
        if result is not None:
            yield result


def _result(how: str) -> Any:
    if how == "raise":
        raise ValueError("a mistake")
    special = {
        "gone": None,
        "missing": NotFound("it was removed"),
        "denied": PermissionDenied("it is secret"),
        "wrong": Other(text="x"),
        "json": Encoded(b'{"type":"said",\n"text":"stored"}', {"text": "from the fields"}),
    }
    return special[how] if how in special else Said(text=how)


@pytest.fixture
def plugin() -> Groups:
    return Groups()


@pytest.fixture
async def hub(tmp_path: Path, plugin: Groups) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, plugin) as built:
        yield built


def _handle(kind: str, how: object) -> str:
    return f"groups@1.0.0::{kind}:{how}"


async def test_handles_are_resolved_in_groups_of_at_most_100(hub: Hub, plugin: Groups) -> None:
    handles = [_handle("listed", number) for number in range(2 * MAX_GROUP + 5)]
    resolved = await call_events(hub, "plexus.resolve_handle", handle=handles)
    assert [event["handle"] for event in resolved] == handles
    assert [event["data"]["text"] for event in resolved] == [str(n) for n in range(205)]
    assert plugin.sizes == [100, 100, 5]


async def test_handles_of_several_types_keep_their_order(hub: Hub, plugin: Groups) -> None:
    handles = [_handle(KINDS[number % 3], number) for number in range(30)]
    handles[7] = "nonsense"
    resolved = await call_events(hub, "plexus.resolve_handle", handle=handles)
    assert [event["handle"] for event in resolved] == handles
    assert resolved[7]["code"] == "handle_invalid"
    assert sorted(plugin.sizes) == [9, 10]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(list(RESULTS)))))
async def test_each_handle_has_the_same_result_in_any_group(
    entries: list[tuple[str, str]],
) -> None:
    # A resolver for one handle can't have too few results.
    entries = [(kind, how) for kind, how in entries if (kind, how) != ("single", "few")]
    handles = [_handle(kind, how) for kind, how in entries]
    async with (
        testing.hub(Groups()) as running,
        aclosing(resolve_each(running.hub, handles)) as answers,
    ):
        codes = [answer.code if isinstance(answer, HubError) else None async for answer in answers]
    assert codes == [RESULTS[how] for _, how in entries]


@pytest.mark.parametrize("kind", KINDS[:2])
async def test_a_failing_handle_has_its_code_alone_and_does_not_affect_others(
    hub: Hub, kind: str
) -> None:
    for how, code in RESULTS.items():
        handle = _handle(kind, how)
        before, event, after = await call_events(
            hub, "plexus.resolve_handle", handle=[_handle(kind, "a"), handle, _handle(kind, "b")]
        )
        assert (before["data"]["text"], after["data"]["text"]) == ("a", "b")
        assert event.get("code") == code
        if code is not None:
            error = await call_error(hub, "plexus.resolve_handle", handle=handle)
            assert (error["code"], error["message"]) == (code, event["message"])


@pytest.mark.parametrize("kind", KINDS[:2])
async def test_a_handle_that_never_ends_times_out_and_the_others_do_not(
    hub: Hub, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "RESOLVE_TIMEOUT_SECONDS", 0.05)
    handles = [_handle(kind, how) for how in ("a", "hang", "b")]
    first, hanging, last = await call_events(hub, "plexus.resolve_handle", handle=handles)
    assert (first["data"]["text"], last["data"]["text"]) == ("a", "b")
    assert hanging["code"] == "timeout"
    assert (await call_error(hub, "plexus.resolve_handle", handle=handles[1]))["code"] == "timeout"


async def test_results_are_taken_from_a_generator_when_they_are_read(
    hub: Hub, plugin: Groups
) -> None:
    handles = [_handle("streamed", number) for number in range(50)]
    async with aclosing(resolve_each(hub, handles)) as answers:
        for _ in range(3):
            await anext(answers)
        assert plugin.yielded == 3
    assert plugin.ended == 1


async def test_a_wrong_number_of_results_is_reported(hub: Hub) -> None:
    error = await call_error(hub, "plexus.resolve_handle", handle=_handle("listed", "few"))
    assert error["message"] == (
        "the resolver of groups has 0 results for 1 handles; write a result for each handle, None "
        "for missing data"
    )


async def test_stored_json_is_sent_as_it_is_and_its_summary_comes_from_the_fields(
    hub: Hub,
) -> None:
    handle = _handle("listed", "json")
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=[handle])
    assert resolved["data"] == {"type": "said", "text": "stored"}
    assert resolved["summary"] == "from the fields"
