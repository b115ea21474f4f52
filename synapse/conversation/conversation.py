"""The conversation: read a line, make a turn of it, or run a command."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from hubd.wire.envelope import call_request
from hubd.wire.terminal import clean, one_line
from hubd.wire.text import did_you_mean
from synapse.argv import Invocation
from synapse.call.call import Retry, call
from synapse.call.questions import confirm_destruction
from synapse.conversation.history import history_file
from synapse.conversation.interruption import interruptible
from synapse.conversation.line_editor import LineEditor
from synapse.conversation.slash_commands import (
    OWN,
    command_params,
    help_lines,
    shared_params,
    split_command,
)
from synapse.errors import CommandError
from synapse.hub.client import items
from synapse.main import report
from synapse.params.parser import parse
from synapse.render.choose import chat_view, choose_renderer, params_of_drawing
from synapse.render.wrapping import wrapped

if TYPE_CHECKING:
    from hubd.wire.schema import MethodSchema, SlashCommand
    from synapse.hub.cache import Cache
    from synapse.hub.hubs import Hub
    from synapse.render import Renderer

# The longest wait for the method that ends a turn, or that gives the values of a command.
SECONDS = 10.0
WELCOME = "Ctrl-C ends a turn, Ctrl-D leaves, /help lists the commands."


def conversation_params(
    tokens: list[str], schema: MethodSchema, invocation: Invocation
) -> dict[str, Any] | None:
    """Return the parameters of a conversation; None if the command line asks for a single call.

    At a terminal, a conversation begins if an interactive method is called without the parameter
    that its prompt asks for.

    Raises:
        UsageError: Another parameter is missing or wrong.
    """
    hints = schema.get("annotations", {})
    hint = hints.get("interactive")
    refused = ("--items", "--fields", "--no-input", "--dry-run", "--answer")
    if hint is None or any(map(invocation.flag, refused)):
        return None
    if invocation.output not in ("auto", "table"):
        return None
    required = [name for name in schema["params"].get("required", []) if name != hint["param"]]
    params = parse(
        tokens,
        {**schema["params"], "required": required},
        aliases=hints.get("aliases"),
        base=invocation.value("--params"),
    )
    return None if hint["param"] in params else params


class Conversation:
    """A prompt for one method.

    Args:
        hub: The hub.
        cache: Its schema.
        invocation: The command line.
        schema: The interactive method.
        params: Its parameters, without the one that the prompt asks for.
    """

    def __init__(
        self,
        hub: Hub,
        cache: Cache,
        invocation: Invocation,
        schema: MethodSchema,
        params: dict[str, Any],
    ) -> None:
        self._hub = hub
        self._cache = cache
        self._invocation = invocation
        self._schema = schema
        self._params = params
        self._path = f"{invocation.namespace}.{invocation.method}"
        self._hint = schema["annotations"]["interactive"]
        self._commands = self._hint.get("commands", {})
        self._editor = LineEditor([f"/{name}" for name in (*self._commands, *OWN)])

    def run(self) -> int:
        """Read and answer lines until the user leaves."""
        sys.stderr.write("".join(f"{line}\n" for line in wrapped(WELCOME)))
        label = None
        while True:
            if label != self._label:
                label = self._label
                self._editor.use_history(history_file(self._hub.cache_file, self._path, label))
            try:
                text = self._editor.read(label)
            except KeyboardInterrupt:
                sys.stdout.write("\n")
                continue
            if text is None:
                return 0
            if not text.strip():
                continue
            name, rest = split_command(text)
            if name == "quit":
                return 0
            try:
                if name:
                    self._run_command(name, rest)
                else:
                    self._turn(text)
            except CommandError as error:
                report(error)
            except Retry:
                report(CommandError("the hub's methods have changed; start again"))
            except KeyboardInterrupt:
                sys.stdout.write("\n")

    @property
    def _label(self) -> str:
        """The values of the other parameters that a call needs, such as a session's name."""
        names = self._schema["params"].get("required", [])
        values = (self._params.get(name) for name in names if name != self._hint["param"])
        return " ".join(str(value) for value in values if value is not None)

    def _turn(self, text: str) -> None:
        params = {**self._params, self._hint["param"]: text}
        hints = self._schema.get("annotations", {})
        if hints.get("render") == "chat":
            thinking = self._invocation.flag("--thinking")
            renderer = chat_view(self._schema, params, thinking=thinking, typed=True)
        else:
            renderer = choose_renderer(self._invocation, self._schema, params)
        cancel = self._cancel if "cancel" in self._hint else None
        with interruptible(cancel):
            self._call(self._path, params, self._schema, self._invocation, renderer)

    def _run_command(self, name: str, rest: str) -> None:
        if name == "help":
            lines = help_lines(self._hint, self._schema, self._cache)
            sys.stdout.write("".join(f"{clean(line)}\n" for line in lines))
            return
        command = self._commands.get(name)
        if command is None:
            names = [f"/{one}" for one in (*self._commands, *OWN)]
            hint = did_you_mean(f"/{name}", names) or f"There are: {', '.join(names)}"
            raise CommandError(f"unknown command /{name}", hint=hint)
        if "param" in command:
            self._set_parameter(command["param"], rest)
            return
        schema = self._method(command["method"])
        given = self._given(command, schema)
        params = command_params(command, schema, given, rest, self._editor.ask)
        invocation = Invocation()
        confirm_destruction(invocation, schema, params, command["method"].replace(".", " "))
        params = {**params_of_drawing(invocation, schema), **params}
        noting = _Noting(choose_renderer(invocation, schema, params))
        self._call(command["method"], params, schema, invocation, noting)
        for parameter, field in command.get("switches", {}).items():
            if field in noting.last:
                self._params[parameter] = noting.last[field]

    def _set_parameter(self, parameter: str, rest: str) -> None:
        """Set a parameter for the next turns, or show it."""
        if rest:
            schema = {**self._schema["params"], "required": []}
            text = f"@{rest}" if rest.startswith("@") else rest
            self._params |= parse([f"--{parameter}={text}"], schema)
        value = self._params.get(parameter)
        sys.stdout.write(f"{parameter}: {'not set' if value is None else one_line(str(value))}\n")

    def _given(self, command: SlashCommand, schema: MethodSchema) -> dict[str, Any]:
        """Return the values that a command's method gets without the user."""
        given = shared_params(schema, self._params)
        if "values_from" in command:
            event = self._event(command["values_from"])
            given = {**shared_params(schema, event), **given}
        return given

    def _method(self, path: str) -> MethodSchema:
        namespace, _, name = path.rpartition(".")
        if not self._cache.has_method(namespace, name):
            raise CommandError(f"the hub has no method {path}", status=3)
        return self._cache.method(namespace, name)

    def _cancel(self) -> None:
        self._event(self._hint["cancel"])

    def _event(self, path: str) -> dict[str, Any]:
        """Return the last event of a method that gets the parameters of the conversation.

        Raises:
            CommandError: The call failed.
        """
        params = shared_params(self._method(path), self._params)
        connection = self._hub.connect(SECONDS)
        event: dict[str, Any] = {}
        try:
            connection.send(call_request(self._cache.root, path, json.dumps(params), ""))
            for item in items(connection):
                if item.get("type") == "error":
                    raise CommandError(str(item.get("message")))
                content = item.get("content")
                event = content if isinstance(content, dict) else event
        except TimeoutError:
            raise CommandError(f"{path} did not answer in time") from None
        finally:
            connection.close()
        return event

    def _call(
        self,
        path: str,
        params: dict[str, Any],
        schema: MethodSchema,
        invocation: Invocation,
        renderer: Renderer,
    ) -> None:
        connection = self._hub.connect()
        try:
            call(connection, self._cache, path, params, schema, invocation, renderer, self._hub)
        finally:
            connection.close()


class _Noting:
    """A renderer that keeps the last event."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self.last: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._renderer, name)

    def event(self, content: Any) -> None:
        """Keep the event and show it."""
        if isinstance(content, dict):
            self.last = content
        self._renderer.event(content)
