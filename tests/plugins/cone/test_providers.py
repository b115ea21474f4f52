"""The providers' own SDKs, against servers on this machine."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Context
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.cone import registry
from hubd.plugins.cone.providers import anthropic, openai
from hubd.plugins.cone.providers.choice import split
from tests.fakes import completions_api, messages_api
from tests.fakes.completions_api import FakeCompletionsApi
from tests.fakes.messages_api import FakeMessagesApi
from tests.plugins.cone.support import (
    PROVIDER_VARIABLES,
    answer,
    cones,
    conversation,
    everything,
    head,
    only,
)
from tests.support import PATIENCE_SECONDS, Collector, call_error, call_items

SECRET = "sk-very-secret"
MODELS = {"anthropic": "anthropic/claude-fake", "openai": "openai/tiny-1b"}


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No provider can be reached, unless a test says so, and none is asked twice."""
    for name in PROVIDER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUBD_CONE_RETRIES", "0")
    return monkeypatch


@pytest.fixture(params=["anthropic", "openai"])
async def api(
    request: pytest.FixtureRequest, environ: pytest.MonkeyPatch
) -> AsyncIterator[FakeMessagesApi | FakeCompletionsApi]:
    """A server of each kind, which the environment points at."""
    if request.param == "anthropic":
        async with FakeMessagesApi() as messages:
            environ.setenv("ANTHROPIC_API_KEY", SECRET)
            environ.setenv("ANTHROPIC_BASE_URL", messages.url)
            yield messages
    else:
        async with FakeCompletionsApi() as completions:
            environ.setenv("OPENAI_API_KEY", SECRET)
            environ.setenv("OPENAI_BASE_URL", completions.base_url)
            yield completions


def name_of(api: FakeMessagesApi | FakeCompletionsApi) -> str:
    return "anthropic" if isinstance(api, FakeMessagesApi) else "openai"


def told(api: FakeMessagesApi | FakeCompletionsApi) -> list[tuple[str, str]]:
    """Who had said what, as the server was told by the newest request."""
    said = [(message["role"], message["content"]) for message in api.conversations[-1]]
    system = api.requests[-1].body.get("system")
    return [("system", system), *said] if isinstance(system, str) else said


@pytest.fixture
async def hub(tmp_path: Path, api: FakeMessagesApi | FakeCompletionsApi) -> AsyncIterator[Hub]:
    """A hub with a cone `c` on a model of that server."""
    async with cones(tmp_path) as made:
        model = MODELS[name_of(api)]
        await only(made, "cone.create", name="c", model_id=model, system_prompt="Be brief.")
        yield made


async def test_the_whole_conversation_is_sent_and_the_answer_is_kept(
    hub: Hub, api: FakeMessagesApi | FakeCompletionsApi
) -> None:
    one = await everything(hub, "cone.chat", identifier="c", prompt="SAY[The first answer: ä ☃.]")
    assert answer(one) == "The first answer: ä ☃."
    assert one[-1]["usage"] == {"input_tokens": 10, "output_tokens": 8}
    assert one[-1]["model"] == MODELS[name_of(api)].partition("/")[2]
    assert one[-1]["stop_reason"] in ("end_turn", "stop")
    await everything(hub, "cone.chat", identifier="c", prompt="SAY[two]")
    assert told(api) == [
        ("system", "Be brief."),
        ("user", "SAY[The first answer: ä ☃.]"),
        ("assistant", "The first answer: ä ☃."),
        ("user", "SAY[two]"),
    ]
    resolved = await only(hub, "plexus.resolve_handle", handle=one[-1]["handle"])
    assert resolved["data"]["model"] == one[-1]["model"]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "execution_error"),
        (401, "permission_denied"),
        (403, "permission_denied"),
        (404, "not_found"),
        (429, "overloaded"),
        (500, "unavailable"),
        (529, "overloaded"),
    ],
)
async def test_a_refusal_of_the_provider_says_what_it_means(
    hub: Hub, api: FakeMessagesApi | FakeCompletionsApi, status: int, code: str
) -> None:
    before = await head(hub, "c")
    error = await call_error(hub, "cone.chat", identifier="c", prompt=f"STATUS[{status}]")
    assert (error["code"], error["message"]) == (code, f"{name_of(api)}: fake {status}")
    assert await head(hub, "c") == before


async def test_an_answer_that_breaks_off_is_no_answer(
    hub: Hub, api: FakeMessagesApi | FakeCompletionsApi
) -> None:
    before = await head(hub, "c")
    error = await call_error(hub, "cone.chat", identifier="c", prompt="CUT[The begin]")
    assert error["code"] == "unavailable"
    assert await head(hub, "c") == before
    assert await conversation(hub, "c") == [("system", "Be brief.")]


