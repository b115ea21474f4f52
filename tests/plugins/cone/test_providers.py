"""The providers' SDKs, against servers on this machine."""

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
from hubd.plugins.cone.providers.choice import split_model_id
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
    """Remove the variables of all providers, and turn off retries."""
    for name in PROVIDER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUBD_CONE_RETRIES", "0")
    return monkeypatch


@pytest.fixture(params=["anthropic", "openai"])
async def api(
    request: pytest.FixtureRequest, environ: pytest.MonkeyPatch
) -> AsyncIterator[FakeMessagesApi | FakeCompletionsApi]:
    """Run a server, and set its address and key in the environment."""
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


def sent_messages(api: FakeMessagesApi | FakeCompletionsApi) -> list[tuple[str, str]]:
    """Return the roles and texts in the newest request to the server."""
    messages = [(message["role"], message["content"]) for message in api.conversations[-1]]
    system = api.requests[-1].body.get("system")
    return [("system", system), *messages] if isinstance(system, str) else messages


@pytest.fixture
async def hub(tmp_path: Path, api: FakeMessagesApi | FakeCompletionsApi) -> AsyncIterator[Hub]:
    """A hub with a cone `c` on a model of that server."""
    async with cones(tmp_path) as hub:
        model = MODELS[name_of(api)]
        await only(hub, "cone.create", name="c", model_id=model, system_prompt="Be brief.")
        yield hub


async def test_the_conversation_is_sent_and_the_answer_is_stored(
    hub: Hub, api: FakeMessagesApi | FakeCompletionsApi
) -> None:
    one = await everything(hub, "cone.chat", identifier="c", prompt="SAY[The first answer: ä ☃.]")
    assert answer(one) == "The first answer: ä ☃."
    assert one[-1]["usage"] == {"input_tokens": 10, "output_tokens": 8}
    assert one[-1]["model"] == MODELS[name_of(api)].partition("/")[2]
    assert one[-1]["stop_reason"] in ("end_turn", "stop")
    await everything(hub, "cone.chat", identifier="c", prompt="SAY[two]")
    assert sent_messages(api) == [
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
async def test_http_errors_of_a_provider_become_error_codes(
    hub: Hub, api: FakeMessagesApi | FakeCompletionsApi, status: int, code: str
) -> None:
    before = await head(hub, "c")
    error = await call_error(hub, "cone.chat", identifier="c", prompt=f"STATUS[{status}]")
    assert (error["code"], error["message"]) == (code, f"{name_of(api)}: fake {status}")
    assert await head(hub, "c") == before


async def test_an_answer_that_is_cut_off_is_not_stored(
    hub: Hub, api: FakeMessagesApi | FakeCompletionsApi
) -> None:
    before = await head(hub, "c")
    error = await call_error(hub, "cone.chat", identifier="c", prompt="CUT[The begin]")
    assert error["code"] == "unavailable"
    assert await head(hub, "c") == before
    assert await conversation(hub, "c") == [("system", "Be brief.")]


async def test_an_answer_without_an_end_is_not_stored(
    tmp_path: Path, environ: pytest.MonkeyPatch
) -> None:
    async with FakeCompletionsApi() as api, cones(tmp_path) as hub:
        environ.setenv("OPENAI_BASE_URL", api.base_url)
        api.unfinished = True
        await only(hub, "cone.create", name="c", model_id="openai/x")
        error = await call_error(hub, "cone.chat", identifier="c", prompt="SAY[The beginning]")
        assert (error["code"], error["message"]) == (
            "unavailable",
            "the answer of openai is incomplete",
        )
        assert await conversation(hub, "c") == []


async def test_cancelling_a_streaming_chat_closes_the_connection_to_the_provider(
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
        while api._connections:  # noqa: ASYNC110 -- no event tells that the server noticed
            await asyncio.sleep(0)
    assert caller.items[-2]["code"] == "cancelled"


async def test_an_unreachable_server_is_unavailable(
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


async def test_a_local_server_needs_no_key(tmp_path: Path, environ: pytest.MonkeyPatch) -> None:
    async with FakeCompletionsApi() as api, cones(tmp_path) as hub:
        environ.setenv("OPENAI_BASE_URL", api.base_url)
        await only(hub, "cone.create", name="c", model_id="org/large")
        events = await everything(hub, "cone.chat", identifier="c", prompt="SAY[local]")
        assert (answer(events), events[-1]["model"]) == ("local", "org/large")


async def test_the_base_url_of_the_settings_is_used_without_a_variable(
    tmp_path: Path, environ: pytest.MonkeyPatch
) -> None:
    async with FakeCompletionsApi() as api, cones(tmp_path) as hub:
        environ.setenv("HUBD_CONE_OPENAI_BASE_URL", api.base_url)
        environ.setenv("HUBD_CONE_MODEL", "tiny-1b")
        created = await only(hub, "cone.create", name="c")
        assert created["model_id"] == "tiny-1b"
        events = await everything(hub, "cone.chat", identifier="c", prompt="SAY[local]")
        assert answer(events) == "local"


@pytest.mark.parametrize("provider", [anthropic, openai])
async def test_the_callers_environment_overrides_the_address_of_the_hub(
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
async def test_a_model_without_a_key_gives_a_warning_and_stores_no_question(
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
async def test_a_missing_package_is_reported_with_the_command_to_install_it(
    tmp_path: Path, environ: pytest.MonkeyPatch, module: Any, extra: str
) -> None:
    environ.setattr(module, "find_spec", lambda name: None)
    async with cones(tmp_path) as hub:
        await only(hub, "cone.create", name="c", model_id=f"{extra}/x")
        error = await call_error(hub, "cone.chat", identifier="c", prompt="hello")
        assert error["code"] == "unavailable"
        assert f"hubd[{extra}]" in error["guidance"]["suggestion"]


async def test_keys_do_not_appear_in_items_logs_or_files(
    tmp_path: Path, environ: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class KeyRepeating(FakeCompletionsApi):
        async def answer(self, request: Any, reply: Any) -> None:
            key = request.headers["authorization"].removeprefix("Bearer ")
            await reply.send(401, {"error": {"message": f"Incorrect API key provided: {key}"}})

    async with KeyRepeating() as api, cones(tmp_path) as hub:
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


async def test_the_registry_lists_available_providers_and_their_models(
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


async def test_a_slow_list_of_models_does_not_delay_other_providers(
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
        assert "did not list its models" in silent["note"]


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
def test_the_provider_is_read_from_the_model_id(model_id: str, provider: str, model: str) -> None:
    assert split_model_id(model_id) == (provider, model)
