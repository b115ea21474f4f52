"""A method's questions: answers from the command line or a person, and withdrawn questions."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from synapse.client import item_of
from synapse.errors import CommandError

if TYPE_CHECKING:
    from synapse.client import Connection
    from synapse.invocation import Invocation

# How long a look at the connection takes while a person thinks.
LOOK_SECONDS = 0.001


class Incoming:
    """The messages of a connection, in order, some of which were read ahead."""

    def __init__(self, connection: Connection, first: bytes | None = None) -> None:
        self._connection = connection
        self._ahead: deque[bytes] = deque(() if first is None else (first,))

    def receive(self, timeout: float) -> bytes:
        """Return the next message.

        Raises:
            TimeoutError: None came in time.
        """
        if self._ahead:
            return self._ahead.popleft()
        self._connection.set_timeout(timeout)
        return self._connection.receive()

    def withdrawal(self, request_id: str) -> str | None:
        """Return why a question needs no answer any more; None while it does."""
        with suppress(TimeoutError):
            self._connection.set_timeout(LOOK_SECONDS)
            while True:
                self._ahead.append(self._connection.receive())
        for message in self._ahead:
            item = item_of(message) or {}
            kind = item.get("type")
            if kind == "request_closed" and item.get("requestId") == request_id:
                return str(item.get("reason") or "it needs no answer any more")
            if kind in ("error", "done"):
                return "the call has ended"
        return None


class Answers:
    """Where the answers to a method's questions come from."""

    def __init__(self, found: Invocation, deadline: float | None = None) -> None:
        self._deadline = deadline
        self._given = list(found.options.get("--answer", []))
        self._yes = found.flag("--yes")
        self._ask = not found.flag("--no-input") and sys.stdin.isatty() and sys.stderr.isatty()
        # Set when a question could not be answered.
        self.unanswered: CommandError | None = None

    def to(self, item: dict[str, Any], incoming: Incoming) -> dict[str, Any] | None:
        """Return the answer to one question; None if it needs none any more.

        Raises:
            CommandError: There is an answer on the command line that does not fit.
        """
        from synapse.render import prompts

        data = item.get("requestData")
        question: dict[str, Any] = data if isinstance(data, dict) else {"data": data}
        # --yes answers the yes/no questions, --answer the others.
        if self._yes and question.get("type") == "confirm":
            return {"type": "confirmed", "value": True}
        if self._given:
            return prompts.read_answer(question, self._given.pop(0))
        if self._ask:
            seconds = (item.get("timeoutMs") or 0) / 1000 or float("inf")
            if self._deadline is not None:
                seconds = min(seconds, self._deadline - time.monotonic())
            request_id = str(item.get("requestId"))
            return prompts.ask(
                question,
                time.monotonic() + seconds,
                lambda: incoming.withdrawal(request_id),
            )
        self.unanswered = CommandError(
            f"nobody can answer {question.get('message', 'a question')!r} here",
            hint="Answer with --answer or --yes, or at a terminal",
        )
        return {"type": "cancelled"}


def confirm_destruction(
    found: Invocation, schema: dict[str, Any], params: dict[str, Any], words: str
) -> None:
    """Ask before a destructive method is called, if a person is at the terminal.

    Scripts are not asked: without a terminal, or with --yes or --no-input, the method runs.

    Raises:
        CommandError: The person declined.
    """
    is_destructive = schema.get("annotations", {}).get("destructive")
    if not is_destructive or found.flag("--yes") or found.flag("--no-input"):
        return
    trial = schema["params"]["properties"].get("dry_run", {}).get("default")
    if params.get("dry_run", trial) is True:
        return
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return
    from synapse.render import prompts

    given = ", ".join(f"{name} {json.dumps(value)}" for name, value in params.items())
    message = f"{words} ({given}) cannot be undone. Continue?" if given else f"{words}?"
    question = {"type": "confirm", "message": message, "default": False}
    answer = prompts.ask(question, float("inf"), lambda: None)
    if not answer or not answer.get("value"):
        raise CommandError("nothing was done", hint="--yes skips the question")
