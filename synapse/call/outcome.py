"""The items of one call: the renderer shows the events, and an error decides the exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hubd.wire.envelope import request
from hubd.wire.item import DECLINED, EXIT_CODES
from synapse.errors import MAX_NAMES, CommandError, EndOfChat
from synapse.render.waiting import Waiting

if TYPE_CHECKING:
    from hubd.wire.client import Connection
    from synapse.call.chat_end import ChatEnd
    from synapse.call.incoming import Incoming
    from synapse.call.questions import Answers
    from synapse.render import Renderer

# Errors that a stale schema may cause; the call is repeated after these only.
_SCHEMA_CODES = ("invalid_method", "invalid_params", "activation_not_found", "method_not_found")

# The id of the request that answers a question; the call itself has 1.
ANSWER_ID = 2


class Outcome:
    """Takes the items of one call in order, and raises the call's error at the end."""

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
        # The name of the hub's root, for the request that answers a question.
        self._root = root
        self._answers = answers
        # Set if the method is a chat.
        self._chat = chat
        self._waiting = waiting or Waiting(wanted=False)
        # The last guidance item; a hint for the error that follows it, else a warning.
        self._guidance: dict[str, Any] | None = None
        self.printed = False
        self.error: CommandError | None = None
        # The code of the error.
        self.code = ""

    def take(self, item: dict[str, Any], connection: Connection, incoming: Incoming) -> None:
        """Handle one item; items of unknown types are ignored."""
        kind = item.get("type")
        if kind == "progress" and self._waiting.active and item.get("percentage") is None:
            self._waiting.show(str(item.get("message", "")))
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
            self._guidance = item
        elif kind == "error":
            hint = _hint(self._guidance) if self._guidance else ""
            self._guidance = None
            self.code = str(item.get("code") or "")
            message = str(item.get("message") or "the call failed; the hub gives no reason")
            self.error = CommandError(message, hint=hint, status=EXIT_CODES.get(self.code, 1))
        elif kind == "request":
            self._answer(item, connection, incoming)

    def finish(self) -> None:
        """Show the rest.

        Raises:
            CommandError: The call failed, or its chat did.
        """
        self._waiting.erase()
        try:
            self._renderer.close()
        except CommandError:
            if self.error is None:
                raise
        self._warn()
        unanswered = self._answers.unanswered if self._answers else None
        if unanswered is not None and self.error is not None and self.error.message == DECLINED:
            raise unanswered
        if self.error is not None:
            raise self.error
        if self._chat is not None:
            try:
                self._chat.check()
            except EndOfChat as end:
                end.is_reported = self._renderer.reports_end
                raise

    @property
    def needs_newer_schema(self) -> bool:
        """Whether a newer schema may help, and nothing was printed yet."""
        return self.code in _SCHEMA_CODES and not self.printed

    def _answer(self, item: dict[str, Any], connection: Connection, incoming: Incoming) -> None:
        self._renderer.pause()
        answer: dict[str, Any] | None = {"type": "cancelled"}
        if self._answers:
            answer = self._answers.to(item, incoming)
        if answer is None:
            return  # The hub has closed the question.
        reply = {"request_id": item.get("requestId"), "response_data": answer}
        method = f"{self._root}.respond"
        connection.send(request(ANSWER_ID, method, json.dumps(reply)))

    def _warn(self) -> None:
        """Print guidance without an error as a warning."""
        if self._guidance is not None:
            self._waiting.erase()
            self._renderer.warn(_hint(self._guidance))
            self._guidance = None


def _hint(guidance: dict[str, Any]) -> str:
    """Return the hub's suggestion, followed by the available names unless it has them."""
    suggestion = guidance.get("suggestion") or ""
    text = suggestion if isinstance(suggestion, str) else json.dumps(suggestion)
    available = guidance.get("available")
    names = [str(name) for name in available] if isinstance(available, list) else []
    if not names or any(name in text for name in names):
        return text
    more = ", …" if len(names) > MAX_NAMES else ""
    return f"{text.rstrip('.:')}: {', '.join(names[:MAX_NAMES])}{more}".lstrip(": ")


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
