"""Prompts an activation offers: named texts with blanks, for people to choose in their client."""

from typing import Literal, NamedTuple


class PromptArgument(NamedTuple):
    """One blank."""

    name: str
    description: str = ""
    required: bool = False


class Prompt(NamedTuple):
    """One prompt; its name is unique within its activation."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class PromptMessage(NamedTuple):
    """One message of a prompt whose blanks are filled."""

    role: Literal["user", "assistant"]
    text: str
