"""Tool calls that are answered without the SDK's streams, as the SDK would answer them."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.mcp import calls
from hubd.mcp.transports.plain_calls import read_call
from hubd.wire.limits import LARGE_BYTES
from tests.mcp.desk import Desk
from tests.mcp.raw_http import META, Answer, RawClient, connection, modern, request
from tests.mcp.support import TOKEN, Served, serving

CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
VERSION = "io.modelcontextprotocol/protocolVersion"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
Headers = dict[str, list[str]]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def served(tmp_path: Path, desk: Desk) -> AsyncIterator[Served]:
    async with serving(tmp_path, desk) as running:
        yield running


def raw_client(served: Served) -> RawClient:
    return RawClient(int(served.url.rpartition(":")[2].partition("/")[0]), TOKEN)


def headers_of(pairs: list[tuple[str, str]]) -> Headers:
    """Return headers as http.py has them."""
    headers: Headers = {}
    for name, value in pairs:
        headers.setdefault(name.lower(), []).append(value)
    return headers


def call(**params: Any) -> dict[str, Any]:
    """Return a call of `desk.add`, with other params."""
    message = request("tools/call", {"name": "desk.add", "arguments": {"left": 1}})
    return {**message, "params": {**message["params"], **params}}


def messages_in(answer: Answer) -> list[Any]:
    """Return the messages of a body, or of a stream."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return [answer.message]
    # As clients read lines that do not read bytes.
    lines = answer.body.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("desk.add", {"left": 1, "right": 2}),
    ("desk_add", {"left": 2}),
    ("desk.say", {"texts": []}),
    ("desk.say", {"texts": ["a", 'ü"\\ 𝄞\u2028\n']}),
    ("desk.draw", {"render": "└── a\n    └── ü"}),
    ("desk.permit", {"size": 10}),
    ("desk.note", {"advice": "an umbrella"}),
    ("desk.who", {}),
    *(
        ("desk.raw", {"events": events})
        for events in (
            ['"text"'],
            ['"one"', '"two"'],
            ['"one"', "2"],
            ["5", "null", "[1, 2]", "1.50", '{ "a": null }'],
            ['{"render":"drawn"}', '{"render":"again"}'],
            ['{"\\u0072ender":"drawn"}'],
            ['{"render":5}'],
            [r'"lone \ud800 surrogate"'],
            [r'{"path":"caf\udce9"}'],
            ["not JSON"],
            ['1},"count":7,"x":{'],
        )
    ),
    ("desk.fail", {"code": "not_found", "before": 2}),
    ("desk.crash", {}),
    ("desk.odd", {}),
    ("desk.confirm", {}),
    ("desk.climb", {"percentages": [0.0, 50.0, 100.0]}),
    ("desk.climb", {"percentages": [10.0], "message": "m\x85\u2028\u2029n"}),
    ("desk.add", {"left": "one"}),
    ("desk.add", {"up": 1}),
    ("desk.subtract", {"left": 1}),
    ("plexus.hash", {}),
]


@pytest.mark.parametrize("meta", [{}, {"progressToken": "ä1"}], ids=["plain", "progress"])
async def test_both_ways_answer_alike(served: Served, meta: dict[str, Any]) -> None:
    client = raw_client(served)
    different = []
    for tool, arguments in CALLS:
        message = call(name=tool, arguments=arguments, _meta={**META, **meta})
        headers = modern("tools/call", tool)
        assert read_call(headers_of(headers), message) is not None
        short = json.dumps({**message, "id": "ä2"})
        # The SDK gets every large request.
        answers = [
            await asyncio.to_thread(client.post, body, headers)
            for body in (short, short + " " * LARGE_BYTES)
        ]
        messages = [(answer.status, messages_in(answer)) for answer in answers]
        if messages[0] != messages[1]:
            different.append((tool, messages))
    assert different == []


PLAIN: list[dict[str, Any]] = [
    call(),
    {**call(), "id": "one"},
    call(arguments=None),
    {**call(), "params": {"name": "desk.add", "_meta": META}},
    call(_meta={**META, "progressToken": 1}),
    call(_meta={**META, LOG_LEVEL: "info"}),
    call(_meta={VERSION: META[VERSION], CAPABILITIES: {"elicitation": {"form": {}}}}),
    call(_meta={**META, "claudecode/toolUseId": "toolu_1"}),
]


