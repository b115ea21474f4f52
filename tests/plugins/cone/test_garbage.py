"""Invalid responses of servers: each becomes an error with a message."""

import gzip
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import ExecutionError
from hubd.plexus.hub import Hub
from hubd.plugins.cone import answer as answer_module
from hubd.plugins.cone.providers import bounded
from tests.fakes.http import HttpRequest, HttpServer, Reply
from tests.plugins.cone.support import (
    PROVIDER_VARIABLES,
    answer,
    cones,
    conversation,
    everything,
    only,
)
from tests.support import call_error

GRIN = "\N{GRINNING FACE}"
# Its surrogates.
FIRST, SECOND = "\ud83d", "\ude00"


class Canned(HttpServer):
    """A server that sends the same response to every request."""

    def __init__(self) -> None:
        super().__init__()
        self.content_type = "text/event-stream"
        self.headers: dict[str, str] = {}
        self.events: Sequence[str | bytes] = ()

    async def answer(self, request: HttpRequest, reply: Reply) -> None:
        body = b"".join(each if isinstance(each, bytes) else each.encode() for each in self.events)
        await reply.send_bytes(body, self.content_type, **self.headers)


@pytest.fixture
async def server() -> AsyncIterator[Canned]:
    async with Canned() as running:
        yield running


@pytest.fixture
async def hub(
    tmp_path: Path, server: Canned, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Hub]:
    """A hub with a cone for each provider on that server."""
    for name in PROVIDER_VARIABLES:
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HUBD_CONE_RETRIES", "0")
    for provider in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{provider}_BASE_URL", server.url)
        monkeypatch.setenv(f"{provider}_API_KEY", "sk-secret")
    async with cones(tmp_path) as hub:
        for provider in ("openai", "anthropic"):
            await only(hub, "cone.create", name=provider, model_id=f"{provider}/x")
        yield hub


def chunk(delta: Any = None, reason: Any = None, **more: Any) -> str:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": reason}
    return sent({"id": "1", "model": "m", "choices": [choice], **more})


