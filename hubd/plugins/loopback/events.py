"""The events of loopback's methods."""

from typing import Literal

from pydantic import BaseModel, Field

from hubd.activation import Event, columns

Effect = Literal["allow", "deny", "ask"]


class RuleInfo(BaseModel, defer_build=True):
    """One rule. Times are in seconds."""

    id: str
    effect: Effect
    tool: str
    pattern: str | None = Field(description="The pattern; null for every call of the tool")
    scope: str
    expires_at: int | None
    uses_left: int | None = Field(description="Calls that the rule still decides; null: no limit")
    created_at: int


class RuleAdded(RuleInfo, Event, summary="added: {effect} {tool} {pattern}"):
    """A stored rule."""


class RuleList(Event):
    """A page of rules, the newest first."""

    rules: list[RuleInfo] = Field(
        json_schema_extra=columns(
            id="{id:.8}",
            effect="{effect}",
            tool="{tool}",
            pattern="{pattern}",
            scope="{scope}",
            uses="{uses_left}",
            expires="{expires_at}",
            added="{created_at}",
        )
    )


class RuleRemoved(RuleInfo, Event, summary="removed: {effect} {tool} {pattern}"):
    """A removed rule."""


class RuleTested(Event, summary="{effect}"):
    """The decision about a call, which was not made."""

    effect: Effect
    rules: list[str] = Field(description="The ids of the rules that decide; empty if none does")
    commands: list[str] = Field(description="The simple commands of a shell command")
    explanation: list[str] = Field(description="The reasons, in sentences")
    text: str = Field(description="The decision and its reasons, for people")
