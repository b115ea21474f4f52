"""Namespaces that a connection asks for: misspelt ones are refused with a suggestion."""

import asyncio
from pathlib import Path

import pytest
from mcp import Client, MCPError
from mcp_types import INVALID_REQUEST, DiscoverRequest, DiscoverResult, Implementation

from hubd import __version__
from hubd.mcp.access import McpOptions
from hubd.mcp.transports import stdio as mcp_stdio
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.solar import Solar
from tests.mcp import raw_http as raw
from tests.mcp.bridge_support import INITIALIZE, bridge, lines, read, request
from tests.mcp.desk import Desk, attached, both_eras, every_way
from tests.mcp.support import LEGACY, MODERN, Era, Served, Transport, serving
from tests.support import Daemon, McpDaemon, environment, events_of, hubd

SEE_DOCTOR = "`hubd doctor` lists the plugins and the reasons why some were skipped"
MISSPELT = [
    ("dsk", "there is no namespace 'dsk'. Did you mean desk?"),
    ("desk,ehco", "there is no namespace 'ehco'. Did you mean echo?"),
    ("solar.erth", "there is no namespace 'solar.erth'. Did you mean solar.earth?"),
    ("q" * 200, f"there is no namespace '{'q' * 100}'. {SEE_DOCTOR}"),
]


async def _refusal(
    served: Served, directory: Path, transport: Transport, era: Era, tools: str
) -> str:
    """Return the refusal of a client that asks for these namespaces."""
    with pytest.raises((MCPError, ExceptionGroup)) as caught:
        async with attached(served, directory, transport, era, tools=tools) as client:
            await client.list_tools()
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        [error] = error.exceptions
    assert isinstance(error, MCPError)
    assert error.code == INVALID_REQUEST
    return error.message


@pytest.mark.parametrize(("asked", "told"), MISSPELT, ids=["one", "second", "nested", "long"])
@every_way
async def test_an_unknown_namespace_is_refused_with_a_suggestion(
    tmp_path: Path, transport: Transport, era: Era, asked: str, told: str
) -> None:
    async with serving(tmp_path, Desk(), EchoPlugin(), Solar()) as served:
        assert await _refusal(served, tmp_path, transport, era, asked) == told


@every_way
async def test_the_advice_names_nothing_that_is_not_offered(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    options = McpOptions(profile=frozenset({"echo"}))
    async with serving(tmp_path, Desk(), EchoPlugin(), options=options) as served:
        told = await _refusal(served, tmp_path, transport, era, "dsk")
        assert told == f"there is no namespace 'dsk'. {SEE_DOCTOR}"


@every_way
async def test_a_client_that_asks_only_for_hidden_namespaces_is_refused(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    options = McpOptions(profile=frozenset({"echo", "solar.earth"}))
    async with serving(tmp_path, Desk(), EchoPlugin(), Solar(), options=options) as served:
        told = await _refusal(served, tmp_path, transport, era, "desk,solar.mars")
        assert told.endswith("It offers echo, solar.earth (--mcp-tools)")
        # But more than there is may be asked for, and above it too.
        for asked, offered in (("desk,echo", {"echo"}), ("solar", {"solar"})):
            async with attached(served, tmp_path, transport, era, tools=asked) as client:
                names = {tool.name.partition(".")[0] for tool in (await client.list_tools()).tools}
                assert names == offered


@both_eras
async def test_over_http_namespaces_may_be_asked_for_one_by_one(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Desk(), EchoPlugin()) as served,
        attached(served, tmp_path, "http", era, tools="echo&tools=desk") as client,
    ):
        names = {tool.name.partition(".")[0] for tool in (await client.list_tools()).tools}
        assert names == {"desk", "echo"}


@every_way
async def test_a_client_that_asks_for_nothing_gets_nothing(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, EchoPlugin()) as served,
        attached(served, tmp_path, transport, era, tools="") as client,
    ):
        assert (await client.list_tools()).tools == []


