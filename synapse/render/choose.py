"""Choose the renderer of a call by the options and the method's hints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from synapse.render import plain

if TYPE_CHECKING:
    from hubd.wire.schema import MethodSchema
    from synapse.argv import Invocation
    from synapse.render import Renderer
    from synapse.render.human import Human


def choose_renderer(
    invocation: Invocation, schema: MethodSchema, params: dict[str, Any]
) -> Renderer:
    """Return the renderer for the events of a call.

    Args:
        invocation: The options.
        schema: The method.
        params: The parameters of the call.

    Raises:
        UsageError: A field of `--fields` does not exist.
    """
    names = (invocation.value("--fields") or "").replace(" ", "").split(",")
    fields = None
    if any(names):
        from synapse.render.fields import Fields

        fields = Fields([name for name in names if name], schema["returns"])
    if invocation.flag("--items"):
        return plain.Items()
    output = _output(invocation)
    hints = schema.get("annotations", {})
    if output == "ndjson":
        return plain.Lines(fields)
    if output == "json":
        return plain.Document(streaming=schema["streaming"], fields=fields)
    if output == "raw":
        from synapse.render import raw

        is_chat = hints.get("render") == "chat" and fields is None
        return raw.RawChat(all_roles=bool(hints.get("read_only"))) if is_chat else raw.Raw(fields)
    if fields:
        from synapse.render.human import Picked

        return Picked(fields)
    if hints.get("render") == "chat":
        return chat_view(schema, params, thinking=invocation.flag("--thinking"))
    return _view(schema)


def chat_view(
    schema: MethodSchema, params: dict[str, Any], *, thinking: bool, typed: bool = False
) -> Renderer:
    """Return the view of a chat.

    Args:
        schema: The method.
        params: The parameters of the call.
        thinking: Whether thinking is shown.
        typed: Whether the user has typed the prompt just now, so that it is on the screen.
    """
    from synapse.render.chat.view import Chat

    hints = schema.get("annotations", {})
    prompt = params.get(hints.get("interactive", {}).get("param", ""))
    names = (params.get(name) for name in hints.get("completes", {}))
    return Chat(
        schema["returns"],
        prompt="" if typed else prompt if isinstance(prompt, str) else None,
        label=next((name for name in names if isinstance(name, str)), ""),
        thinking=thinking,
        is_replay=bool(hints.get("read_only")),
    )


def _view(schema: MethodSchema) -> Human:
    """Return the view of a method's events at a terminal."""
    from synapse.render.human import Human, Lines, Rows, Words

    hint = schema.get("annotations", {}).get("render")
    if hint == "tree":
        from synapse.render.trees import Branches

        names = [name for name in ("limit", "depth") if name in schema["params"]["properties"]]
        return Branches(", ".join(f"--{name}" for name in names))
    if hint == "text":
        return Words()
    if schema["streaming"] and schema["bidirectional"] and not hint:
        return Lines(schema["returns"])
    return Rows(schema["returns"]) if hint == "table" or schema["streaming"] else Human()


def wants_resolved_handles(invocation: Invocation, schema: MethodSchema) -> bool:
    """Return whether a tree is drawn at a terminal by a method that can resolve its handles."""
    hints = schema.get("annotations", {})
    parameter = schema["params"]["properties"].get("resolve", {})
    is_drawn = _output(invocation) == "table" and not invocation.flag("--items")
    return (
        is_drawn
        and sys.stdout.isatty()
        and hints.get("render") == "tree"
        and parameter.get("type") == "boolean"
    )


def _output(invocation: Invocation) -> str:
    """Return the output format; by default a table at a terminal, else lines of JSON."""
    if invocation.output != "auto":
        return invocation.output
    return "table" if sys.stdout.isatty() else "ndjson"