def sent(data: object) -> str:
    name = data["type"] if isinstance(data, dict) and "type" in data else "message"
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def message(*deltas: str | None, model: Any = "m", reason: Any = "end_turn") -> list[str]:
    """Return the events of an answer in Anthropic's format."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    started = {"id": "1", "role": "assistant", "model": model, "content": [], "usage": usage}
    pieces = [{"type": "text_delta", "text": text} for text in deltas]
    return [
        sent({"type": "message_start", "message": {**started, "type": "message"}}),
        sent(
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            }
        ),
        *(sent({"type": "content_block_delta", "index": 0, "delta": piece}) for piece in pieces),
        sent({"type": "content_block_stop", "index": 0}),
        sent(
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason},
                "usage": {"output_tokens": "3"},
            }
        ),
        sent({"type": "message_stop"}),
    ]


END = chunk(reason="stop")


INVALID_RESPONSES: list[list[str] | list[bytes]] = [
    [],
    ["<html>Not found</html>"],
    ["event: message_start\ndata: {not JSON\n\n"],
    [b"event: message_start\ndata: \xff\n\n"],
    ["event: message_start\ndata: []\n\n"],
    ["event: message_start\ndata: null\n\n"],
    [sent({"type": "message_start", "message": None})],
    [sent({"type": "message_stop"})],
    [chunk({"content": [{"type": "text"}]}), END],
    message(None),
]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_an_invalid_response_is_an_error_without_a_traceback(
    hub: Hub, server: Canned, provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    accepted = []
    for events in INVALID_RESPONSES:
        server.events = [*events]
        error = await call_error(hub, "cone.chat", identifier=provider, prompt="hello")
        if error["code"] != "unavailable" or provider not in error["message"]:
            accepted.append((events, error))
    assert accepted == []
    assert await conversation(hub, provider) == []
    assert "Traceback" not in caplog.text


async def test_an_invalid_list_of_models_does_not_affect_other_providers(
    hub: Hub, server: Canned
) -> None:
    server.content_type = "application/json"
    for body in ("<html>", "[]", "null", "{", '{"data": [5]}', b"\xff"):
        server.events = [body]
        entries = (await only(hub, "cone.registry"))["providers"]
        listed = {entry["provider"]: entry for entry in entries}
        assert listed["offline"]["models"] == ["offline"]
        for provider in ("openai", "anthropic"):
            assert listed[provider]["models"] == [], body
            assert "the response is invalid" in listed[provider]["note"], body


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_single_surrogates_in_model_names_are_replaced(
    hub: Hub, server: Canned, provider: str
) -> None:
    server.content_type = "application/json"
    server.events = [json.dumps({"data": [{"id": f"a{FIRST}"}, {"id": "b"}]})]
    listed = {entry["provider"]: entry for entry in (await only(hub, "cone.registry"))["providers"]}
    assert listed[provider]["models"] == [f"{provider}/a\ufffd", f"{provider}/b"]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "events", [["data: ", "x" * 2000], ["data: x\n" * 300]], ids=["a line", "an event"]
)
async def test_endless_responses_are_cut_at_the_limit(
    hub: Hub,
    server: Canned,
    events: list[str],
    provider: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded, "MAX_RESPONSE", 1000)
    server.events = events
    error = await call_error(hub, "cone.chat", identifier=provider, prompt="hello")
    assert error["message"] == "the server sent more than 1000 bytes"
    server.content_type = "application/json"
    listed = {entry["provider"]: entry for entry in (await only(hub, "cone.registry"))["providers"]}
    assert listed[provider]["note"] == "the server sent more than 1000 bytes"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_compressed_responses_are_rejected(hub: Hub, server: Canned, provider: str) -> None:
    server.headers = {"Content-Encoding": "gzip"}
    server.events = [gzip.compress(b"data: " + b"x" * 100_000)]
    error = await call_error(hub, "cone.chat", identifier=provider, prompt="hello")
    assert error["message"].startswith("the server sent a compressed response (gzip)")


@pytest.mark.parametrize(
    ("provider", "events"),
    [
        ("openai", [chunk({"content": "hi"}), chunk(choices=None), END]),
        ("openai", [chunk({"content": "hi"}), sent({"choices": [{"finish_reason": "stop"}]})]),
        ("openai", [chunk({"content": "hi"}), END, chunk(choices=[], usage={})]),
        ("openai", [chunk({"content": "hi"}), END, chunk(usage={"prompt_tokens": "many"})]),
        ("openai", [chunk({"content": "hi"}, model=7), chunk(reason=7, model=7)]),
        ("openai", [chunk({"content": "hi"}), chunk(reason=FIRST)]),
        ("anthropic", message("hi", reason=7)),
        ("anthropic", message("hi", reason=FIRST)),
        ("anthropic", message("hi", model=None)),
    ],
    ids=range(9),
)
async def test_an_answer_with_unusual_fields_is_accepted(
    hub: Hub, server: Canned, provider: str, events: list[str]
) -> None:
    server.events = events
    chat = await everything(hub, "cone.chat", identifier=provider, prompt="hello")
    assert answer(chat) == "hi"
    assert chat[-1]["type"] == "chat_complete"
    assert await conversation(hub, provider) == [("user", "hello"), ("assistant", "hi")]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a", FIRST, SECOND, "b"], f"a{GRIN}b"),
        ([f"a{FIRST}", f"{SECOND}b"], f"a{GRIN}b"),
        ([f"a{FIRST}", "b"], "a\ufffdb"),
        ([f"a{SECOND}", FIRST], "a\ufffd\ufffd"),
        ([FIRST, FIRST, SECOND], f"\ufffd{GRIN}"),
    ],
    ids=range(5),
)
async def test_surrogates_are_joined_or_replaced(
    hub: Hub, server: Canned, provider: str, pieces: list[str], text: str
) -> None:
    deltas = [chunk({"content": piece}) for piece in pieces]
    server.events = [*deltas, END] if provider == "openai" else message(*pieces)
    chat = await everything(hub, "cone.chat", identifier=provider, prompt="hello")
    assert answer(chat) == text
    assert (await conversation(hub, provider))[-1] == ("assistant", text)


async def test_single_surrogates_in_error_messages_are_replaced(hub: Hub, server: Canned) -> None:
    server.events = [sent({"error": {"message": f"no {FIRST}"}})]
    error = await call_error(hub, "cone.chat", identifier="openai", prompt="hello")
    assert error["message"] == "openai: no \ufffd"


async def test_a_piece_beyond_the_limit_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "MAX_ANSWER", 10)
    growing = answer_module.Answer()
    growing.add("x" * 6)
    with pytest.raises(ExecutionError) as refused:
        growing.add("y" * 6)
    assert refused.value.suggestion == "Ask for a shorter answer"
    assert growing.text == "x" * 6


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_response_without_streaming_is_reported(
    hub: Hub, server: Canned, provider: str
) -> None:
    server.content_type = "application/json"
    server.events = [json.dumps({"type": "message", "content": [{"type": "text", "text": "hi"}]})]
    error = await call_error(hub, "cone.chat", identifier=provider, prompt="hello")
    assert error["code"] == "unavailable"
    assert error["message"].startswith(f"{provider}: the server ignores `stream: true`")
    assert "AssertionError" not in error["message"]