@every_way
async def test_the_instructions_name_only_tools_that_are_offered(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with serving(tmp_path, EchoPlugin()) as served:
        for tools, named in ((None, True), ("plexus", True), ("echo", False)):
            async with attached(served, tmp_path, transport, era, tools=tools) as client:
                # A client that pins the newer protocol asks for them by itself.
                told = client.instructions or await _discovered(client)
                assert ("plexus.search" in told) == named
                assert "plexus://handle/" in told


@every_way
async def test_the_instructions_name_tools_as_they_are_listed(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, EchoPlugin(), options=McpOptions("_")) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        told = client.instructions or await _discovered(client)
        assert "a tool named namespace_method." in told
        for tool in (
            "plexus_search",
            "plexus_methods",
            "plexus_activations",
            "plexus_resolve_handle",
        ):
            assert tool in told
            assert tool in [listed.name for listed in (await client.list_tools()).tools]


@every_way
async def test_the_server_reports_its_name_and_version(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        known = client.server_info
        if era == MODERN:
            # There it is told with every answer.
            told = (await client.list_tools()).meta or {}
            known = Implementation.model_validate(told["io.modelcontextprotocol/serverInfo"])
        assert known is not None
        assert (known.name, known.title, known.version) == ("plexus", "hubd", __version__)


async def _discovered(client: Client) -> str:
    result = await client.session.send_request(DiscoverRequest(), DiscoverResult)
    assert result.instructions is not None
    return result.instructions


async def test_a_legacy_session_survives_the_removal_of_its_plugin(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, Desk(), EchoPlugin()) as served,
        attached(served, tmp_path, "http", LEGACY, tools="desk,echo") as client,
    ):
        served.hub.detach(served.hub.find(["desk"]))
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"echo.echo", "echo.once", "echo.ping"}
        assert not (await client.call_tool("echo.once", {"message": "x"})).is_error


def test_over_http_the_refusal_is_a_message_of_the_protocol(home: Path) -> None:
    with McpDaemon(home) as daemon:
        raw_client = raw.RawClient(raw.ports(daemon)[1], daemon.token)
        for body, headers in (
            (raw.request("tools/list"), raw.modern("tools/list")),
            (INITIALIZE, [raw.ACCEPT, raw.JSON]),
        ):
            answer = raw_client.post(body, headers, target="/mcp?tools=echo,arb%1Bor")
            assert answer.status == 400
            assert answer.headers["content-type"] == "application/json"
            assert answer.code == INVALID_REQUEST
            told = answer.message["error"]["message"]
            assert told == "there is no namespace 'arb\\x1bor'. Did you mean arbor?"
        # The SDK was not needed yet.
        assert "the MCP server is loaded" not in Path(daemon.paths.log).read_text()


@pytest.mark.parametrize("variable", [False, True], ids=["option", "variable"])
@pytest.mark.parametrize("first", [lines(INITIALIZE), lines(request(0, "server/discover")), b""])
async def test_the_bridge_reports_to_its_client_and_its_user(
    shared_daemon: Daemon, first: bytes, variable: bool
) -> None:
    option = () if variable else ("--mcp-tools", "echo,arbr")
    env = environment(**({"HUBD_MCP_TOOLS": "echo,arbr"} if variable else {}))
    async with bridge(shared_daemon.home, *option, env=env) as client:
        await client.send(first)
        client.hang_up()
        answers = read(await client.rest())
        told = "there is no namespace 'arbr'. Did you mean arbor?"
        assert answers[0 if first else None]["error"]["message"] == told
        assert await client.status() == 2
        assert await client.said() == (
            "hubd: there is no namespace 'arbr'\n      Did you mean arbor?\n"
        )


async def test_a_silent_client_gets_its_refusal_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_stdio, "FIRST_SECONDS", 0.0)
    async with serving(tmp_path, EchoPlugin()):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"))
        writer.write(b'{"tools": "ehco"}\n')
        assert b"Did you mean echo?" in await reader.read()
        writer.close()
        await writer.wait_closed()


def test_a_misspelt_option_of_the_daemon_is_a_warning_and_found_by_the_doctor(home: Path) -> None:
    told = "there is no namespace 'arbr'. Did you mean arbor?"
    with McpDaemon(home, "--mcp-tools", "echo,arbr"):
        assert f"warning --mcp-tools: {told}" in hubd("logs", home=home).stdout
        found = hubd("doctor", home=home)
        assert f"FAIL plugin: --mcp-tools arbr: {told}" in found.stdout
        assert found.returncode == 1
        # It runs all the same.
        assert events_of(home, "echo.once", message="x")
