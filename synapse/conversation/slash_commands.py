"""The commands at a prompt, such as `/fork`: each calls a method, or sets a parameter.

The method's annotation `interactive` declares them.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from hubd.wire.text import shorten
from synapse.errors import CommandError, UsageError
from synapse.params.parser import parse
from synapse.params.schemas import dashed

if TYPE_CHECKING:
    from collections.abc import Callable

    from hubd.wire.schema import InteractiveHint, MethodSchema, SlashCommand
    from synapse.hub.cache import Cache

# The commands of every prompt.
OWN = {"help": "List the commands", "quit": "Leave, as Ctrl-D does"}


def split_command(text: str) -> tuple[str, str]:
    """Return the name of a command and the rest of its line; no name if the text is not one.

    A text such as `/usr/bin is full` is not a command, nor is one that begins with a space.
    """
    word, _, rest = text.partition(" ")
    name = word[1:]
    is_command = word.startswith("/") and name.replace("-", "").replace("_", "").isalnum()
    return (name, rest.strip()) if is_command else ("", text)


def shared_params(schema: MethodSchema, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a conversation that a method has, too."""
    properties = schema["params"].get("properties", {})
    return {name: value for name, value in params.items() if name in properties}


def command_params(
    command: SlashCommand,
    schema: MethodSchema,
    given: dict[str, Any],
    rest: str,
    ask: Callable[[str], str],
) -> dict[str, Any]:
    """Return the parameters of a command's method.

    Args:
        command: The command.
        schema: Its method.
        given: The values from the conversation, and from another method.
        rest: The rest of the line.
        ask: Asks the user for the value of a parameter.

    Raises:
        UsageError: The line has a value that the command does not take, or a value is wrong.
    """
    texts: dict[str, str] = {}
    argument = command.get("argument")
    if rest and argument is None:
        raise UsageError("the command takes no value")
    if rest and argument is not None:
        texts[argument] = rest
    for name in schema["params"].get("required", []):
        if name not in given and name not in texts:
            text = ask(dashed(name))
            if not text:
                raise CommandError("nothing was done")
            texts[name] = text
    # A value is never a file: `@@` stands for `@`.
    tokens = [
        f"--{name}={'@' if text.startswith('@') else ''}{text}" for name, text in texts.items()
    ]
    return parse(
        tokens,
        schema["params"],
        aliases=schema.get("annotations", {}).get("aliases"),
        base=json.dumps(given),
    )


def help_lines(hint: InteractiveHint, schema: MethodSchema, cache: Cache) -> list[str]:
    """Return a line for each command."""
    rows: list[tuple[str, str]] = []
    for name, command in hint.get("commands", {}).items():
        if "param" in command:
            parameter = command["param"]
            value = f" {dashed(parameter).upper()}"
            properties = schema["params"].get("properties", {})
            rows.append((f"/{name}{value}", properties.get(parameter, {}).get("description", "")))
            continue
        namespace, _, method = command["method"].rpartition(".")
        if cache.has_method(namespace, method):
            target = cache.method(namespace, method)
            rows.append((f"/{name}{_usage(command, target)}", target["description"]))
    rows += [(f"/{name}", text) for name, text in OWN.items()]
    width = max(len(usage) for usage, _ in rows)
    room = shutil.get_terminal_size().columns - 1
    lines = (f"{usage:{width}}  {text.partition('. ')[0].rstrip('.')}" for usage, text in rows)
    return [shorten(line, room) for line in lines]


def _usage(command: SlashCommand, target: MethodSchema) -> str:
    argument = command.get("argument")
    if argument is None:
        return ""
    word = dashed(argument).upper()
    return f" {word}" if argument in target["params"].get("required", []) else f" [{word}]"
