"""One call on the full way: sends it, shows what comes back, works out the exit status."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hubd.wire.item import EXIT_CODES
from synapse.client import item_of, items, request
from synapse.context import caller_context
from synapse.errors import CommandError
from synapse.render.plain import Lines
from synapse.render.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from synapse.cache import Cache
    from synapse.client import Connection, UnixConnection
    from synapse.hubs import Hub
    from synapse.invocation import Invocation
    from synapse.render import Renderer

# The statuses that no error code stands for.
TIMED_OUT = 6
WAITING_OR_DENIED = 8

# After so long without an item, what was held back for a table is shown.
LULL_SECONDS = 0.25

# Errors that an old schema may be the reason for; whatever else fails is not tried again.
_SCHEMA_CODES = ("invalid_method", "invalid_params", "activation_not_found", "method_not_found")

# The id of an answer to a question; the call itself is 1.
_ANSWER = 2

# How many names a hint lists.
MAX_NAMES = 40

# What a chat's events mean for the exit status: the last one of these decides.
_CHAT_STATES = {"awaiting_approval": WAITING_OR_DENIED, "complete": 0, "error": 1}


class Retry(Exception):
    """The hub has changed, nothing was shown yet, and the call failed: worth another try."""


class Outcome:
    """Takes the items of one call, one by one."""

    def __init__(
        self, renderer: Renderer, *, root: str = "", answers: Answers | None = None
    ) -> None:
        self._renderer = renderer
        # The name of the hub, to whom answers go.
        self._root = root
        self._answers = answers
        # Said with an error; alone, it is a warning.
        self._advice: dict[str, Any] | None = None
        # What the newest event of a chat says about its end.
        self._chat_status = 0
        self.printed = False
        self.error: CommandError | None = None
        # The code of the error.
        self.code = ""

    def take(self, item: dict[str, Any], connection: Connection) -> None:
        """Act on one item."""
        kind = item["type"]
        self._renderer.item(item)
        if kind == "data":
            self._note_chat(item["content"])
            self._renderer.event(item["content"])
            self.printed = True
        elif kind == "progress":
            self._renderer.progress(item["message"], item.get("percentage"))
        elif kind == "guidance":
            self._warn()
            self._advice = item
        elif kind == "error":
            hint = _hint(self._advice) if self._advice else ""
            self._advice = None
            self.code = item["code"]
            status = EXIT_CODES.get(self.code, 1)
            self.error = CommandError(item["message"], hint=hint, status=status)
        elif kind == "request":
            self._renderer.pause()
            answer = self._answers.to(item) if self._answers else {"type": "cancelled"}
            if answer is None:
                return  # the time is over; the hub knows what to do without an answer
            reply = {"request_id": item["requestId"], "response_data": answer}
            method = f"{self._root}.respond"
            call = {"jsonrpc": "2.0", "id": _ANSWER, "method": method, "params": reply}
            connection.send(json.dumps(call).encode())

    def status(self, *, is_chat: bool = False) -> int:
        """The exit status.

        Raises:
            CommandError: The call failed.
        """
        self._renderer.close()
        self._warn()
        unanswered = self._answers.unanswered if self._answers else None
        if unanswered is not None and self.code == "cancelled":
            raise unanswered
        if self.error is not None:
            raise self.error
        return self._chat_status if is_chat else 0

    @property
    def worth_another_try(self) -> bool:
        """Whether a newer schema may make the difference, and nothing was shown yet."""
        return self.code in _SCHEMA_CODES and not self.printed

    def _note_chat(self, content: Any) -> None:
        event = content.get("event", content) if isinstance(content, dict) else {}
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "approval_resolved":
            self._chat_status = 0 if event.get("approved") else WAITING_OR_DENIED
        else:
            self._chat_status = _CHAT_STATES.get(str(kind), self._chat_status)

    def _warn(self) -> None:
        """Guidance that no error followed is a warning."""
        if self._advice is not None:
            _warn(_hint(self._advice))
            self._advice = None


class Answers:
    """Where the answers to a method's questions come from."""

    def __init__(self, found: Invocation, deadline: float | None = None) -> None:
        self._deadline = deadline
        self._given = list(found.options.get("--answer", []))
        self._yes = found.flag("--yes")
        self._ask = not found.flag("--no-input") and sys.stdin.isatty() and sys.stderr.isatty()
        # Set when there was nobody to ask.
        self.unanswered: CommandError | None = None

    def to(self, item: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to one question; None if the time for it is over.

        Raises:
            CommandError: There is an answer on the command line that does not fit.
        """
        from synapse.render import prompts

        question = item["requestData"]
        if self._given:
            return prompts.read_answer(question, self._given.pop(0))
        if self._yes and question["type"] == "confirm":
            return {"type": "confirmed", "value": True}
        if self._ask:
            seconds = item.get("timeoutMs", 0) / 1000 or float("inf")
            if self._deadline is not None:
                seconds = min(seconds, self._deadline - time.monotonic())
            return prompts.ask(question, time.monotonic() + seconds)
        self.unanswered = CommandError(
            f"nobody can answer {question.get('message', 'a question')!r} here",
            hint="Answer with --answer or --yes, or at a terminal",
        )
        return {"type": "cancelled"}


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
    context = json.dumps(caller_context()) if hints.get("needs_context") else ""
    deadline = _deadline(found)
    outcome = Outcome(renderer, root=cache.root, answers=Answers(found, deadline))
    stale = False
    connection.send(request(cache.root, path, json.dumps(params), context))
    try:
        for item in _items(connection, renderer, deadline):
            stale = stale or item.get("metadata", {}).get("plexus_hash", cache.hash) != cache.hash
            outcome.take(item, connection)
    except BaseException:
        # However it ends, the terminal is left as it was.
        renderer.pause()
        raise
    if stale and outcome.worth_another_try:
        raise Retry
    try:
        return outcome.status(is_chat=hints.get("render") == "chat")
    finally:
        if stale:
            _remember(connection, hub.cache_file)


def conclude(
    connection: UnixConnection, message: bytes, cache_file: str, *, stale: bool, printed: bool
) -> int | None:
    """Finish a call that the fast path began; None: do it again, with a fresh schema.

    Raises:
        CommandError: It failed.
    """
    outcome = Outcome(Lines())
    outcome.printed = printed
    for item in items(_Resumed(connection, message)):
        outcome.take(item, connection)
    if stale and outcome.worth_another_try:
        return None
    try:
        return outcome.status()
    finally:
        if stale:
            _remember(connection, cache_file)


def _remember(connection: UnixConnection | Any, cache_file: str) -> None:
    """Read the schema of a hub that has changed; a failure only costs time later."""
    from synapse import refresh

    with suppress(CommandError):
        refresh.refresh(cache_file, connection)


class _Resumed:
    """A connection whose next message was received already."""

    def __init__(self, connection: UnixConnection, message: bytes) -> None:
        self._connection = connection
        self._first: bytes | None = message

    def receive(self) -> bytes:
        first, self._first = self._first, None
        return self._connection.receive() if first is None else first

    def send(self, message: bytes) -> None:
        self._connection.send(message)

    def set_timeout(self, seconds: float | None) -> None:
        self._connection.set_timeout(seconds)

    def close(self) -> None:
        self._connection.close()


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
    connection: UnixConnection | Any, renderer: Renderer, deadline: float | None
) -> Iterator[dict[str, Any]]:
    """The items of the call, until the deadline; the renderer hears of every lull.

    Raises:
        CommandError: The deadline is over.
    """
    while True:
        left = float("inf") if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise CommandError("the call did not end in time", status=TIMED_OUT)
        connection.set_timeout(min(LULL_SECONDS, left))
        try:
            message = connection.receive()
        except TimeoutError:
            renderer.idle()
            continue
        if reason := _refused_answer(message):
            _warn(f"the answer was not taken: {reason}")
            continue
        item = item_of(message)
        if item is not None:
            yield item
            if item["type"] == "done":
                return


def _refused_answer(message: bytes) -> str:
    """Why the hub did not take an answer, if it says so; the call itself goes on."""
    if b'"success"' not in message[:100]:
        return ""
    reply = json.loads(message)
    if reply.get("id") != _ANSWER or reply["result"].get("success"):
        return ""
    return str(reply["result"].get("message", "no reason given"))


def _hint(advice: dict[str, Any]) -> str:
    """What the hub suggests, with the names that there are, unless it says them already."""
    suggestion, names = str(advice["suggestion"]), advice.get("available", [])
    if not names or any(name in suggestion for name in names):
        return suggestion
    more = ", …" if len(names) > MAX_NAMES else ""
    return f"{suggestion.rstrip('.:')}: {', '.join(names[:MAX_NAMES])}{more}"


def _warn(text: str) -> None:
    sys.stderr.write(f"synapse: warning: {one_line(text)}\n")
