"""A hub in this process with cones, trees and plugins with handles."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hubd.activation import Activation, Event, Handle, method, resolver
from hubd.plexus.hub import Hub
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.cone.plugin import Cone
from hubd.plugins.echo import EchoPlugin
from tests.support import call_items, hub_with

PROVIDER_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
)


@asynccontextmanager
async def cones(directory: Path) -> AsyncIterator[Hub]:
    """Run the hub."""
    async with hub_with(directory, EchoPlugin(), Arbor(), Cone()) as hub:
        yield hub


async def only(hub: Hub, method: str, /, **params: Any) -> dict[str, Any]:
    """Return the only event of a successful call. Guidance is ignored."""
    [event] = await everything(hub, method, **params)
    return event


async def everything(hub: Hub, method: str, /, **params: Any) -> list[dict[str, Any]]:
    """Return the events of a successful call. Guidance is ignored."""
    items = await call_items(hub, method, **params)
    assert [item for item in items if item["type"] == "error"] == []
    return [item["content"] for item in items if item["type"] == "data"]


async def conversation(hub: Hub, name: str, **params: Any) -> list[tuple[str, str]]:
    """Return the roles and texts of a cone's conversation."""
    messages = await everything(hub, "cone.get_conversation", identifier=name, **params)
    return [(message["role"], message["content"]) for message in messages]


async def head(hub: Hub, name: str) -> str:
    """Return the node id of a cone's head."""
    data = await only(hub, "cone.get", identifier=name)
    return str(data["cone"]["head"]["node_id"])


async def tree_of(hub: Hub, name: str) -> str:
    """Return the tree id of a cone."""
    data = await only(hub, "cone.get", identifier=name)
    return str(data["cone"]["head"]["tree_id"])


def answer(events: list[dict[str, Any]]) -> str:
    """Return the text of a chat's answer."""
    return "".join(event["content"] for event in events if event["type"] == "chat_content")


class MemberRef(Handle, method="member", kind="document", summary="{text}"):
    """The handle of a member."""

    name: str


class Member(Event):
    role: list[str]
    text: str


class Team(Activation, namespace="team", version="1.0.0"):
    """People with roles that no conversation has."""

    @method
    async def member(self, name: str) -> AsyncIterator[Member]:
        """Show a member."""
        yield Member(role=["lead"], text=name)

    @resolver
    async def resolve_member(self, ref: MemberRef) -> AsyncIterator[Member]:
        """Resolve a member."""
        yield Member(role=["lead"], text=ref.name)
