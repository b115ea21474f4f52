"""Questions to the user: elicitation in both eras, answers that do not fit, nobody who answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from hubd.plexus.host import _misfit
from hubd.transport import mcp_caller, mcp_calls
from hubd.transport.mcp import HubMcp
from hubd.transport.mcp_calls import MAX_ATTEMPTS
from hubd.transport.mcp_questions import answer_of, form_of
from tests.mcp.desk import (
    Desk,
    Person,
    attached,
    both_eras,
    every_way,
    refusing,
    saying,
    text_in,
)
from tests.mcp.support import (
    LEGACY,
    MODERN,
    TOKEN,
    TRANSPORTS,
    Era,
    Served,
    Transport,
    connected,
    over_http,
    serving,
)
from tests.support import PATIENCE_SECONDS, Daemon


def said_in(result: CallToolResult) -> str:
    assert not result.is_error, result
    assert result.structured_content is not None
    return str(result.structured_content["events"][-1]["text"])


def field_of(form: ElicitRequestFormParams) -> dict[str, Any]:
    assert form.requested_schema["required"] == ["value"]
    [field] = form.requested_schema["properties"].values()
    return dict(field)


@every_way
async def test_every_kind_of_question_is_asked_and_answered(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    person = saying(True, False, "Ada", "", "g", ["r", "b"], [])
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era, elicitation_callback=person) as client,
    ):
        told = [
            said_in(await client.call_tool(name, arguments))
            for name, arguments in (
                ("desk.confirm", {}),
                ("desk.confirm", {"default": True}),
                ("desk.prompt", {"placeholder": "as in your passport"}),
                ("desk.prompt", {"default": "Bob"}),
                ("desk.select", {}),
                ("desk.select", {"multi": True}),
                ("desk.select", {"multi": True}),
            )
        ]
    assert told == [
        "sure: True",
        "sure: False",
        "name: Ada",
        "name: ",
        "chosen: g",
        "chosen: r b",
        "chosen: ",
    ]
    choices = [
        {"const": "r", "title": "Red – as blood"},
        {"const": "g", "title": "Green"},
        {"const": "b", "title": "Blue"},
    ]
    assert [field_of(form) for form in person.asked] == [
        {"type": "boolean"},
        {"type": "boolean", "default": True},
        {"type": "string", "description": "as in your passport"},
        {"type": "string", "default": "Bob"},
        {"type": "string", "oneOf": choices},
        {"type": "array", "items": {"anyOf": choices}},
        {"type": "array", "items": {"anyOf": choices}},
    ]
    assert [form.message for form in person.asked][:3] == ["Sure?", "Sure?", "Name?"]


@every_way
async def test_several_questions_of_one_call_are_asked_one_after_the_other(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    person = saying("a", "b", "c")
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("desk.interview", {"questions": 3})
    assert result.structured_content is not None
    events = result.structured_content["events"]
    assert [event["text"] for event in events] == ["0: a", "1: b", "2: c"]
    assert [form.message for form in person.asked] == ["Question 0?", "Question 1?", "Question 2?"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
@both_eras
async def test_who_declines_has_cancelled_the_call(tmp_path: Path, era: Era, action: Any) -> None:
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "http", era, elicitation_callback=refusing(action)) as client,
    ):
        result = await client.call_tool("desk.confirm", {})
        assert result.is_error
        assert text_in(result) == "cancelled: the caller declined to answer"
        await desk.ended.wait()


@every_way
async def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    person = saying("purple", "g")
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era, elicitation_callback=person) as client,
    ):
        assert said_in(await client.call_tool("desk.select", {})) == "chosen: g"
    assert [form.message for form in person.asked] == [
        "Colour?",
        "Colour? ('purple' is not one of the options)",
    ]


@every_way
async def test_a_client_that_never_answers_what_was_asked_is_not_asked_for_ever(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    person = saying("purple")
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("desk.select", {})
    assert result.is_error
    told = text_in(result).split("\n")
    assert told[0] == "cancelled: the caller declined to answer"
    assert told[1].startswith(f"It was asked {MAX_ATTEMPTS} times, and no answer did fit: 'purple'")
    assert len(person.asked) == MAX_ATTEMPTS


@both_eras
async def test_an_answer_that_is_no_answer_to_a_form_is_asked_for_again(
    tmp_path: Path, era: Era
) -> None:
    answers = [ElicitResult(action="accept"), ElicitResult(action="accept", content={"value": "x"})]
    person = Person(lambda form: answers.pop(0))
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "stdio", era, elicitation_callback=person) as client,
    ):
        assert said_in(await client.call_tool("desk.prompt", {})) == "name: x"


@every_way
async def test_without_an_answer_in_time_the_default_stands(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    desk = Desk()

    async def answer_too_late(form: ElicitRequestFormParams) -> ElicitResult:
        await desk.ended.wait()
        return ElicitResult(action="accept", content={"value": False})

    person = Person(answer_too_late)
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, transport, era, elicitation_callback=person) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        result = await client.call_tool("desk.confirm", {"default": True, "wait": 0.05})
        assert said_in(result) == "sure: True"
        desk.ended.clear()
        result = await client.call_tool("desk.confirm", {"wait": 0.05})
        assert text_in(result).startswith("timeout: no answer within 0.05 s\n")


@both_eras
async def test_a_method_that_does_not_wait_for_the_answer_is_not_held_up_by_the_question(
    tmp_path: Path, era: Era
) -> None:
    desk, asked = Desk(), asyncio.Event()

    async def never(form: ElicitRequestFormParams) -> ElicitResult:
        desk.open.set()
        asked.set()
        if era == MODERN:
            # Here the client itself waits for the answer before it comes back.
            return ElicitResult(action="accept", content={"value": True})
        await asyncio.Event().wait()
        raise AssertionError

    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "stdio", era, elicitation_callback=Person(never)) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        assert said_in(await client.call_tool("desk.impatient", {})) == "never mind"
        assert asked.is_set()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_is_told_that_the_call_is_alive_while_its_user_thinks(
    tmp_path: Path, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the older protocol; in the newer one no call waits for its client meanwhile."""
    monkeypatch.setattr(mcp_caller, "HEARTBEAT_SECONDS", 0.1)
    alive, heard = asyncio.Event(), 0

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        nonlocal heard
        heard += 1
        if heard == 3:
            alive.set()

    async def answer(form: ElicitRequestFormParams) -> ElicitResult:
        await alive.wait()
        return ElicitResult(action="accept", content={"value": True})

    person = Person(answer)
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, LEGACY, elicitation_callback=person) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        result = await client.call_tool("desk.confirm", {}, progress_callback=hear)
        assert said_in(result) == "sure: True"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_question_that_the_method_has_given_up_is_withdrawn_before_the_next(
    tmp_path: Path, transport: Transport
) -> None:
    """In the older protocol; in the newer one only one question is with the client anyway."""
    desk, withdrawn = Desk(), asyncio.Event()

    async def answer(form: ElicitRequestFormParams) -> ElicitResult:
        if form.message == "Sure?":
            desk.open.set()
            try:
                await asyncio.Event().wait()
            finally:
                withdrawn.set()
        await withdrawn.wait()
        return ElicitResult(action="accept", content={"value": "Ada"})

    person = Person(answer)
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, transport, LEGACY, elicitation_callback=person) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        assert said_in(await client.call_tool("desk.change_its_mind", {})) == "name: Ada"


