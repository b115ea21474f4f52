"""Registered templates are prompts for every MCP client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import Prompt, TextContent

from hubd.plugins.mustache.plugin import Mustache
from tests.mcp.notified_clients import listening
from tests.mcp.support import ERAS, Era, connected, serving
from tests.support import Daemon, events_of

MAIL_AND_MEMO = ["mustache.mail", "mustache.memo"]

both_eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
def daemon(shared_daemon: Daemon) -> Iterator[Daemon]:
    """A daemon without any templates."""
    yield shared_daemon
    for page in events_of(shared_daemon.home, "mustache.list_templates"):
        for template in page["templates"]:
            events_of(shared_daemon.home, "mustache.delete_template", name=template["name"])


def register(daemon: Daemon, name: str, template: str, **more: Any) -> None:
    """Over the Unix socket, as synapse does."""
    given = {"name": name, "template": template, **more}
    [event] = events_of(daemon.home, "mustache.register_template", **given)
    assert event["type"] == "template_registered"


async def prompts(client: Client) -> dict[str, Prompt]:
    return {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}


async def filled(client: Client, name: str, **arguments: str) -> str:
    [message] = (await client.get_prompt(name, arguments)).messages
    assert message.role == "user"
    assert isinstance(message.content, TextContent)
    return message.content.text


@both_eras
async def test_a_registered_template_is_listed_with_its_blanks(daemon: Daemon, era: Era) -> None:
    register(daemon, "review", "{{what}}{{#strict}}!{{/strict}}", description="Look at something")
    register(daemon, "plain.text", "Say hello.")
    async with connected(daemon, "http", era) as client:
        listed = await prompts(client)
        assert list(listed) == ["mustache.plain.text", "mustache.review"]
        review = listed["mustache.review"]
        assert review.description == "Look at something"
        assert review.arguments is not None
        assert [(entry.name, bool(entry.required)) for entry in review.arguments] == [
            ("what", True),
            ("strict", False),
        ]
        assert review.arguments[1].description == "Text, or JSON such as true, false or a list"
        assert not listed["mustache.plain.text"].arguments


@both_eras
async def test_a_prompt_is_the_template_filled_with_the_arguments(daemon: Daemon, era: Era) -> None:
    register(daemon, "sign", "Yours, {{me}}")
    register(
        daemon,
        "mail",
        "Dear {{to.name}} & co.\n{{#points}}\n* {{.}}\n{{/points}}\n{{^points}}\nNothing.\n"
        "{{/points}}\n{{>sign}}",
    )
    async with connected(daemon, "http", era) as client:
        given = {"to.name": "<Ann>", "points": '["one", "two"]', "me": "Bo"}
        text = "Dear <Ann> & co.\n* one\n* two\nYours, Bo"
        assert await filled(client, "mustache.mail", **given) == text
        text = "Dear Ann & co.\nNothing.\nYours, "
        assert await filled(client, "mustache.mail", **{"to.name": "Ann"}) == text
        with pytest.raises(MCPError, match=r"'to\.name' is missing") as caught:
            await client.get_prompt("mustache.mail", {"points": "x"})
        assert caught.value.error.code == -32602


@both_eras
async def test_a_blank_and_a_field_of_it_can_both_be_filled(daemon: Daemon, era: Era) -> None:
    register(daemon, "mail", "{{to}} {{to.name}} {{to.at.home}}")
    async with connected(daemon, "http", era) as client:
        given = {"to": '{"name": "Ann", "at": {}}', "to.name": "", "to.at.home": "Rome"}
        text = '{"name":"Ann","at":{"home":"Rome"}} Ann Rome'
        assert await filled(client, "mustache.mail", **given) == text
        given = {"to": "", "to.name": "Ann", "to.at.home": ""}
        assert await filled(client, "mustache.mail", **given) == '{"name":"Ann"} Ann '
        with pytest.raises(MCPError, match="'to' is not an object") as caught:
            await client.get_prompt("mustache.mail", given | {"to": "Bo"})
        hint = "Leave one of them empty, or set 'to' to a JSON object"
        assert caught.value.error.data["hint"] == hint


@both_eras
async def test_a_deleted_template_is_not_a_prompt(daemon: Daemon, era: Era) -> None:
    register(daemon, "mail", "Hello")
    async with connected(daemon, "http", era) as client:
        assert await filled(client, "mustache.mail") == "Hello"
        register(daemon, "mail", "Goodbye", replace=True)
        assert await filled(client, "mustache.mail") == "Goodbye"
        [_] = events_of(daemon.home, "mustache.delete_template", name="mail")
        assert await prompts(client) == {}
        with pytest.raises(MCPError, match=r"there is no prompt 'mustache\.mail'"):
            await client.get_prompt("mustache.mail")


@both_eras
async def test_a_client_is_notified_of_each_change_and_of_nothing_else(
    tmp_path: Path, era: Era
) -> None:
    async with (
        serving(tmp_path, Mustache()) as served,
        listening(served, tmp_path, "http", era) as (client, notified),
    ):
        assert await prompts(client) == {}
        steps: list[tuple[str, dict[str, Any], list[str]]] = [
            ("register_template", {"name": "mail", "template": "Hello"}, ["mustache.mail"]),
            ("register_template", {"name": "memo", "template": "{{x}}"}, MAIL_AND_MEMO),
            (
                "register_template",
                {"name": "mail", "template": "{{y}}", "replace": True},
                MAIL_AND_MEMO,
            ),
            ("delete_template", {"name": "mail"}, ["mustache.memo"]),
        ]
        for method, given, expected in steps:
            # Neither of these changes anything.
            await client.call_tool("mustache.list_templates")
            refused = await client.call_tool("mustache.delete_template", {"name": "nobody"})
            assert refused.is_error
            notified.received.clear()
            assert not (await client.call_tool(f"mustache.{method}", given)).is_error
            await notified.wait_for("prompts")
            assert list(await prompts(client)) == expected
            assert notified.received == ["prompts"]
