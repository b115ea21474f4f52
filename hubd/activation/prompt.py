"""Prompts an activation offers: named texts with blanks, for people to choose in their client."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class PromptArgument:
    """One blank."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True)
class Prompt:
    """One prompt; its name is unique within its activation."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True)
class PromptMessage:
    """One message of a prompt whose blanks are filled."""

    role: Literal["user", "assistant"]
    text: str
