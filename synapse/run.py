"""One call on the full way: sends it, shows what comes back, works out the exit status."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from hubd.wire.item import EXIT_CODES
from synapse.client import item_of, items, request
from synapse.context import caller_context
from synapse.errors import CommandError
from synapse.render.plain import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from synapse.client import Connection, UnixConnection
    from synapse.invocation import Invocation
    from synapse.render import Renderer

# The statuses that no error code stands for.
TIMED_OUT = 6
WAITING_OR_DENIED = 8

# After so long without an item, what was held back for a table is shown.
LULL_SECONDS = 0.25

# What a chat's events mean for the exit status: the last one of these decides.
_CHAT_STATES = {"awaiting_approval": WAITING_OR_DENIED, "complete": 0, "error": 1}


class Retry(Exception):
    """The hub has changed, nothing was shown yet, and the call failed: worth another try."""


class Outcome:
    """Takes the items of one call, one by one."""

    def __init__(self, renderer: Renderer, *, answers: Answers | None = None) -> None:
        self._renderer = renderer
        self._answers = answers
        # Said with an error; alone, it is a warning.
        self._advice: dict[str, Any] | None = None
        # What the newest event of a chat says about its end.
        self._chat_status = 0
        self.printed = False
        self.error: CommandError | None = None

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
            hint = self._advice["suggestion"] if self._advice else ""
            self._advice = None
            status = EXIT_CODES.get(item["code"], 1)
            self.error = CommandError(item["message"], hint=hint, status=status)
        elif kind == "request":
            self._renderer.pause()
            answer = self._answers.to(item) if self._answers else {"type": "cancelled"}
            reply = {"request_id": item["requestId"], "response_data": answer}
            root = item["metadata"]["provenance"][0]
            call = {"jsonrpc": "2.0", "id": 2, "method": f"{root}.respond", "params": reply}
            connection.send(json.dumps(call).encode())

    def status(self, *, is_chat: bool = False) -> int:
        """The exit status.

        Raises:
            CommandError: The call failed.
        """
        self._renderer.close()
        self._warn()
        if self.error is not None:
            raise self.error
        return self._chat_status if is_chat else 0

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
            sys.stderr.write(f"synapse: warning: {self._advice['suggestion']}\n")
            self._advice = None


class Answers:
    """Where the answers to a method's questions come from."""

    def __init__(self, found: Invocation) -> None:
        self._given = list(found.options.get("--answer", []))
        self._yes = found.flag("--yes")
        self._ask = not found.flag("--no-input") and sys.stdin.isatty() and sys.stderr.isatty()

    def to(self, item: dict[str, Any]) -> dict[str, Any]:
        """The answer to one question.

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
            return prompts.ask(question)
        sys.stderr.write(
            f"synapse: nobody can answer {question.get('message', 'a question')!r} here; "
            "use --answer or --yes\n"
        )
        return {"type": "cancelled"}


def call(
    connection: UnixConnection | Any,
    root: str,
    path: str,
    params: dict[str, Any],
    schema: dict[str, Any],
    found: Invocation,
    renderer: Renderer,
    known_hash: str,
) -> int:
    """Make a call and show it; returns the exit status.

    Raises:
        CommandError: It failed.
        Retry: It failed because the schema we went by is not the hub's any more.
    """
    hints = schema.get("annotations", {})
    context = json.dumps(caller_context()) if hints.get("needs_context") else ""
    deadline = _deadline(found)
    outcome = Outcome(renderer, answers=Answers(found))
    stale = False
    connection.send(request(root, path, json.dumps(params), context))
    for item in _items(connection, renderer, deadline):
        stale = stale or item["metadata"]["plexus_hash"] != known_hash
        outcome.take(item, connection)
    if stale and outcome.error is not None and not outcome.printed:
        raise Retry
    return outcome.status(is_chat=hints.get("render") == "chat")


def conclude(
    connection: UnixConnection, message: bytes, *, stale: bool, printed: bool
) -> int | None:
    """Finish a call that the fast path began; None: do it again, with a fresh schema.

    Raises:
        CommandError: It failed.
    """
    outcome = Outcome(Lines())
    outcome.printed = printed
    for item in items(_Resumed(connection, message)):
        outcome.take(item, connection)
    if stale and outcome.error is not None and not outcome.printed:
        return None
    status = outcome.status()
    if stale:
        from synapse.full import refresh_quietly

        refresh_quietly(connection)
    return status


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
            item = item_of(connection.receive())
        except TimeoutError:
            renderer.idle()
            continue
        if item is not None:
            yield item
            if item["type"] == "done":
                return
