"""One call on the full way: sends it, shows what comes back, works out the exit status."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hubd.wire.item import EXIT_CODES
from hubd.wire.terminal import one_line
from synapse.chat import ChatEnd, background
from synapse.client import item_of, request
from synapse.context import caller_context
from synapse.errors import CommandError, NoDaemon
from synapse.hubs import LocalHub
from synapse.questions import Answers, Incoming
from synapse.render.plain import Lines
from synapse.render.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from synapse.cache import Cache
    from synapse.chat import Background
    from synapse.client import Connection, UnixConnection
    from synapse.hubs import Hub
    from synapse.invocation import Invocation
    from synapse.render import Renderer

# The status that no error code stands for.
TIMED_OUT = 6

# After so long without an item, what was held back for a table is shown.
LULL_SECONDS = 0.25

# Errors that an old schema may be the reason for; whatever else fails is not tried again.
_SCHEMA_CODES = ("invalid_method", "invalid_params", "activation_not_found", "method_not_found")

# The id of an answer to a question; the call itself is 1.
_ANSWER = 2

# How many names a hint lists.
MAX_NAMES = 40


class Retry(Exception):
    """The hub has changed, nothing was shown yet, and the call failed: worth another try."""


class Outcome:
    """Takes the items of one call, one by one."""

    def __init__(
        self,
        renderer: Renderer,
        *,
        root: str = "",
        answers: Answers | None = None,
        chat: ChatEnd | None = None,
        waiting: Waiting | None = None,
    ) -> None:
        self._renderer = renderer
        # The name of the hub, which answers are sent to.
        self._root = root
        self._answers = answers
        # Set if the method is a chat.
        self._chat = chat
        self._waiting = waiting or Waiting(wanted=False)
        # Guidance: shown with the error that follows it, else as a warning.
        self._advice: dict[str, Any] | None = None
        self.printed = False
        self.error: CommandError | None = None
        # The code of the error.
        self.code = ""

    def take(self, item: dict[str, Any], connection: Connection, incoming: Incoming) -> None:
        """Act on one item; an item of unknown type is ignored."""
        kind = item.get("type")
        if kind == "progress" and self._waiting.active and item.get("percentage") is None:
            self._waiting.say(str(item.get("message", "")))
            return
        if kind not in ("done", "request_closed"):
            self._waiting.end()
        self._renderer.item(item)
        if kind == "data":
            content = item.get("content")
            if self._chat is not None:
                self._chat.note(content)
            self._renderer.event(content)
            self.printed = True
        elif kind == "progress":
            self._renderer.progress(str(item.get("message", "")), _number(item.get("percentage")))
        elif kind == "guidance":
            self._warn()
            self._advice = item
        elif kind == "error":
            hint = _hint(self._advice) if self._advice else ""
            self._advice = None
            self.code = str(item.get("code") or "")
            message = str(item.get("message") or "the call failed; the hub gives no reason")
            self.error = CommandError(message, hint=hint, status=EXIT_CODES.get(self.code, 1))
        elif kind == "request":
            self._answer(item, connection, incoming)

    def _answer(self, item: dict[str, Any], connection: Connection, incoming: Incoming) -> None:
        self._renderer.pause()
        answer: dict[str, Any] | None = {"type": "cancelled"}
        if self._answers:
            answer = self._answers.to(item, incoming)
        if answer is None:
            return  # the question is closed; the hub goes on without an answer
        reply = {"request_id": item.get("requestId"), "response_data": answer}
        method = f"{self._root}.respond"
        call = {"jsonrpc": "2.0", "id": _ANSWER, "method": method, "params": reply}
        connection.send(json.dumps(call).encode())

    def finish(self) -> None:
        """Show the rest.

        Raises:
            CommandError: The call failed, or its chat did not end well.
        """
        self._waiting.erase()
        try:
            self._renderer.close()
        except CommandError:
            if self.error is None:
                raise
        self._warn()
        unanswered = self._answers.unanswered if self._answers else None
        if unanswered is not None and self.code == "cancelled":
            raise unanswered
        if self.error is not None:
            raise self.error
        if self._chat is not None:
            self._chat.check()

    @property
    def worth_another_try(self) -> bool:
        """Whether a newer schema may make the difference, and nothing was shown yet."""
        return self.code in _SCHEMA_CODES and not self.printed

    def _warn(self) -> None:
        """Guidance that no error followed is a warning."""
        if self._advice is not None:
            _warn(_hint(self._advice))
            self._advice = None


def call(
    connection: UnixConnection | Any,
    cache: Cache,
    path: str,
    params: dict[str, Any],
    schema: dict[str, Any],
    found: Invocation,
    renderer: Renderer,
    hub: Hub,
) -> int:
    """Make a call and show it; returns the exit status.

    Raises:
        CommandError: It failed.
        Retry: It failed because the schema we went by is not the hub's any more.
    """
    hints = schema.get("annotations", {})
    # The caller's environment is for the local hub only: others ignore it, and it has secrets.
    needs_context = hints.get("needs_context") and isinstance(hub, LocalHub)
    context = json.dumps(caller_context()) if needs_context else ""
    deadline = _deadline(found)
    is_chat = hints.get("render") == "chat"
    waiting = Waiting(wanted=is_chat)
    outcome = Outcome(
        renderer,
        root=cache.root,
        answers=Answers(found, deadline),
        chat=ChatEnd() if is_chat else None,
        waiting=waiting,
    )
    commands = background(cache, found, schema, params)
    stale = False
    connection.send(request(cache.root, path, json.dumps(params), context))
    incoming = Incoming(connection)
    try:
        for item in _items(incoming, renderer, waiting, deadline):
            stale = stale or _is_stale(item, cache.hash)
            outcome.take(item, connection, incoming)
    except BaseException as end:
        # However it ends, the terminal is left as it was.
        waiting.erase()
        # The terminal shows ^C where the cursor is; `pause` ends only a line of text.
        if renderer.at_line_start and isinstance(end, KeyboardInterrupt) and sys.stderr.isatty():
            sys.stderr.write("\n")
        renderer.pause()
        if commands is not None:
            _tell_how_to_continue(end, commands)
        raise
    if stale and outcome.worth_another_try:
        raise Retry
    try:
        outcome.finish()
    finally:
        if stale:
            _remember(connection, hub.cache_file)
    return 0


def conclude(
    connection: UnixConnection, message: bytes, cache_file: str, *, stale: bool, printed: bool
) -> int | None:
    """Finish a call that the fast path began; None: do it again, with a fresh schema.

    Raises:
        CommandError: It failed.
    """
    renderer = Lines()
    outcome = Outcome(renderer)
    outcome.printed = printed
    incoming = Incoming(connection, message)
    for item in _items(incoming, renderer, Waiting(wanted=False), None):
        outcome.take(item, connection, incoming)
    if stale and outcome.worth_another_try:
        return None
    try:
        outcome.finish()
    finally:
        if stale:
            _remember(connection, cache_file)
    return 0


def _is_stale(item: dict[str, Any], known_hash: str) -> bool:
    """Whether an item shows that the hub has changed; not every hub says it."""
    metadata = item.get("metadata")
    current = metadata.get("plexus_hash") if isinstance(metadata, dict) else None
    return bool(current) and current != known_hash


def _tell_how_to_continue(end: BaseException, commands: Background) -> None:
    """Say how to watch and end a chat that outlives the call."""
    if isinstance(end, KeyboardInterrupt):
        sys.stderr.write(f"{commands.sentence}\n")
    elif isinstance(end, NoDaemon):
        end.hint = f"{end.hint}   Continue reading: {commands.watch}".strip()


def _remember(connection: UnixConnection | Any, cache_file: str) -> None:
    """Read the schema of a hub that has changed; a failure only costs time later."""
    from synapse import refresh

    with suppress(CommandError):
        refresh.refresh(cache_file, connection)


def _deadline(found: Invocation) -> float | None:
    text = found.value("--timeout")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise CommandError(f"--timeout must be a number of seconds, not {text!r}", status=2)
    return time.monotonic() + seconds


def _items(
    incoming: Incoming, renderer: Renderer, waiting: Waiting, deadline: float | None
) -> Iterator[dict[str, Any]]:
    """Yield the items of the call, until the deadline; the renderer is told of every lull.

    Raises:
        CommandError: The deadline is over.
    """
    while True:
        left = float("inf") if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise CommandError("the call did not end in time", status=TIMED_OUT)
        try:
            message = incoming.receive(min(LULL_SECONDS, left))
        except TimeoutError:
            renderer.idle()
            waiting.tick(at_line_start=renderer.at_line_start)
            continue
        if reason := _refused_answer(message):
            _warn(f"the answer was not taken: {reason}")
            continue
        item = item_of(message)
        if item is not None:
            yield item
            if item.get("type") == "done":
                return


def _refused_answer(message: bytes) -> str:
    """Return why the hub did not take an answer, if it says so; the call itself goes on."""
    if b'"success"' not in message[:100]:
        return ""
    reply = json.loads(message)
    result = reply.get("result")
    if reply.get("id") != _ANSWER or not isinstance(result, dict) or result.get("success"):
        return ""
    return str(result.get("message", "no reason given"))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _hint(advice: dict[str, Any]) -> str:
    """Return what the hub suggests, with the names that there are, unless it lists them already."""
    suggestion = advice.get("suggestion") or ""
    text = suggestion if isinstance(suggestion, str) else json.dumps(suggestion)
    available = advice.get("available")
    names = [str(name) for name in available] if isinstance(available, list) else []
    if not names or any(name in text for name in names):
        return text
    more = ", …" if len(names) > MAX_NAMES else ""
    return f"{text.rstrip('.:')}: {', '.join(names[:MAX_NAMES])}{more}".lstrip(": ")


def _warn(text: str) -> None:
    sys.stderr.write(f"synapse: warning: {one_line(text)}\n")
