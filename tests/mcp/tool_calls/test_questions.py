"""Questions to the user: elicitation in both eras, invalid answers, missing answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import (
    ElicitRequestFormParams,
    ElicitResult,
)

from hubd.activation import Activation, Option, method
from hubd.mcp import caller as mcp_caller
from hubd.mcp.calls import MAX_ATTEMPTS
from hubd.mcp.questions import answer_of, form_of
from hubd.plexus.questions import answer_problem
from tests.mcp import raw_http as raw
from tests.mcp.bridge_support import INITIALIZE, INITIALIZED, event_of, lines, tool_call
from tests.mcp.desk import (
    Desk,
    Person,
    Said,
    attached,
    both_eras,
    every_way,
    refusing,
    said_in,
    saying,
    text_in,
)
from tests.mcp.notified_clients import server_of
from tests.mcp.support import (
    LEGACY,
    MODERN,
    TOKEN,
    TRANSPORTS,
    Era,
    Transport,
    serving,
)
from tests.support import PATIENCE_SECONDS


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
async def test_a_declined_question_cancels_the_call(tmp_path: Path, era: Era, action: Any) -> None:
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
async def test_a_question_is_asked_a_few_times_at_most(
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
    assert told[1].startswith(f"No valid answer after {MAX_ATTEMPTS} questions: 'purple'")
    assert len(person.asked) == MAX_ATTEMPTS


@both_eras
async def test_a_malformed_answer_repeats_the_question(tmp_path: Path, era: Era) -> None:
    answers = [ElicitResult(action="accept"), ElicitResult(action="accept", content={"value": "x"})]
    person = Person(lambda form: answers.pop(0))
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "stdio", era, elicitation_callback=person) as client,
    ):
        assert said_in(await client.call_tool("desk.prompt", {})) == "name: x"


@every_way
async def test_without_an_answer_in_time_the_default_applies(
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
        # The result may arrive before the method has ended; that end belongs to no later question.
        await desk.ended.wait()
        desk.ended.clear()
        result = await client.call_tool("desk.confirm", {"wait": 0.05})
        assert text_in(result).startswith("timeout: no answer within 0.05 s\n")
    # A late answer does not repeat the question.
    assert len(person.asked) <= 2


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
async def test_progress_continues_while_the_user_thinks(
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
async def test_a_question_fails_without_support_for_elicitation(
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
                "cancelled: this method asks a question, and this MCP client does not support "
                "elicitation. Call the method with synapse or over the WebSocket"
            )
            assert result.meta is not None
            assert result.meta["plexus/error"]["code"] == "cancelled"


@pytest.mark.parametrize(
    ("elicitation", "asked"),
    [({}, True), ({"form": {}}, True), ({"form": {}, "url": {}}, True), ({"url": {}}, False)],
    ids=["before there were kinds", "forms", "both", "pages only"],
)
@both_eras
async def test_forms_are_sent_only_to_clients_that_support_them(
    tmp_path: Path, era: Era, elicitation: dict[str, Any], asked: bool
) -> None:
    capabilities = {"elicitation": elicitation}
    call = tool_call(1, "desk.confirm")
    if era == MODERN:
        meta = {**raw.META, "io.modelcontextprotocol/clientCapabilities": capabilities}
        messages = [{**call, "params": {**call["params"], "_meta": meta}}]
    else:
        params = {**INITIALIZE["params"], "capabilities": capabilities}
        messages = [{**INITIALIZE, "params": params}, INITIALIZED, call]
    desk = Desk()
    async with serving(tmp_path, desk) as served, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"))
        writer.write(b"{}\n" + lines(*messages))
        # The handshake is answered first.
        for _ in messages[:-2]:
            await reader.readline()
        told = (await reader.readline()).decode()
        # There is no answer: the newer protocol sends no request, the older one an error.
        if era == MODERN:
            (await server_of(served))._calls.close()
        else:
            no = {"jsonrpc": "2.0", "id": json.loads(told)["id"], "result": {"action": "decline"}}
            writer.write(lines(no))
        await desk.ended.wait()
        writer.close()
        await writer.wait_closed()
    assert ("Sure?" in told) == asked
    assert ("does not support elicitation" in told) == (not asked)


async def test_a_client_of_the_older_protocol_is_asked_where_it_waits_for_its_answer(
    tmp_path: Path,
) -> None:
    """On the stream of the call: a client need not listen anywhere else."""
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
    }
    hello = {**INITIALIZE["params"], "capabilities": {"elicitation": {}}}
    async with (
        serving(tmp_path, Desk()) as served,
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS) as http,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        opened = await http.post(served.url, json={**INITIALIZE, "params": hello})
        http.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
        await http.post(served.url, json=INITIALIZED)
        call = tool_call(1, "desk.confirm")
        async with http.stream("POST", served.url, json=call) as stream:
            told = (line.removeprefix("data: ") async for line in stream.aiter_lines())
            messages = (json.loads(line) async for line in told if line.startswith("{"))
            question = await anext(messages)
            assert question["method"] == "elicitation/create"
            answer = {"action": "accept", "content": {"value": True}}
            body = {"jsonrpc": "2.0", "id": question["id"], "result": answer}
            await http.post(served.url, json=body)
            assert event_of(await anext(messages))["text"] == "sure: True"


class Files(Activation, namespace="files", version="1.0.0"):
    """Asks about a file name with a lone surrogate."""

    NAME = b"caf\xe9".decode(errors="surrogateescape")

    @method(streaming=False, bidirectional=True)
    async def rename(self) -> AsyncIterator[Said]:
        """Ask for another name."""
        name = self.NAME
        new = await self.host.prompt(f"Rename {name}?", default=name, placeholder=name)
        [how] = await self.host.select(f"{new}, not {name}?", [Option("y", name, f"no {name}")])
        yield Said(text=f"{new} {how}")


@every_way
async def test_half_a_character_in_a_question_does_not_break_the_connection(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    person = saying("tea", "y")
    async with (
        serving(tmp_path, Files()) as served,
        attached(served, tmp_path, transport, era, elicitation_callback=person) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        assert said_in(await client.call_tool("files.rename", {})) == "tea y"
    assert [form.message for form in person.asked] == ["Rename caf??", "tea, not caf??"]
    first, second = map(field_of, person.asked)
    assert first == {"type": "string", "description": "caf?", "default": "caf?"}
    assert second["oneOf"] == [{"const": "y", "title": "caf? – no caf?"}]


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
        "This question needs a client made for the plugin, so it was cancelled",
    ]
    assert person.asked == []


async def test_the_result_reports_a_failed_elicitation(
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
        assert text_in(result).split("\n") == [
            "cancelled: the caller declined to answer",
            "The MCP client failed to ask the user: the window cannot be opened",
        ]


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


@settings(max_examples=30)
@given(questions, st.data())
def test_an_answer_that_fits_the_form_fits_the_question(
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
    assert answer_problem(question, answer) is None
    assert answer.get("value", answer.get("values")) in (value, [value])


@given(questions, values, st.sampled_from(["accept", "decline", "cancel"]))
def test_every_answer_of_a_client_is_accepted_or_refused_with_a_reason(
    question: dict[str, Any], value: Any, action: Any
) -> None:
    result = ElicitResult.model_construct(action=action, content={"value": value})
    problem = answer_problem(question, answer_of(question, result))
    if action != "accept":
        assert problem is None
    elif problem is not None:
        form = form_of(question, problem)
        assert form is not None
        assert form.message == f"{question['message']} ({problem})"
