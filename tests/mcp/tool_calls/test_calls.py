"""Tool calls: what goes in is checked, failures are told in words, many run at once."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS, Implementation

from hubd.errors import HubError, by_code
from hubd.mcp import calls as mcp_calls
from hubd.mcp.access import McpOptions
from hubd.plugins.echo import EchoPlugin
from hubd.wire.item import EXIT_CODES
from tests.mcp import raw_http as raw
from tests.mcp.desk import WAYS, Desk, attached, both_eras, events_in, every_way, text_in
from tests.mcp.support import (
    ERAS,
    LEGACY,
    MODERN,
    TOKEN,
    Era,
    Transport,
    connected,
    over_stdio,
    registered,
    serving,
)
from tests.sample_plugins.searched import Searched
from tests.support import PATIENCE_SECONDS, McpDaemon, events_of


@every_way
async def test_arguments_that_do_not_fit_are_refused_in_words_and_nothing_runs(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    desk = Desk()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"left": 1, "rigth": 2}, "invalid_params: unknown parameter 'rigth'\nDid you mean right?"),
        ({"right": 2}, "invalid_params: parameter 'left' is missing\nadd takes: left, right"),
        ({"left": "1"}, "invalid_params: parameter 'left' must be a whole number"),
        ({"left": None}, "invalid_params: parameter 'left' must be a whole number"),
        ({"left": 1.5}, "invalid_params: parameter 'left' must be a whole number"),
        ({"left": [1]}, "invalid_params: parameter 'left' must be a whole number"),
    ]
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        for arguments, told in wrong:
            result = await client.call_tool("desk.add", arguments)
            assert result.is_error
            assert text_in(result).startswith(told)
            assert text_in(result).endswith("\nAvailable: left, right")
            assert result.structured_content is None
            assert result.meta is not None
            assert result.meta["plexus/error"]["code"] == "invalid_params"
            assert result.meta["plexus/error"]["available"] == ["left", "right"]
        assert desk.ran == 0
        result = await client.call_tool("desk.add", {"left": 1, "right": 2})
        assert events_in(result) == [{"type": "sum", "value": 3}]
        assert desk.ran == 1


@every_way
async def test_an_unknown_tool_is_an_error_of_the_protocol_that_names_the_nearest(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        with pytest.raises(MCPError) as caught:
            await client.call_tool("desk.ad", {"left": 1})
        assert caught.value.code == INVALID_PARAMS
        told = caught.value.message
        assert told.startswith("no tool 'desk.ad'. Did you mean desk.add")
        listed = told.partition("Available: ")[2].split(", ")
        assert {"desk.add"} < {name for name in listed if name.startswith("desk.")} == set(listed)
        assert caught.value.error.data["nearest"][0] == "desk.add"
        assert "plexus.search" in caught.value.error.data["available"]
        with pytest.raises(MCPError) as caught:
            await client.call_tool("x" * 100_000, {})
        assert caught.value.code == INVALID_PARAMS
        assert len(caught.value.message) < 1000


@both_eras
async def test_a_tool_is_called_by_either_spelling(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "http", era) as client,
    ):
        for name in ("desk.add", "desk_add"):
            assert events_in(await client.call_tool(name, {"left": 3})) == [
                {"type": "sum", "value": 3}
            ]


@both_eras
async def test_every_error_is_reported_with_its_code_and_suggestion(
    tmp_path: Path, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "stdio", era) as client,
    ):
        for code in EXIT_CODES:
            result = await client.call_tool("desk.fail", {"code": code})
            assert result.is_error
            told = text_in(result).split("\n")
            # A cancelled call needs no suggestion.
            advice = [] if code == "cancelled" else ["Do otherwise", "Available: this, that"]
            assert told == [f"{code}: it did not work", *advice, "Note: It may rain"]
            assert result.meta is not None
            problem = result.meta["plexus/error"]
            assert (problem["code"], problem["message"]) == (code, "it did not work")
            assert problem["available"] == (["this", "that"] if advice else [])
            assert problem["suggestion"] == ("Do otherwise" if advice else "")
            assert problem["recoverable"] is by_code(code, "").recoverable


def test_every_code_has_an_error() -> None:
    assert {cls.code for cls in HubError.__subclasses__()} == set(EXIT_CODES)


@every_way
async def test_an_exception_in_a_plugin_is_reported_with_the_earlier_events(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        result = await client.call_tool("desk.crash", {})
        assert result.is_error
        assert text_in(result).startswith("execution_error: ZeroDivisionError: a mistake\n")
        assert text_in(result).endswith(
            'Events before the error:\n{"type":"said","text":"so far so good"}'
        )
        assert result.meta is not None
        assert result.meta["plexus/error"]["code"] == "execution_error"
        # The connection is as good as before.
        assert events_in(await client.call_tool("desk.add", {"left": 2}))


@every_way
async def test_half_a_character_in_a_message_does_not_break_the_connection(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    told: list[str | None] = []

    async def watch(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        result = await client.call_tool("desk.odd", {}, progress_callback=watch)
        assert result.is_error
        assert text_in(result).split("\n") == [
            "not_found: no caf?",
            "Check the name or id",
            "Available: caf?",
            "Note: Rename caf?",
        ]
        assert events_in(await client.call_tool("desk.add", {"left": 2}))
    assert told == ["looking for caf?"]


@pytest.mark.soak
@every_way
async def test_a_hundred_concurrent_calls_of_one_client_are_not_mixed_up(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):

        async def call(n: int) -> str:
            # None is answered before half of them are there.
            result = await client.call_tool("desk.meet", {"name": f"number {n}", "others": 50})
            return str(events_in(result)[0]["text"])

        async with asyncio.timeout(PATIENCE_SECONDS):
            answers = await asyncio.gather(*(call(n) for n in range(100)))
        assert answers == [f"here is number {n}" for n in range(100)]


async def test_a_hundred_concurrent_calls_of_ten_clients_are_not_mixed_up(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, Desk()) as served, AsyncExitStack() as stack:
        clients: list[Client] = []
        for n in range(10):
            transport: Transport = "http" if n % 2 else "stdio"
            clients.append(
                await stack.enter_async_context(
                    attached(served, tmp_path, transport, ERAS[n // 2 % 2])
                )
            )

        async def call(n: int) -> str:
            arguments = {"name": f"number {n}", "others": 100}
            result = await clients[n % 10].call_tool("desk.meet", arguments)
            return str(events_in(result)[0]["text"])

        async with asyncio.timeout(PATIENCE_SECONDS):
            answers = await asyncio.gather(*(call(n) for n in range(100)))
        assert answers == [f"here is number {n}" for n in range(100)]


@both_eras
async def test_a_call_beyond_the_limit_is_refused_and_room_is_made_when_one_ends(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_calls, "MAX_CALLS", 1)
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "stdio", era) as client,
        asyncio.TaskGroup() as tasks,
    ):
        first = tasks.create_task(client.call_tool("desk.block", {}))
        await desk.begun.wait()
        refused = await client.call_tool("desk.add", {"left": 1})
        assert text_in(refused).startswith(
            "overloaded: MCP clients already run 1 calls, the most at once"
        )
        assert desk.ran == 0
        desk.open.set()
        assert events_in(await first)
        assert events_in(await client.call_tool("desk.add", {"left": 1}))


@every_way
async def test_a_method_knows_its_client_and_session_without_a_parameter(
    tmp_path: Path, transport: Transport, era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    secret = "the-session-of-this-agent"
    async with (
        serving(tmp_path, Desk()) as served,
        registered(served, secret),
        attached(
            served,
            tmp_path,
            transport,
            era,
            session_token=secret,
            client_info=Implementation(name="agent", version="7.1"),
        ) as client,
        attached(served, tmp_path, transport, era) as stranger,
    ):
        [known] = events_in(await client.call_tool("desk.who", {}))
        assert known == {"client": [f"mcp-{transport}", "agent", "7.1", secret]}
        [known] = events_in(await stranger.call_tool("desk.who", {}))
        assert known["client"][3] is None
        # A plugin that calls another one calls for the same client.
        [known] = events_in(
            await client.call_tool("plexus.call", {"method": "desk.who", "params": {}})
        )
        assert known["client"][3] == secret
    ours = ("hubd", "uvicorn", "mcp.server")
    told = [record for record in caplog.records if record.name.startswith(ours)]
    assert secret not in " ".join(record.getMessage() for record in told)


async def test_two_session_headers_in_one_request_are_refused(tmp_path: Path) -> None:
    headers = [("X-Plexus-Session", "one"), ("X-Plexus-Session", "another")]
    async with serving(tmp_path, Desk()) as served, registered(served, "one", "another"):
        raw_client = raw.RawClient(int(served.url.rpartition(":")[2].partition("/")[0]), TOKEN)
        for sent, status in ((headers[:1], 200), (headers, 401), ([("X-Plexus-Session", "")], 401)):
            call = raw.request("tools/call", {"name": "desk.who", "arguments": {}})
            sent = [*raw.modern("tools/call", "desk.who"), *sent]
            assert (await asyncio.to_thread(raw_client.post, call, sent)).status == status


async def test_the_bridge_passes_the_session_token_which_is_not_logged(home: Path) -> None:
    with McpDaemon(home, "--plugin", "tests.mcp.desk:Desk") as daemon:
        secret = "the-session-of-this-agent"
        events_of(home, "desk.register", token=secret)
        for era in ERAS:
            async with over_stdio(home, era, env={"HUBD_SESSION_TOKEN": secret}) as client:
                [event] = events_in(await client.call_tool("desk.who", {}))
                assert event["client"][0] == "mcp-stdio"
                assert event["client"][3] == secret
                await client.call_tool("desk.crash", {})
        assert secret not in Path(daemon.paths.log).read_text()


PROFILES = [("desk", None), (None, "desk"), ("desk,echo", "desk"), ("desk", "desk,echo")]


@pytest.mark.parametrize(
    ("asked", "option", "transport", "era"),
    [(*profile, *way) for profile, way in zip(PROFILES, WAYS, strict=True)],
    ids=[
        "the client's",
        "the daemon's",
        "both, the daemon's smaller",
        "both, the client's smaller",
    ],
)
async def test_a_profile_limits_lists_and_calls(
    tmp_path: Path, asked: str | None, option: str | None, transport: Transport, era: Era
) -> None:
    options = McpOptions(profile=frozenset(option.split(",")) if option else None)
    async with (
        serving(tmp_path, Desk(), EchoPlugin(), options=options) as served,
        attached(served, tmp_path, transport, era, tools=asked) as client,
    ):
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "desk.add" in names
        assert {name.split(".")[0] for name in names} == {"desk"}
        assert events_in(await client.call_tool("desk.add", {"left": 1}))
        for hidden in ("echo.once", "echo_once", "plexus.call", "plexus.activations"):
            with pytest.raises(MCPError) as caught:
                await client.call_tool(hidden, {})
            assert caught.value.code == INVALID_PARAMS
            assert "echo" not in caught.value.message.removeprefix(f"no tool '{hidden}'")


@every_way
async def test_a_profile_limits_calls_through_the_hub(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk(), EchoPlugin()) as served,
        attached(served, tmp_path, transport, era, tools="plexus,echo") as client,
    ):

        async def by_way_of_the_hub(method: str, params: dict[str, Any]) -> Any:
            for _ in range(2):
                method, params = "plexus.call", {"method": method, "params": params}
            return await client.call_tool(method, params)

        allowed = await by_way_of_the_hub("echo.once", {"message": "hi"})
        assert events_in(allowed)[0]["message"] == "hi"
        for method in ("desk.add", "desk.schema", "desk.hash"):
            refused = await by_way_of_the_hub(method, {"left": 1})
            assert refused.is_error
            assert text_in(refused).startswith(
                f"permission_denied: this connection may not call {method}\n"
            )
        assert served.hub.find(["desk"]).activation.ran == 0  # type: ignore[attr-defined]


async def test_the_options_of_daemon_and_bridge_are_profiles(home: Path) -> None:
    with McpDaemon(home, "--mcp-tools", "echo,health") as daemon:
        async with connected(daemon, "http", LEGACY) as client:
            listed = {tool.name.split(".")[0] for tool in (await client.list_tools()).tools}
            assert listed == {"echo", "health"}
        async with over_stdio(home, MODERN, "--mcp-tools", "health,arbor") as client:
            listed = {tool.name.split(".")[0] for tool in (await client.list_tools()).tools}
            assert listed == {"health"}
            with pytest.raises(MCPError):
                await client.call_tool("echo.once", {"message": "hi"})
        # The option does not affect other clients.
        async with daemon.client() as other:
            items = await other.call("arbor.tree_list")
            assert items[-1]["type"] == "done"
            assert json.dumps(items).find("permission_denied") == -1


@both_eras
async def test_a_client_finds_texts(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Searched()) as served,
        attached(served, tmp_path, "http", era) as client,
    ):
        await client.call_tool("searched.add", {"text": "a needle in hay"})
        result = await client.call_tool("plexus_search", {"query": "NEEDLE", "kind": "document"})
        [hit] = events_in(result)
        assert (hit["type"], hit["snippet"], hit["matches"]) == ("hit", "a needle in hay", [[2, 8]])
        assert events_in(await client.call_tool("plexus_search", {"query": "pin"})) == []
