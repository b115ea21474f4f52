"""Telling MCP clients what changed, in both eras and over both transports."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from math import isfinite
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import MCPError

from hubd.activation import Activation, method
from hubd.mcp import changes as mcp_changes
from hubd.plexus.host import PlexusHost
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.solar import Solar
from tests.mcp.bridge_support import INITIALIZE, request
from tests.mcp.notified_clients import (
    Notifications,
    client_of,
    deprecated,
    listening,
    server_of,
    until,
)
from tests.mcp.support import (
    ERAS,
    LEGACY,
    MODERN,
    TOKEN,
    TRANSPORTS,
    Era,
    Served,
    Transport,
    connected,
    serving,
)
from tests.mcp.weather import Said, Weather, grow, long_pauses, new_tree, watching
from tests.support import PATIENCE_SECONDS, Daemon, call_events

LISTS = ["tools", "resources", "prompts"]


class Extra(Activation, version="1.0.0"):
    """Comes and goes."""

    def __init__(self, name: str = "extra", *children: Activation) -> None:
        self.namespace = name
        self._children = children

    def children(self) -> Iterable[Activation]:
        return self._children

    @method(read_only=True)
    async def say(self, text: str) -> AsyncIterator[Said]:
        """Say something."""
        yield Said(text=text)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_plugin_with_many_children_causes_one_notification(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, EchoPlugin()) as served,
        listening(served, tmp_path, transport, era) as (client, notified),
    ):
        before = [tool.name for tool in (await client.list_tools()).tools]
        node = served.hub.attach(
            Extra("extra", *(Extra(f"child{n}") for n in range(20))), PlexusHost(served.hub)
        )
        await notified.wait_for(*LISTS)
        after = [tool.name for tool in (await client.list_tools()).tools]
        assert len(after) == len(before) + 21
        assert sorted(notified.received) == sorted(LISTS)
        served.hub.detach(node)
        await until(lambda: len(notified.received) >= 6)
        assert [tool.name for tool in (await client.list_tools()).tools] == before
        assert sorted(notified.received) == sorted(2 * LISTS)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_the_server_announces_notifications_of_changes(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path) as served,
        client_of(served, tmp_path, transport, era) as client,
    ):
        told = client.server_capabilities
        if era == MODERN:
            # A client that pins the newer protocol does not ask by itself.
            asked = await client.session.send_request(types.DiscoverRequest(), types.DiscoverResult)
            told = asked.capabilities
        assert told.tools is not None
        assert told.resources is not None
        assert told.prompts is not None
        lists = (told.tools, told.resources, told.prompts)
        assert [entry.list_changed for entry in lists] == [True, True, True]
        assert told.resources.subscribe is True


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_stream_of_changes_carries_only_the_requested_notifications(
    tmp_path: Path, transport: Transport
) -> None:
    silent, notified = Notifications(), Notifications()
    async with (
        serving(tmp_path, EchoPlugin()) as served,
        client_of(served, tmp_path, transport, MODERN, message_handler=silent.take) as other,
        client_of(served, tmp_path, transport, MODERN, message_handler=notified.take) as client,
        client.listen(prompts_list_changed=True),
    ):
        served.hub.attach(Extra(), PlexusHost(served.hub))
        await notified.wait_for("prompts")
        # An answer comes after all that was said before it.
        await client.list_tools()
        await other.list_tools()
        assert notified.received == ["prompts"]
        assert silent.received == []


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_change_of_prompts_is_notified_without_a_change_of_tools(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, EchoPlugin()) as served,
        listening(served, tmp_path, transport, era) as (client, notified),
    ):
        PlexusHost(served.hub).prompts_changed()
        await notified.wait_for("prompts")
        await client.list_tools()
        assert notified.received == ["prompts"]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_sessions_that_ended_are_forgotten(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with serving(tmp_path, Arbor()) as served:
        changes = (await server_of(served))._changes
        tree = await new_tree(served)
        for _ in range(10):
            async with client_of(served, tmp_path, transport, era) as client:
                await client.list_tools()
                if era == LEGACY:
                    with deprecated():
                        await client.subscribe_resource(f"plexus://arbor/{tree}")
                    assert len(changes._sessions) == 1
                else:
                    async with client.listen(resource_subscriptions=[f"plexus://arbor/{tree}"]):
                        assert changes.watched() == [f"plexus://arbor/{tree}"]
            await until(lambda: not changes._sessions and not changes._streams)
            await until(lambda: not changes.watched())
        await until(lambda: not watching())


async def test_a_session_that_is_idle_ends_by_itself_and_is_forgotten(tmp_path: Path) -> None:
    weather = Weather()
    async with serving(tmp_path, weather) as served:
        server = await server_of(served)
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Accept": "application/json, text/event-stream",
        }
        async with httpx2.AsyncClient(headers=headers) as http:
            opened = await http.post(served.url, json=INITIALIZE)
            http.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            watch = request(1, "resources/subscribe", uri="plexus://weather/home")
            assert (await http.post(served.url, json=watch)).status_code == 200
            [session] = server.http_handler._server_instances.values()
            idle = session.idle_scope
            assert idle is not None
            await until(lambda: isfinite(idle.deadline))
            # That was half an hour ago.
            idle.deadline = anyio.current_time()
            await until(lambda: weather.ended == ["home"])
            await until(lambda: not server._changes._sessions)
            assert (await http.post(served.url, json=request(2, "ping"))).status_code == 404


async def test_a_legacy_session_without_initialized_is_forgotten_too(tmp_path: Path) -> None:
    async with serving(tmp_path, Arbor()) as served:
        changes = (await server_of(served))._changes
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"))
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}}
        hello["clientInfo"] = {"name": "rude", "version": "1"}
        for message in (
            {},
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
            {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "resources/subscribe",
                "params": {"uri": f"plexus://arbor/{await new_tree(served)}"},
            },
        ):
            writer.write(json.dumps(message).encode() + b"\n")
        answers = [json.loads(await reader.readline()) for _ in range(2)]
        assert sorted(answer["id"] for answer in answers) == [1, 2]
        assert len(watching()) == 1
        writer.close()
        await until(lambda: not changes._sessions and not watching())


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_watchers_of_a_tree_are_notified_of_nodes_from_another_transport(
    shared_daemon: Daemon, transport: Transport, era: Era
) -> None:
    notified = Notifications()
    async with (
        shared_daemon.client() as other,
        connected(shared_daemon, transport, era, message_handler=notified.take) as client,
    ):
        made = await other.call("arbor.tree_create")
        tree = made[0]["content"]["tree_id"]
        uri = f"plexus://arbor/{tree}"
        add = {"tree_id": tree, "content": "a leaf"}
        if era == LEGACY:
            with deprecated():
                await client.subscribe_resource(uri)
            # Over HTTP the session's stream may open later than this.
            while uri not in notified.received:
                await other.call("arbor.node_create_text", add)
        else:
            async with client.listen(resource_subscriptions=[uri]):
                await other.call("arbor.node_create_text", add)
                await notified.wait_for(uri)
        read = await client.read_resource(uri)
        [content] = read.contents
        assert isinstance(content, types.TextResourceContents)
        assert "a leaf" in content.text


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_changes_right_after_the_subscription_are_notified(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with serving(tmp_path, Arbor()) as served:
        for _ in range(10):
            uri = f"plexus://arbor/{await new_tree(served)}"
            async with listening(served, tmp_path, transport, era, uris=(uri,)) as (_, notified):
                # In the same breath, and it is the only change there will be.
                await grow(served, uri.rpartition("/")[2])
                await notified.wait_for(uri)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_subscription_is_answered_when_changes_are_noticed_and_not_before(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    weather = Weather()
    weather.may_begin.clear()
    begun = asyncio.Event()

    async def watch(served: Served) -> None:
        uris = ("plexus://weather/home",)
        async with listening(served, tmp_path, transport, era, uris=uris) as (_, notified):
            begun.set()
            assert weather.watched == ["home"]
            weather.changed.set()
            await notified.wait_for(*uris)

    async with (
        serving(tmp_path, weather) as served,
        client_of(served, tmp_path, transport, era) as other,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(watch(served))
        await until(lambda: weather.asked == ["home"])
        # Long enough for an answer to have come.
        await other.list_tools()
        assert not begun.is_set()
        weather.may_begin.set()


@pytest.mark.parametrize("era", ERAS)
async def test_a_plugin_that_does_not_begin_to_watch_delays_no_client(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_changes, "BEGIN_SECONDS", 0.05)
    weather = Weather()
    weather.may_begin.clear()
    uri = "plexus://weather/home"
    async with (
        serving(tmp_path, weather) as served,
        listening(served, tmp_path, "http", era, uris=(uri,)) as (_, notified),
    ):
        assert weather.watched == []
        weather.may_begin.set()
        await until(lambda: weather.watched == ["home"])
        weather.changed.set()
        await notified.wait_for(uri)


@pytest.mark.parametrize("era", ERAS)
async def test_a_burst_of_changes_sends_few_notifications_and_loses_none_at_the_end(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume = long_pauses(monkeypatch)
    async with serving(tmp_path, Arbor()) as served:
        tree = await new_tree(served)
        uri = f"plexus://arbor/{tree}"
        async with listening(served, tmp_path, "http", era, uris=(uri,)) as (client, notified):
            for n in range(50):
                await grow(served, tree, str(n))
            await notified.wait_for(uri)
            await client.list_tools()
            assert notified.received == [uri]
            resume.set()
            await until(lambda: len(notified.received) == 2)
            await client.list_tools()
            assert notified.received == [uri, uri]


async def test_watching_ends_with_the_last_subscription(tmp_path: Path) -> None:
    weather = Weather()
    uri = "plexus://weather/home"
    async with (
        serving(tmp_path, weather) as served,
        client_of(served, tmp_path, "http", LEGACY) as one,
        client_of(served, tmp_path, "stdio", LEGACY) as two,
    ):
        with deprecated():
            for client in (one, two, one):
                await client.subscribe_resource(uri)
            assert weather.watched == ["home"]
            await one.unsubscribe_resource(uri)
            await one.unsubscribe_resource(uri)
            assert len(watching()) == 1
            await two.unsubscribe_resource(uri)
        await until(lambda: weather.ended == ["home"])
        assert watching() == []
        assert (await server_of(served))._changes.watched() == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_there_are_no_notifications_after_unsubscribing(
    tmp_path: Path, transport: Transport
) -> None:
    weather = Weather()
    uris = ("plexus://weather/here", "plexus://weather/there")
    async with (
        serving(tmp_path, weather) as served,
        listening(served, tmp_path, transport, LEGACY, uris=uris) as (client, notified),
    ):
        with deprecated():
            await client.unsubscribe_resource(uris[0])
        weather.changed.set()
        await notified.wait_for(uris[1])
        assert notified.received == [uris[1]]


async def test_one_client_may_watch_so_many_resources_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_changes, "MAX_WATCHED", 3)
    weather = Weather()
    uris = [f"plexus://weather/{n}" for n in range(4)]
    async with serving(tmp_path, weather) as served:
        async with client_of(served, tmp_path, "http", LEGACY) as client:
            with deprecated():
                for uri in uris[:3]:
                    await client.subscribe_resource(uri)
                with pytest.raises(MCPError, match="at most 3 resources"):
                    await client.subscribe_resource(uris[3])
                # One that is watched already costs nothing.
                await client.subscribe_resource(uris[0])
                await client.unsubscribe_resource(uris[0])
                await client.subscribe_resource(uris[3])
        async with client_of(served, tmp_path, "http", MODERN) as client:
            with pytest.raises(MCPError, match="at most 3 resources"):
                async with client.listen(resource_subscriptions=uris):
                    pass
        await until(lambda: not watching())


UNCHANGING = (
    "plexus://weather/nowhere",
    "plexus://weather/broken",
    "plexus://weather/a/b",
    "plexus://handle/echo@1.0.0::once:hi",
    "plexus://result/none",
    "plexus://nobody/x",
    "https://example.com/",
    "%%%",
    "plexus://arbor/" + "x" * 20_000,
)


@pytest.mark.parametrize("era", ERAS)
async def test_watching_resources_that_never_change_or_do_not_exist_is_harmless(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client does not wait for resources that can't be watched.
    monkeypatch.setattr(mcp_changes, "BEGIN_SECONDS", 10 * PATIENCE_SECONDS)
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        serving(tmp_path, Weather(), EchoPlugin()) as served,
        listening(served, tmp_path, "http", era, uris=UNCHANGING) as (_, notified),
    ):
        assert watching() == []
        served.hub.attach(Extra(), PlexusHost(served.hub))
        await notified.wait_for("tools")
        assert not set(UNCHANGING) & set(notified.received)


@pytest.mark.parametrize("era", ERAS)
async def test_a_resource_that_appears_later_is_watched_after_another_request(
    tmp_path: Path, era: Era
) -> None:
    async with serving(tmp_path, Arbor()) as served:
        tree = await new_tree(served)
        [line] = [event async for event in _export(served, tree)]
        await call_events(served.hub, "arbor.tree_delete", tree_id=tree)
        uri = f"plexus://arbor/{tree}"
        async with (
            listening(served, tmp_path, "stdio", era, uris=(uri,)),
            client_of(served, tmp_path, "stdio", MODERN) as other,
        ):
            await other.call_tool("arbor.cleanup", {})
            await other.call_tool("arbor.tree_import", {"data": line})
            async with listening(served, tmp_path, "stdio", era, uris=(uri,)) as (_, notified):
                await grow(served, tree)
                await notified.wait_for(uri)


async def _export(served: Served, tree: str) -> AsyncIterator[str]:
    lines = await call_events(served.hub, "arbor.tree_export", tree_id=tree)
    yield "\n".join(map(json.dumps, lines))


@pytest.mark.parametrize("era", ERAS)
async def test_watchers_of_a_tree_are_notified_of_its_deletion(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Arbor()) as served:
        tree = await new_tree(served)
        uri = f"plexus://arbor/{tree}"
        async with listening(served, tmp_path, "http", era, uris=(uri,)) as (client, notified):
            await call_events(served.hub, "arbor.tree_delete", tree_id=tree)
            await notified.wait_for(uri)
            with pytest.raises(MCPError):
                await client.read_resource(uri)


@pytest.mark.parametrize("era", ERAS)
async def test_labels_and_removed_nodes_are_changes_of_a_tree(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Arbor()) as served:
        tree = await new_tree(served)
        [node] = await call_events(
            served.hub, "arbor.node_create_text", tree_id=tree, content="a leaf"
        )
        of = {"tree_id": tree, "node_id": node["node_id"]}
        uri = f"plexus://arbor/{tree}"
        async with listening(served, tmp_path, "http", era, uris=(uri,)) as (_, notified):
            await call_events(served.hub, "arbor.node_label", **of, label="named")
            await until(lambda: len(notified.received) == 1)
            await call_events(served.hub, "arbor.node_delete", **of)
            await until(lambda: len(notified.received) == 2)


@pytest.mark.parametrize("era", ERAS)
async def test_watchers_of_schemas_are_notified_when_plugins_change(
    tmp_path: Path, era: Era
) -> None:
    uri = "plexus://schema/plexus"
    async with (
        serving(tmp_path, Solar()) as served,
        listening(served, tmp_path, "http", era, uris=(uri,)) as (_, notified),
    ):
        PlexusHost(served.hub).prompts_changed()
        await notified.wait_for("prompts")
        assert uri not in notified.received
        served.hub.attach(Extra(), PlexusHost(served.hub))
        await notified.wait_for(uri)


async def test_a_client_that_does_not_read_gets_no_queue_of_equal_notifications(
    tmp_path: Path,
) -> None:
    async with (
        serving(tmp_path, EchoPlugin()) as served,
        listening(served, tmp_path, "http", LEGACY) as (_, notified),
    ):
        changes = (await server_of(served))._changes
        [connection] = changes._sessions
        outbound, free = connection.outbound, asyncio.Event()

        class Stuck:
            """A way out that takes nothing until it is free."""

            async def notify(self, *message: Any) -> None:
                await free.wait()
                await outbound.notify(*message)

        connection.outbound = Stuck()  # type: ignore[assignment]
        for _ in range(100):
            changes.tools_changed()
            await asyncio.sleep(0)
        assert len(changes._sending) <= 2
        free.set()
        await notified.wait_for("tools")
        await until(lambda: not changes._sending)
        assert notified.received == ["tools"]


@pytest.mark.parametrize("era", ERAS)
async def test_the_end_of_the_server_leaves_nothing_that_waits(tmp_path: Path, era: Era) -> None:
    weather = Weather()
    async with serving(tmp_path, weather) as served:
        server = await server_of(served)
        async with listening(served, tmp_path, "stdio", era, uris=("plexus://weather/home",)):
            assert len(watching()) == 1
            await served.lazy.__aexit__(None, None, None)
            await until(lambda: weather.ended == ["home"])
            server._changes.tools_changed()
            assert not server._changes._sending
