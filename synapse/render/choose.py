"""Choose the renderer of a call by the options and the method's hints."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from synapse.params.limit import limits_hint
from synapse.render import plain

if TYPE_CHECKING:
    from hubd.wire.schema import MethodSchema
    from synapse.argv import Invocation
    from synapse.render import Renderer
    from synapse.render.human import Human, Picked
    from synapse.render.watch import Watch


def choose_renderer(
    invocation: Invocation,
    schema: MethodSchema,
    params: dict[str, Any] | None = None,
    screen: Watch | None = None,
) -> Renderer:
    """Return the renderer for the events of a call.

    Args:
        invocation: The command line.
        schema: The method.
        params: The params of the call.
        screen: The screen of `--watch`, which shows the whole output.

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
    if output in ("raw", "table") and hints.get("render") == "process" and fields is None:
        from synapse.render.process import Process

        return Process()
    if output == "raw":
        from synapse.render import raw

        is_chat = hints.get("render") == "chat" and fields is None
        return raw.RawChat(all_roles=bool(hints.get("read_only"))) if is_chat else raw.Raw(fields)
    if fields:
        from synapse.render.human import Picked

        view: Human | Picked = Picked(fields)
    elif schema.get("annotations", {}).get("render") == "chat":
        return chat_view(schema, params or {}, thinking=invocation.flag("--thinking"))
    else:
        view = _view(schema, params or {}, exact_times=invocation.flag("--times"))
    if screen is not None:
        view.collect(screen.show)
    elif not _is_live(schema) and not invocation.flag("--no-pager"):
        from synapse.render import pager

        if pager.may_page():
            view.collect(pager.page)
    return view


def _is_live(schema: MethodSchema) -> bool:
    """Return whether events are shown as they come."""
    hint = schema.get("annotations", {}).get("render")
    return hint in ("chat", "process") or schema["bidirectional"]


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


def _view(schema: MethodSchema, params: dict[str, Any], *, exact_times: bool) -> Human:
    """Return the view of a method's events at a terminal."""
    from synapse.render.human import Human, Lines, Rows, Words
    from synapse.render.lines import EventLines
    from synapse.render.values import Values

    returns = schema["returns"]
    values = Values(returns, exact_times=exact_times)
    hint = schema.get("annotations", {}).get("render")
    if hint == "tree":
        from synapse.render.trees import Branches

        return Branches(limits_hint(params, schema["params"]), values)
    if hint == "text":
        return Words(values)
    if schema["streaming"] and schema["bidirectional"] and not hint:
        return Lines(returns, values)
    if hint == "table" or schema["streaming"]:
        return Rows(returns, values, is_list=hint == "table")
    return Human(values, EventLines(returns))


def params_of_drawing(invocation: Invocation, schema: MethodSchema) -> dict[str, Any]:
    """Return the params that a drawing at a terminal has by default.

    A tree has its handles resolved, and texts that are as wide as the terminal, if its method has
    the parameters `resolve` and `width`.
    """
    is_drawn = _output(invocation) == "table" and not invocation.flag("--items")
    if schema.get("annotations", {}).get("render") != "tree" or not is_drawn:
        return {}
    if not sys.stdout.isatty():
        return {}
    properties = schema["params"]["properties"]
    params: dict[str, Any] = {}
    if properties.get("resolve", {}).get("type") == "boolean":
        params["resolve"] = True
    width = properties.get("width", {})
    if width.get("type") == "integer":
        columns = shutil.get_terminal_size().columns
        params["width"] = max(min(columns, width.get("maximum", columns)), width.get("minimum", 1))
    return params


def _output(invocation: Invocation) -> str:
    """Return the output format; by default a table at a terminal, else lines of JSON."""
    if invocation.output != "auto":
        return invocation.output
    return "table" if sys.stdout.isatty() else "ndjson"