@every_way
async def test_a_client_that_cannot_be_asked_is_told_so(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        for name in ("desk.confirm", "desk.custom", "desk.select"):
            result = await client.call_tool(name, {})
            assert result.is_error
            assert text_in(result) == (
                "cancelled: this method asks its caller, and this MCP client cannot be asked: it "
                "does not support elicitation. Call the method with synapse or over the WebSocket"
            )
            assert result.meta is not None
            assert result.meta["plexus/error"]["code"] == "cancelled"


@every_way
async def test_a_question_that_no_form_can_ask_is_refused(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    person = saying("anything")
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("desk.custom", {})
    assert text_in(result).split("\n") == [
        "cancelled: the caller declined to answer",
        "Only a client made for this plugin can answer what it asked",
    ]
    assert person.asked == []


async def test_a_client_of_the_older_protocol_that_fails_when_asked_has_declined(
    tmp_path: Path,
) -> None:
    def fail(form: ElicitRequestFormParams) -> ElicitResult:
        raise ValueError("the window cannot be opened")

    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "stdio", "legacy", elicitation_callback=Person(fail)) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        result = await client.call_tool("desk.confirm", {})
        assert text_in(result) == "cancelled: the caller declined to answer"


# From here on the rounds of 2026-07-28 by hand.


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
    """Every call is over, and nobody remembers it."""
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
        assert caught.value.message == "no call waits for this answer any more"
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


async def test_what_one_session_was_asked_another_does_not_answer(
    tmp_path: Path, asker: Person
) -> None:
    def speaking_for(session: str) -> Any:
        headers = {"X-Plexus-Session": session}
        return over_http(served.url, TOKEN, MODERN, headers=headers, elicitation_callback=asker)

    async with (
        serving(tmp_path, Desk()) as served,
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
        assert request.params.message == "Sure? (there was no answer to the question)"
        assert again.request_state is not None
        assert again.request_state != state
        result = await come_back(client, again.request_state)
        assert isinstance(result, CallToolResult)
        await leaves_nothing(served)


async def test_a_call_whose_client_never_comes_back_is_ended_and_leaves_nothing(
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


async def test_a_result_that_nobody_fetches_goes_with_its_call(
    tmp_path: Path, asker: Person
) -> None:
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


async def test_an_answer_that_comes_after_a_restart_is_refused(home: Path, asker: Person) -> None:
    daemon = Daemon(home, "--plugin", "tests.mcp.desk:Desk")
    with daemon:
        async with connected(daemon, "http", MODERN, elicitation_callback=asker) as client:
            state = await ask(client, "desk.confirm")
    with daemon:
        async with connected(daemon, "http", MODERN, elicitation_callback=asker) as client:
            with pytest.raises(MCPError) as caught:
                await come_back(client, state)
            assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_the_real_daemon_asks_through_the_bridge(home: Path, transport: Transport) -> None:
    with Daemon(home, "--plugin", "tests.mcp.desk:Desk") as daemon:
        for era in ("legacy", MODERN):
            async with connected(
                daemon, transport, era, elicitation_callback=saying("Ada")
            ) as client:
                assert said_in(await client.call_tool("desk.prompt", {})) == "name: Ada"


# The translation by itself.

Strategies = dict[str, st.SearchStrategy[Any]]


def a_question(kind: str, required: Strategies, optional: Strategies) -> st.SearchStrategy[Any]:
    always: Strategies = {"type": st.just(kind), "message": st.text(), **required}
    return st.fixed_dictionaries(always, optional=optional)


some_options = st.lists(
    st.fixed_dictionaries(
        {"value": st.text(), "label": st.text()}, optional={"description": st.text()}
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda option: option["value"],
)
questions = st.one_of(
    a_question("confirm", {}, {"default": st.booleans()}),
    a_question(
        "prompt",
        {},
        {"default": st.text(), "placeholder": st.text(), "multiline": st.just(True)},
    ),
    a_question("select", {"options": some_options}, {"multiSelect": st.just(True)}),
)
values = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.text()))


@given(questions, st.data())
def test_what_fits_the_form_fits_the_question(
    question: dict[str, Any], data: st.DataObject
) -> None:
    form = form_of(question)
    assert form is not None
    field = field_of(form)
    strategies: Strategies = {"confirm": st.booleans(), "prompt": st.text()}
    if question["type"] == "select":
        offered = st.sampled_from([option["value"] for option in question["options"]])
        strategies["select"] = st.lists(offered) if "multiSelect" in question else offered
        choices = field["items"]["anyOf"] if "multiSelect" in question else field["oneOf"]
        assert [choice["const"] for choice in choices] == [
            option["value"] for option in question["options"]
        ]
    value = data.draw(strategies[question["type"]])
    answer = answer_of(question, ElicitResult(action="accept", content={"value": value}))
    assert _misfit(question, answer) is None
    assert answer.get("value", answer.get("values")) in (value, [value])


@given(questions, values, st.sampled_from(["accept", "decline", "cancel"]))
def test_whatever_a_client_answers_it_is_an_answer_or_a_reason(
    question: dict[str, Any], value: Any, action: Any
) -> None:
    result = ElicitResult.model_construct(action=action, content={"value": value})
    problem = _misfit(question, answer_of(question, result))
    if action != "accept":
        assert problem is None
    elif problem is not None:
        form = form_of(question, problem)
        assert form is not None
        assert form.message == f"{question['message']} ({problem})"