async def test_an_answer_whose_end_nobody_announces_is_no_answer(
    tmp_path: Path, environ: pytest.MonkeyPatch
) -> None:
    async with FakeCompletionsApi() as api, cones(tmp_path) as hub:
        environ.setenv("OPENAI_BASE_URL", api.base_url)
        api.unfinished = True
        await only(hub, "cone.create", name="c", model_id="openai/x")
        error = await call_error(hub, "cone.chat", identifier="c", prompt="SAY[The beginning]")
        assert (error["code"], error["message"]) == (
            "unavailable",
            "the answer of openai broke off",
        )
        assert await conversation(hub, "c") == []


async def test_an_answer_is_seen_as_it_comes_and_who_leaves_then_leaves_the_provider_too(
    hub: Hub, api: FakeMessagesApi | FakeCompletionsApi
) -> None:
    caller = Collector()
    prompt = "HANG[] SAY[This begins and never goes on]"
    call = Call(hub, "cone.chat", {"identifier": "c", "prompt": prompt}, caller)
    chat = asyncio.create_task(call.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(caller.items) < 2:
            caller.arrived.clear()
            await caller.arrived.wait()
        chat.cancel()
        await chat
        while api._connections:  # noqa: ASYNC110 -- the other end has to notice
            await asyncio.sleep(0)
    assert caller.items[-2]["code"] == "cancelled"


async def test_a_server_that_is_not_there_is_unavailable(
    tmp_path: Path, environ: pytest.MonkeyPatch
) -> None:
    async with FakeCompletionsApi() as gone:
        url = gone.url
    environ.setenv("OPENAI_BASE_URL", f"{url}/v1")
    environ.setenv("ANTHROPIC_BASE_URL", url)
    environ.setenv("ANTHROPIC_API_KEY", SECRET)
    async with cones(tmp_path) as hub:
        for name, model in MODELS.items():
            await only(hub, "cone.create", name=name, model_id=model)
            error = await call_error(hub, "cone.chat", identifier=name, prompt="Hello?")
            assert error["code"] == "unavailable"


async def test_a_server_of_ones_own_needs_no_key(
    tmp_path: Path, environ: pytest.MonkeyPatch
) -> None:
    async with FakeCompletionsApi() as api, cones(tmp_path) as hub:
        environ.setenv("OPENAI_BASE_URL", api.base_url)
        await only(hub, "cone.create", name="c", model_id="org/large")
        events = await everything(hub, "cone.chat", identifier="c", prompt="SAY[local]")
        assert (answer(events), events[-1]["model"]) == ("local", "org/large")


async def test_a_base_url_in_the_settings_counts_where_no_variable_does(
    tmp_path: Path, environ: pytest.MonkeyPatch
) -> None:
    async with FakeCompletionsApi() as api, cones(tmp_path) as hub:
        environ.setenv("HUBD_CONE_OPENAI_BASE_URL", api.base_url)
        environ.setenv("HUBD_CONE_MODEL", "tiny-1b")
        made = await only(hub, "cone.create", name="c")
        assert made["model_id"] == "tiny-1b"
        events = await everything(hub, "cone.chat", identifier="c", prompt="SAY[local]")
        assert answer(events) == "local"


@pytest.mark.parametrize("provider", [anthropic, openai])
async def test_a_caller_that_names_no_address_does_not_get_the_hubs(
    tmp_path: Path, environ: pytest.MonkeyPatch, provider: Any
) -> None:
    variables = {f"{provider.NAME.upper()}_BASE_URL": "", provider.KEY: SECRET}
    async with FakeCompletionsApi() as hubs, FakeCompletionsApi() as usual, cones(tmp_path) as hub:
        environ.setenv(f"{provider.NAME.upper()}_BASE_URL", hubs.base_url)
        environ.setattr(provider, "ADDRESS", usual.base_url)
        await only(hub, "cone.create", name="c", model_id=MODELS[provider.NAME])
        caller = Collector(Context("/", variables))
        await Call(hub, "cone.chat", {"identifier": "c", "prompt": "hello"}, caller).run()
        assert (len(hubs.requests), len(usual.requests)) == (0, 1)


@pytest.mark.parametrize("model", ["claude-x", "anthropic/x", "gpt-x", "openai/x"])
async def test_a_model_without_a_key_is_advised_of_and_refused_before_anything_is_kept(
    tmp_path: Path, model: str
) -> None:
    async with cones(tmp_path) as hub:
        items = await call_items(hub, "cone.create", name="c", model_id=model)
        [advice] = [item for item in items if item["type"] == "guidance"]
        assert "_API_KEY" in advice["suggestion"]
        before = await head(hub, "c")
        error = await call_error(hub, "cone.chat", identifier="c", prompt="hello")
        assert error["code"] == "unavailable"
        assert "_API_KEY" in error["guidance"]["suggestion"]
        assert await head(hub, "c") == before
        where = (await only(hub, "cone.get", identifier="c"))["cone"]["head"]["tree_id"]
        tree = await only(hub, "arbor.tree_get", tree_id=where)
        assert len(tree["tree"]["nodes"]) == 1


@pytest.mark.parametrize(("module", "extra"), [(anthropic, "anthropic"), (openai, "openai")])
async def test_a_missing_package_is_named_with_how_to_install_it(
    tmp_path: Path, environ: pytest.MonkeyPatch, module: Any, extra: str
) -> None:
    environ.setattr(module, "find_spec", lambda name: None)
    async with cones(tmp_path) as hub:
        await only(hub, "cone.create", name="c", model_id=f"{extra}/x")
        error = await call_error(hub, "cone.chat", identifier="c", prompt="hello")
        assert error["code"] == "unavailable"
        assert f"hubd[{extra}]" in error["guidance"]["suggestion"]


async def test_a_key_is_shown_to_nobody(
    tmp_path: Path, environ: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Tattling(FakeCompletionsApi):
        async def answer(self, request: Any, reply: Any) -> None:
            key = request.headers["authorization"].removeprefix("Bearer ")
            await reply.send(401, {"error": {"message": f"Incorrect API key provided: {key}"}})

    async with Tattling() as api, cones(tmp_path) as hub:
        environ.setenv("OPENAI_API_KEY", SECRET)
        environ.setenv("OPENAI_BASE_URL", api.base_url)
        await only(hub, "cone.create", name="c", model_id="openai/x")
        items = await call_items(hub, "cone.chat", identifier="c", prompt="hello")
        items += await call_items(hub, "cone.registry")
        assert items[-1]["type"] == "done"
        assert "Incorrect API key provided: …" in str(items)
        assert SECRET not in str(items) + caplog.text
        written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
        assert SECRET.encode() not in written


async def test_the_registry_lists_what_can_be_asked(
    tmp_path: Path, environ: pytest.MonkeyPatch
) -> None:
    async with (
        FakeMessagesApi() as api,
        FakeCompletionsApi() as completions,
        cones(tmp_path) as hub,
    ):
        listed = await only(hub, "cone.registry")
        assert listed["default_model"] == "offline"
        assert [(entry["provider"], entry["available"]) for entry in listed["providers"]] == [
            ("offline", True),
            ("anthropic", False),
            ("openai", False),
        ]
        environ.setenv("ANTHROPIC_API_KEY", SECRET)
        environ.setenv("ANTHROPIC_BASE_URL", api.url)
        environ.setenv("OPENAI_BASE_URL", completions.base_url)
        listed = await only(hub, "cone.registry")
        assert [entry["models"] for entry in listed["providers"]] == [
            ["offline"],
            [f"anthropic/{name}" for name in messages_api.MODELS],
            [f"openai/{name}" for name in completions_api.MODELS],
        ]
        assert all(entry["note"] is None for entry in listed["providers"])


async def test_a_provider_that_does_not_list_its_models_does_not_hold_up_the_others(
    tmp_path: Path, environ: pytest.MonkeyPatch
) -> None:
    class Silent(FakeCompletionsApi):
        async def answer(self, request: Any, reply: Any) -> None:
            await asyncio.Event().wait()

    environ.setattr(registry, "LIST_SECONDS", 0.05)
    async with Silent() as api, cones(tmp_path) as hub:
        environ.setenv("OPENAI_BASE_URL", api.base_url)
        offline, _, silent = (await only(hub, "cone.registry"))["providers"]
        assert offline["models"] == ["offline"]
        assert (silent["available"], silent["models"]) == (True, [])
        assert "not listed its models" in silent["note"]


@pytest.mark.parametrize(
    ("model_id", "provider", "model"),
    [
        ("offline", "offline", "offline"),
        ("claude-opus", "anthropic", "claude-opus"),
        ("anthropic/anything", "anthropic", "anything"),
        ("gpt-x", "openai", "gpt-x"),
        ("llama3.2:1b", "openai", "llama3.2:1b"),
        ("org/model", "openai", "org/model"),
        ("openai/anthropic/claude-x", "openai", "anthropic/claude-x"),
        ("openai/", "openai", "openai/"),
        ("/", "openai", "/"),
    ],
)
def test_a_model_belongs_to_the_provider_that_its_name_says(
    model_id: str, provider: str, model: str
) -> None:
    assert split(model_id) == (provider, model)
