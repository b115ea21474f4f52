"""A client that knows only the published protocol, over both transports, against a real daemon."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect as connect_websocket

from tests.support import PATIENCE_SECONDS, Daemon

TROUBLE = ("--plugin", "tests.sample_plugins.trouble:Trouble")
SECOND = '''
from collections.abc import AsyncIterator
from hubd.activation import Activation, Event, method

class Said(Event):
    word: str

class Second(Activation, namespace="second", version="1.0.0"):
    """Another plugin."""

    @method
    async def say(self) -> AsyncIterator[Said]:
        """Say it."""
        yield Said(word="second")
'''
Item = dict[str, Any]


class Client:
    """Sends requests; sorts the answers by id and by subscription."""

    def __init__(
        self,
        send: Callable[[bytes], Awaitable[None]],
        receive: Callable[[], Awaitable[str | bytes]],
    ) -> None:
        self.root = "plexus"
        self.send = send
        self._receive = receive
        self._ids = 0
        self._replies: dict[Any, Item] = {}
        self._items: defaultdict[int, list[Item]] = defaultdict(list)

    async def read(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            text = await self._receive()
        assert text, "the daemon closed the connection"
        message = json.loads(text)
        assert message["jsonrpc"] == "2.0"
        if message.get("method") != "subscription":
            self._replies[message["id"]] = message
            return
        items = self._items[message["params"]["subscription"]]
        assert not items or items[-1]["type"] != "done", "something follows done"
        items.append(message["params"]["result"])

    async def reply(self, request_id: int | None) -> Item:
        while request_id not in self._replies:
            await self.read()
        return self._replies.pop(request_id)

    async def request(self, method: str, params: object = None) -> Any:
        self._ids += 1
        sent = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params or {}}
        await self.send(json.dumps(sent).encode())
        return (await self.reply(self._ids))["result"]

    async def item(self, subscription: int, number: int = 0) -> Item:
        while len(self._items[subscription]) <= number:
            await self.read()
        return self._items[subscription][number]

    async def ended(self, subscription: int) -> list[Item]:
        number = 0
        while (await self.item(subscription, number))["type"] != "done":
            number += 1
        return self._items[subscription]

    async def direct(self, method: str, params: object = None) -> list[Item]:
        """All items of a path used as the JSON-RPC method."""
        return await self.ended(await self.request(method, params))

    async def start(self, method: str, /, **params: Any) -> int:
        return int(await self.request(f"{self.root}.call", {"method": method, "params": params}))

    async def call(self, method: str, /, **params: Any) -> list[Item]:
        return await self.ended(await self.start(method, **params))

    async def events(self, method: str, /, **params: Any) -> list[Item]:
        """Return the events of a call that must succeed."""
        items = await self.call(method, **params)
        assert {item["type"] for item in items} <= {"data", "progress", "done"}, items
        return [item["content"] for item in items if item["type"] == "data"]

    async def answer(self, question: Item, data: object) -> bool:
        sent = {"request_id": question["requestId"], "response_data": data}
        result = await self.request(f"{self.root}.respond", sent)
        assert result["success"] or result["message"]
        return bool(result["success"])


@asynccontextmanager
async def connect(daemon: Daemon, transport: str = "unix") -> AsyncIterator[Client]:
    if transport == "websocket":
        headers = {"Authorization": f"Bearer {daemon.token}"}
        url = daemon.record["ws_url"]
        async with connect_websocket(url, additional_headers=headers, max_size=None) as socket:
            yield Client(lambda data: socket.send(data.decode()), socket.recv)
        return
    reader, writer = await asyncio.open_unix_connection(daemon.paths.socket, limit=2**26)

    async def send(data: bytes) -> None:
        writer.write(data + b"\n")
        await writer.drain()

    try:
        yield Client(send, reader.readline)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("hub") / "home", *TROUBLE) as running:
        yield running


@pytest.fixture(params=["unix", "websocket"])
async def client(daemon: Daemon, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with connect(daemon, request.param) as connected:
        yield connected


def kinds(items: list[Item]) -> list[str]:
    return [item["type"] for item in items]


async def test_info_returns_one_item(client: Client) -> None:
    for items in (await client.direct("_info"), await client.call("_info")):
        assert kinds(items) == ["data", "done"]
        content = items[0]["content"]
        assert set(content) == {"backend", "version", "plexus_hash"}
        assert content["backend"] == "plexus"
        assert content["plexus_hash"] == items[0]["metadata"]["plexus_hash"]


async def test_everything_is_listed_and_described(client: Client) -> None:
    [schema] = await client.events("plexus.schema")
    assert schema == (await client.direct("plexus.schema"))[0]["content"]
    assert schema["namespace"] == "plexus"
    assert {"echo", "solar", "trouble"} <= {child["namespace"] for child in schema["children"]}
    [earth] = await client.events("solar.earth.schema")
    [luna] = await client.events("solar.earth.luna.schema")
    assert earth["namespace"] == "solar.earth"
    assert [(moon["namespace"], moon["hash"]) for moon in earth["children"]] == [
        ("luna", luna["hash"])
    ]
    assert "children" not in luna
    hashes = {entry["namespace"]: entry["hash"] for entry in await client.events("plexus.hashes")}
    listed = {entry["namespace"]: entry for entry in await client.events("plexus.activations")}
    assert hashes == {name: entry["hash"] for name, entry in listed.items()}
    assert (hashes["plexus"], hashes["solar.earth"]) == (schema["hash"], earth["hash"])
    [root_hash] = await client.events("plexus.hash")
    assert root_hash == {"type": "hash", "event": "hash", "value": schema["hash"]}
    assert (await client.events("solar.earth.luna.hash"))[0]["value"] == luna["hash"]


async def test_one_method_is_described_alone_from_every_level(client: Client) -> None:
    [info] = await client.events("solar.earth.schema", method="info")
    assert (info["name"], info["streaming"], info["bidirectional"]) == ("info", False, False)
    assert [info] == await client.events("plexus.schema", method="solar.earth.info")
    assert [info] == await client.events("solar.schema", method="earth.info")
    assert info == (await client.direct("plexus.schema", ["solar.earth.info"]))[0]["content"]


@pytest.mark.parametrize("path", ["solar.earth.luna.info", "solar.info", "plexus.solar.mars.info"])
async def test_a_path_can_be_called_through_the_hub_or_directly(client: Client, path: str) -> None:
    [called] = await client.events(path)
    assert called == (await client.direct(path))[0]["content"]
    assert called["name"] == {"luna": "Luna", "solar": "Sun", "mars": "Mars"}[path.split(".")[-2]]


async def test_a_stream_comes_whole_and_in_order(client: Client) -> None:
    events = await client.events("echo.echo", message="ü\n\u2028", count=3000)
    assert [event["count"] for event in events] == list(range(1, 3001))
    assert {event["message"] for event in events} == {"ü\n\u2028"}


async def test_a_call_through_the_hub_streams_too(client: Client) -> None:
    assert await client.events("trouble.relay", to="echo.once", message="hi") == [
        {"type": "text", "text": "hi"}
    ]
    failed = await client.call("trouble.relay", to="echo.onze", message="hi")
    assert kinds(failed) == ["guidance", "error", "done"]
    assert failed[1]["code"] == "method_not_found"


async def test_a_cancelled_call_ends_while_others_on_the_connection_go_on(
    client: Client, tmp_path: Path
) -> None:
    slow = await client.start("trouble.hang", marker=str(tmp_path / "marker"))
    assert [event["message"] for event in await client.events("echo.ping")] == ["pong"]
    assert await client.request("plexus.cancel", {"subscription": slow}) == {"success": True}
    items = await client.ended(slow)
    assert kinds(items) == ["data", "error", "done"]
    assert items[1]["code"] == "cancelled"
    assert (tmp_path / "marker").exists()
    assert (await client.request("plexus.cancel", {"subscription": slow}))["success"] is False


async def test_a_dropped_connection_runs_the_finally_of_its_calls(
    daemon: Daemon, client: Client, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    marker = tmp_path / "marker"
    transport = request.node.callspec.params["client"]
    async with connect(daemon, transport) as dropped:
        await dropped.item(await dropped.start("trouble.hang", marker=str(marker)))
        assert not marker.exists()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not marker.exists():
            await client.events("echo.ping")


async def test_every_item_has_its_provenance(client: Client) -> None:
    asking = await client.start("trouble.ask_confirm")
    await client.answer(await client.item(asking), {"type": "cancelled"})
    cases = {
        ("trouble", "with_progress"): await client.call("trouble.with_progress"),
        ("trouble", "raises"): await client.call("trouble.raises"),
        ("trouble", "ask_confirm"): await client.ended(asking),
        ("solar", "earth", "info"): await client.call("solar.earth.info"),
        ("solar", "earth"): await client.call("solar.earth.nothing"),
        ("hash",): await client.call("plexus.hash"),
        (): await client.call("nobody.nothing"),
    }
    [root_hash] = await client.events("plexus.hash")
    kinds_seen = {item["type"] for items in cases.values() for item in items}
    assert kinds_seen == {"data", "progress", "guidance", "error", "request", "done"}
    for path, items in cases.items():
        for item in items:
            assert set(item["metadata"]) == {"provenance", "plexus_hash", "timestamp"}, item
            assert item["metadata"]["provenance"] == ["plexus", *path]
            assert item["metadata"]["plexus_hash"] == root_hash["value"]
            assert type(item["metadata"]["timestamp"]) is int
            if item["type"] == "data":
                assert item["content_type"] == ".".join(path if path[1:] else ("plexus", *path))
                assert item["content"]["type"]
    assert kinds(cases["trouble", "with_progress"]) == ["data", "progress", "data", "done"]
    assert cases["trouble", "with_progress"][1]["percentage"] == 50.0


RESOLVE = "plexus.resolve_handle"


@pytest.mark.parametrize(
    ("method", "params", "code", "suggestion", "available"),
    [
        ("ecko.once", {}, "activation_not_found", "Did you mean echo?", "echo"),
        ("solar.erth.info", {}, "activation_not_found", "Did you mean earth?", "earth"),
        ("zzz.qqq", {}, "activation_not_found", "", "solar"),
        ("echo.onze", {}, "method_not_found", "Did you mean once?", "once"),
        ("solar.earth.inf", {}, "method_not_found", "Did you mean info?", "info"),
        ("echo.echo", {"message": "", "cuont": 1}, "invalid_params", "mean count?", "count"),
        ("echo.once", {}, "invalid_params", "message", "message"),
        ("echo.once", {"message": 3}, "invalid_params", "message", "message"),
        ("echo.echo", {"message": "", "count": "3"}, "invalid_params", "count", "count"),
        ("echo.echo", {"message": "", "count": 0}, "invalid_params", "count", "count"),
        ("plexus.call", {}, "invalid_params", "", "method"),
        ("echo", {}, "invalid_method", "namespace.method", "echo.once"),
        ("", {}, "invalid_method", "namespace.method", "echo.once"),
        ("echo..once", {}, "invalid_method", "namespace.method", "echo.once"),
        ("x" * 100_000, {}, "invalid_method", "namespace.method", "echo.once"),
        (RESOLVE, {"handle": "?"}, "handle_invalid", "", None),
        (RESOLVE, {"handle": "ech@1.0.0::once"}, "activation_not_found", "echo", "echo"),
        (RESOLVE, {"handle": "echo@2.0.0::once:a"}, "version_unsupported", "", None),
        (RESOLVE, {"handle": "echo@1.0.0::no"}, "handle_not_supported", "", "once"),
        (RESOLVE, {"handle": "solar.earth@1.0.0::info:x"}, "handle_target_missing", "", None),
    ],
)
async def test_a_failed_call_is_guidance_error_and_done(
    client: Client, method: str, params: Item, code: str, suggestion: str, available: str | None
) -> None:
    for items in (await client.call(method, **params), await client.direct(method, params)):
        assert kinds(items) == ["guidance", "error", "done"], items
        guidance, error, _ = items
        assert (guidance["error_type"], error["code"]) == (code, code)
        assert suggestion in guidance["suggestion"]
        assert available is None or available in guidance["available"]
        assert error["message"]
        assert error["recoverable"] is False


async def test_malformed_json_rpc_is_an_error_and_the_connection_stays(client: Client) -> None:
    await client.send(b"nonsense")
    assert (await client.reply(None))["error"]["code"] == -32700
    await client.send(b'{"jsonrpc":"2.0","id":77,"method":7}')
    assert (await client.reply(77))["error"]["code"] == -32600
    assert await client.events("echo.ping")


@pytest.mark.parametrize(
    ("method", "code", "before"),
    [
        ("raises", "execution_error", ["data"]),
        ("exits", "execution_error", []),
        ("wrong_type", "internal", []),
        ("twice", "internal", ["data"]),
        ("never", "internal", []),
        ("ask_undeclared", "internal", []),
    ],
)
async def test_a_failing_plugin_does_not_affect_the_others(
    client: Client, daemon: Daemon, tmp_path: Path, method: str, code: str, before: list[str]
) -> None:
    async with connect(daemon) as bystander:
        running = await bystander.start("trouble.hang", marker=str(tmp_path / "marker"))
        items = await client.call(f"trouble.{method}")
        assert kinds(items) == [*before, "guidance", "error", "done"]
        assert items[-2]["code"] == code
        assert await client.events("echo.ping")
        assert await bystander.events("echo.ping")
        await bystander.request("plexus.cancel", [running])
        assert kinds(await bystander.ended(running)) == ["data", "error", "done"]


QUESTIONS: list[tuple[Item, list[object], Item]] = [
    (
        {"type": "confirm", "message": "Sure?"},
        [{"type": "text", "value": "yes"}, {"type": "confirmed", "value": "yes"}, "yes", {}],
        {"type": "confirmed", "value": True},
    ),
    (
        {"type": "prompt", "message": "Name?", "placeholder": "yours"},
        [{"type": "text", "value": 7}, {"type": "text"}],
        {"type": "text", "value": "Ada"},
    ),
    (
        {
            "type": "select",
            "message": "Colour?",
            "options": [{"value": "r", "label": "Red"}, {"value": "g", "label": "Green"}],
        },
        [{"type": "selected", "values": "g"}, {"type": "selected", "values": [1]}],
        {"type": "selected", "values": ["g"]},
    ),
    (
        {"type": "custom", "data": {"any": "thing"}},
        [{"type": "custom"}, {"type": "selected", "values": ["g"]}],
        {"type": "custom", "data": [1, None]},
    ),
]


async def test_questions_take_fitting_answers_and_refuse_others(client: Client) -> None:
    asking = await client.start("trouble.ask_all")
    for number, (expected, wrong, right) in enumerate(QUESTIONS):
        question = await client.item(asking, number)
        assert question["requestData"] == expected
        assert question["timeoutMs"] == 30_000
        assert [await client.answer(question, answer) for answer in wrong] == [False] * len(wrong)
        assert await client.answer(question, right)
    items = await client.ended(asking)
    assert kinds(items) == ["request"] * 4 + ["data", "done"]
    assert items[4]["content"]["text"] == "True Ada g [1, None]"
    assert not await client.answer(question, right)


@pytest.mark.parametrize("values", [[], ["r", "g"], ["blue"]])
async def test_a_choice_that_was_not_offered_is_refused(client: Client, values: list[str]) -> None:
    asking = await client.start("trouble.ask_all")
    await client.answer(await client.item(asking, 0), QUESTIONS[0][2])
    await client.answer(await client.item(asking, 1), QUESTIONS[1][2])
    question = await client.item(asking, 2)
    assert not await client.answer(question, {"type": "selected", "values": values})
    assert await client.answer(question, QUESTIONS[2][2])


@pytest.mark.parametrize(
    ("params", "answer", "ending"),
    [
        ({}, {"type": "cancelled"}, "cancelled"),
        ({"default": True}, {"type": "cancelled"}, "cancelled"),
        ({"default": True}, {"type": "confirmed", "value": False}, "False"),
        ({"wait": 0.01}, None, "timeout"),
        ({"wait": 0.01, "default": True}, None, "True"),
        ({"wait": 0.01, "default": False}, None, "False"),
    ],
)
async def test_a_question_may_be_declined_or_time_out(
    client: Client, params: Item, answer: object, ending: str
) -> None:
    asking = await client.start("trouble.ask_confirm", **params)
    if answer is not None:
        assert await client.answer(await client.item(asking), answer)
    items = await client.ended(asking)
    assert items[0]["requestData"].get("default") == params.get("default")
    expected = {"timeout": ["guidance", "error"], "cancelled": ["error"]}.get(ending, ["data"])
    closed = ["request_closed"] if answer is None else []
    assert kinds(items) == ["request", *closed, *expected, "done"]
    assert ending == (items[-2].get("code") or items[-2]["content"]["text"])
    assert not await client.answer(items[0], {"type": "confirmed", "value": True})


@pytest.mark.parametrize(
    ("transport", "expected"), [("unix", "/there hello"), ("websocket", "None None")]
)
async def test_a_context_is_accepted_on_the_unix_socket_only(
    daemon: Daemon, transport: str, expected: str
) -> None:
    context = {"cwd": "/there", "env": {"GREETING": "hello"}}
    async with connect(daemon, transport) as client:
        sent = {"method": "trouble.where", "params": {}, "context": context}
        items = await client.direct("plexus.call", sent)
        assert items[0]["content"]["text"] == expected


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("named") / "home", "--name", "hub", *TROUBLE) as running:
        yield running


async def test_a_name_changes_the_root_and_nothing_else(named: Daemon, daemon: Daemon) -> None:
    async with connect(daemon) as usual:
        [plain] = await usual.events("plexus.schema")
        [echoed] = await usual.events("echo.once", message="hi")
    for transport in ("unix", "websocket"):
        async with connect(named, transport) as client:
            client.root = "hub"
            assert (await client.direct("_info"))[0]["content"]["backend"] == "hub"
            [schema] = await client.events("hub.schema")
            assert schema["namespace"] == "hub"
            for same in ("plugin_id", "children", "version", "methods"):
                assert schema[same] == plain[same]
            assert await client.events("echo.once", message="hi") == [echoed]
            items = await client.call("solar.earth.info")
            assert items[0]["metadata"]["provenance"] == ["hub", "solar", "earth", "info"]
            asking = await client.start("trouble.ask_confirm")
            assert await client.answer(await client.item(asking), QUESTIONS[0][2])
            assert (await client.ended(asking))[-2]["content"]["text"] == "True"
            silent = await client.start("trouble.silent")
            assert await client.request("hub.cancel", [silent]) == {"success": True}
            assert kinds(await client.ended(silent)) == ["error", "done"]
            assert (await client.direct("plexus.hash"))[1]["code"] == "activation_not_found"


async def test_guidance_uses_the_name_of_the_hub(named: Daemon) -> None:
    async with connect(named) as client:
        for method in ("zzz.qqq", "solar.zzz.qqq", "echo.zzz", "hub.zzz", "plexus.zzz"):
            guidance, error, _ = await client.direct(method)
            assert "plexus." not in guidance["suggestion"] + " ".join(guidance["available"])
            assert "plexus." not in error["message"]


async def test_the_hash_does_not_depend_on_the_daemon_and_the_order_of_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon: Daemon
) -> None:
    (tmp_path / "second.py").write_text(SECOND)
    monkeypatch.chdir(tmp_path)
    second = ("--plugin", "second:Second")
    hashes = []
    for number, options in enumerate([(*TROUBLE, *second), (*second, *TROUBLE)]):
        with Daemon(tmp_path / f"home{number}", *options) as running:
            async with connect(running) as client:
                assert await client.events("second.say") == [{"type": "said", "word": "second"}]
                hashes.append(await client.events("plexus.hash"))
    assert hashes[0] == hashes[1]
    async with connect(daemon) as without:
        assert await without.events("plexus.hash") != hashes[0]