@pytest.mark.parametrize("message", PLAIN)
def test_valid_calls_are_plain(message: dict[str, Any]) -> None:
    plain = read_call(headers_of(modern("tools/call", "desk.add")), message)
    assert plain is not None
    assert (plain.id, plain.name) == (message["id"], "desk.add")
    assert plain.progress_token == message["params"]["_meta"].get("progressToken")


NOT_PLAIN: list[Any] = [
    None,
    [call()],
    {**call(), "jsonrpc": "1.0"},
    {**call(), "id": None},
    {**call(), "id": True},
    {**call(), "id": 1.5},
    {**call(), "method": "tools/list"},
    {**call(), "params": []},
    {key: value for key, value in call().items() if key != "id"},
    {key: value for key, value in call().items() if key != "jsonrpc"},
    call(name="desk.say"),
    call(name=None),
    call(arguments=[]),
    call(arguments="left"),
    call(requestState="x"),
    call(inputResponses={}),
    call(task={}),
    call(_meta=None),
    call(_meta={}),
    call(_meta={**META, VERSION: "2025-11-25"}),
    call(_meta={**META, VERSION: 1}),
    call(_meta={**META, CAPABILITIES: None}),
    call(_meta={**META, CAPABILITIES: {"elicitation": 5}}),
    call(_meta={**META, CLIENT_INFO: {"name": "nameless"}}),
    call(_meta={**META, LOG_LEVEL: "loud"}),
    call(_meta={**META, "progressToken": {}}),
]


@pytest.mark.parametrize("message", NOT_PLAIN)
def test_the_sdk_gets_calls_that_are_not_valid_or_not_plain(message: Any) -> None:
    assert read_call(headers_of(modern("tools/call", "desk.add")), message) is None


@pytest.mark.parametrize(
    "change",
    [
        {"accept": ["application/json"]},
        {"accept": []},
        {"content-type": ["text/plain"]},
        {"mcp-protocol-version": ["2025-11-25"]},
        {"mcp-protocol-version": ["2026-07-28", "2026-07-28"]},
        {"mcp-method": ["tools/list"]},
        {"mcp-name": ["desk.say"]},
        {"mcp-name": ["desk.add", "desk.add"]},
        {"mcp-param-left": ["1"]},
    ],
)
def test_the_sdk_gets_calls_with_other_headers(change: Headers) -> None:
    headers = headers_of(modern("tools/call", "desk.add"))
    assert read_call(headers, call()) is not None
    assert read_call({**headers, **change}, call()) is None


async def test_a_call_that_takes_longer_runs_once_and_is_answered(
    served: Served, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "SOON_SECONDS", 0.0)
    answering = asyncio.create_task(asyncio.to_thread(raw_client(served).call, "desk.block", {}))
    await desk.begun.wait()
    assert desk.inside == 1
    desk.open.set()
    answer: Answer = await answering
    assert answer.message["result"]["structuredContent"]["events"][0]["text"] == "through"


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}])
async def test_a_call_is_cancelled_when_its_client_disconnects(
    served: Served, desk: Desk, meta: dict[str, Any]
) -> None:
    client = raw_client(served)
    message = call(name="desk.block", arguments={}, _meta={**META, **meta})

    def call_and_leave() -> None:
        with connection(client.port) as opened:
            opened.sendall(client.written(message, modern("tools/call", "desk.block")))
            asyncio.run_coroutine_threadsafe(desk.begun.wait(), loop).result()

    loop = asyncio.get_running_loop()
    await asyncio.to_thread(call_and_leave)
    await desk.ended.wait()
    assert desk.inside == 0


async def test_calls_on_one_connection_are_answered_in_order(served: Served, desk: Desk) -> None:
    client = raw_client(served)
    written = b"".join(
        client.written(
            {**call(), "id": number},
            modern("tools/call", "desk.add"),
        )
        for number in range(20)
    )

    def exchange() -> list[int]:
        with connection(client.port) as opened:
            opened.sendall(written[:-100])
            opened.sendall(written[-100:])
            received = b""
            while received.count(b'"jsonrpc"') < 20:
                received += opened.recv(65536)
        bodies = [part for part in received.split(b"\r\n") if part.startswith(b'{"jsonrpc"')]
        return [json.loads(body.partition(b"HTTP/1.1")[0])["id"] for body in bodies]

    assert await asyncio.to_thread(exchange) == list(range(20))
    assert desk.ran == 20
