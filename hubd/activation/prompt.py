"""Prompts: texts with arguments that users choose in their MCP clients."""

from typing import Literal, NamedTuple


class PromptArgument(NamedTuple):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class Prompt(NamedTuple):
    """A prompt. Its name is unique within its activation."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class PromptMessage(NamedTuple):
    """A message of a prompt with its arguments filled in."""

    role: Literal["user", "assistant"]
    text: str
