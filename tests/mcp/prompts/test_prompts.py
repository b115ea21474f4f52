"""The prompts that plugins offer, as MCP clients see them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import TextContent

from hubd.activation import Activation, Conflict, Prompt, PromptArgument, PromptMessage
from hubd.mcp import pages as mcp_pages
from hubd.mcp import prompts as mcp_prompts
from hubd.mcp.access import McpOptions
from tests.mcp.notified_clients import client_of, listening
from tests.mcp.support import ERAS, TOKEN, Era, over_http, serving


class Templates(Activation, version="1.0.0"):
    """Offers the prompts of its constructor."""

    def __init__(self, name: str, *prompts: Prompt, children: Iterable[Activation] = ()) -> None:
        self.namespace = name
        self.prompts = list(prompts)
        self._children = children

    def children(self) -> Iterable[Activation]:
        return self._children

    async def offer_prompts(self) -> Sequence[Prompt]:
        return self.prompts

    async def fill_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        return [
            PromptMessage("user", f"{name}: {sorted(arguments.items())}"),
            PromptMessage("assistant", "I see."),
        ]


WEEKLY = Prompt(
    "weekly",
    "What happened this week",
    (
        PromptArgument("week", "Which week", required=True),
        PromptArgument("tone"),
    ),
)


class Misbehaving(Activation, namespace="bad", version="1.0.0"):
    """Fails in different ways in `offer_prompts`."""

    def __init__(self, how: str) -> None:
        self.how = how

    async def offer_prompts(self) -> Sequence[Prompt]:
        if self.how == "raises":
            raise RuntimeError("a plugin's own mistake")
        if self.how == "hangs":
            await asyncio.Event().wait()
        if self.how == "nonsense":
            return [None, 3]  # type: ignore[list-item]
        if self.how == "types":
            return [Prompt("x", description=3)]  # type: ignore[arg-type]
        return None  # type: ignore[return-value]


async def names(client: Client) -> list[str]:
    """The names of all prompts."""
    return [prompt.name for prompt in (await client.list_prompts()).prompts]


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_are_listed_under_their_namespaces(tmp_path: Path, era: Era) -> None:
    child = Templates("below", Prompt("a.b"))
    plugins = [Templates("notes", WEEKLY, Prompt("brief"), children=[child]), Templates("empty")]
    async with serving(tmp_path, *plugins) as served, over_http(served.url, TOKEN, era) as client:
        listed = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in listed] == [
            "notes.below.a.b",
            "notes.brief",
            "notes.weekly",
        ]
        weekly = listed[2]
        assert weekly.description == "What happened this week"
        assert weekly.arguments is not None
        assert [
            (entry.name, entry.description, bool(entry.required)) for entry in weekly.arguments
        ] == [
            ("week", "Which week", True),
            ("tone", None, False),
        ]


@pytest.mark.parametrize("era", ERAS)
async def test_a_prompt_is_filled_by_the_plugin_that_offers_it(tmp_path: Path, era: Era) -> None:
    child = Templates("below", Prompt("a.b"))
    async with (
        serving(tmp_path, Templates("notes", WEEKLY, children=[child])) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        filled = await client.get_prompt("notes.weekly", {"week": "34", "tone": "dry"})
        assert filled.description == "What happened this week"
        texts = [
            (message.role, message.content.text)
            for message in filled.messages
            if isinstance(message.content, TextContent)
        ]
        assert texts == [
            ("user", "weekly: [('tone', 'dry'), ('week', '34')]"),
            ("assistant", "I see."),
        ]
        filled = await client.get_prompt("notes.below.a.b")
        assert isinstance(filled.messages[0].content, TextContent)
        assert filled.messages[0].content.text == "a.b: []"


WRONG_PROMPTS: list[tuple[str, dict[str, str], str]] = [
    ("notes.weekly", {}, "'week' is missing"),
    ("notes.weekly", {"week": "1", "pace": "x"}, "notes.weekly has no argument 'pace'"),
    ("notes.daily", {}, "there is no prompt 'notes.daily'"),
    ("notes", {}, "there is no prompt 'notes'"),
    ("weekly", {}, "there is no prompt 'weekly'"),
    ("", {}, "there is no prompt ''"),
    ("other.weekly", {}, "there is no prompt"),
]


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_prompt_or_argument_is_an_error_with_a_hint(
    tmp_path: Path, era: Era
) -> None:
    async with (
        serving(tmp_path, Templates("notes", WEEKLY)) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        for name, arguments, message in WRONG_PROMPTS:
            with pytest.raises(MCPError, match=message) as caught:
                await client.get_prompt(name, arguments)
            assert caught.value.error.code == -32602
            if name == "notes.weekly":
                assert caught.value.error.data["hint"] == "notes.weekly takes: week, tone"


@pytest.mark.parametrize("era", ERAS)
async def test_new_prompts_are_listed_after_a_notification(tmp_path: Path, era: Era) -> None:
    plugin = Templates("notes", WEEKLY)
    async with (
        serving(tmp_path, plugin) as served,
        listening(served, tmp_path, "http", era) as (client, notified),
    ):
        assert await names(client) == ["notes.weekly"]
        plugin.prompts.append(Prompt("daily"))
        plugin.host.prompts_changed()
        await notified.wait_for("prompts")
        assert await names(client) == ["notes.daily", "notes.weekly"]
        assert notified.received == ["prompts"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["raises", "hangs", "nonsense", "types", "nothing"])
async def test_a_failing_offer_of_prompts_does_not_affect_other_plugins(
    tmp_path: Path, era: Era, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_prompts, "OFFER_SECONDS", 0.05)
    async with (
        serving(tmp_path, Misbehaving(how), Templates("notes", WEEKLY)) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        assert await names(client) == ["notes.weekly"]
        assert (await client.get_prompt("notes.weekly", {"week": "1"})).messages
        with pytest.raises(MCPError, match="there is no prompt"):
            await client.get_prompt("bad.x")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (Conflict("the template is being edited"), -32603, "the template is being edited"),
        (ZeroDivisionError("a plugin's own mistake"), -32603, "ZeroDivisionError: a plugin's own"),
        ([PromptMessage("judge", "x")], -32603, "ValidationError"),  # type: ignore[arg-type]
        ([None], -32603, "AttributeError"),
    ],
    ids=["refusal", "mistake", "role", "nonsense"],
)
async def test_a_prompt_that_cannot_be_filled_is_an_error_with_a_reason(
    tmp_path: Path, era: Era, failure: Any, code: int, message: str
) -> None:
    class Failing(Templates, version="1.0.0"):
        """Cannot fill anything."""

        async def fill_prompt(
            self, name: str, arguments: Mapping[str, str]
        ) -> Sequence[PromptMessage]:
            if isinstance(failure, Exception):
                raise failure
            return failure  # type: ignore[no-any-return]

    async with (
        serving(tmp_path, Failing("notes", Prompt("any"))) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        with pytest.raises(MCPError, match=message) as caught:
            await client.get_prompt("notes.any")
        assert caught.value.error.code == code


@pytest.mark.parametrize("era", ERAS)
async def test_the_advice_of_a_plugin_comes_with_its_refusal_half_characters_or_not(
    tmp_path: Path, era: Era
) -> None:
    class Busy(Templates, version="1.0.0"):
        """Knows what to do instead."""

        async def fill_prompt(
            self, name: str, arguments: Mapping[str, str]
        ) -> Sequence[PromptMessage]:
            raise Conflict("it is being edited", suggestion="Close caf\udce9 first")

    async with (
        serving(tmp_path, Busy("notes", Prompt("any"))) as served,
        client_of(served, tmp_path, "stdio", era) as client,
    ):
        with pytest.raises(MCPError, match="it is being edited") as caught:
            await client.get_prompt("notes.any")
        assert caught.value.error.data == {"code": "conflict", "hint": "Close caf? first"}
        assert await names(client) == ["notes.any"]


@pytest.mark.parametrize("era", ERAS)
async def test_only_prompts_of_the_namespaces_of_a_profile_are_offered(
    tmp_path: Path, era: Era
) -> None:
    options = McpOptions(profile=frozenset({"notes"}))
    plugins = [Templates("notes", WEEKLY), Templates("other", WEEKLY)]
    async with (
        serving(tmp_path, *plugins, options=options) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        assert await names(client) == ["notes.weekly"]
        with pytest.raises(MCPError, match=r"there is no prompt 'other\.weekly'"):
            await client.get_prompt("other.weekly", {"week": "1"})


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_come_page_by_page_and_one_name_once(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_pages, "PAGE", 2)
    offers = [Prompt(name) for name in ("a", "b", "c", "a", "d", "e")]
    async with (
        serving(tmp_path, Templates("notes", *offers)) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await client.list_prompts(cursor=cursor)
            found += [prompt.name for prompt in page.prompts]
            if (cursor := page.next_cursor) is None:
                break
        assert found == [f"notes.{name}" for name in "abcde"]
