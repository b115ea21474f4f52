"""Answers to a method's questions: from the command line, or from the user at the terminal."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from synapse.errors import CommandError

if TYPE_CHECKING:
    from hubd.wire.schema import MethodSchema
    from synapse.argv import Invocation
    from synapse.call.incoming import Incoming


class Answers:
    """The source of answers: --yes, --answer, or the terminal."""

    def __init__(self, invocation: Invocation, deadline: float | None = None) -> None:
        self._deadline = deadline
        self._given = list(invocation.options.get("--answer", []))
        self._yes = invocation.flag("--yes")
        has_terminal = sys.stdin.isatty() and sys.stderr.isatty()
        self._can_ask = has_terminal and not invocation.flag("--no-input")
        # The error for a question without an answer.
        self.unanswered: CommandError | None = None

    def to(self, item: dict[str, Any], incoming: Incoming) -> dict[str, Any] | None:
        """Return the answer to a question; None if the question was withdrawn.

        Raises:
            CommandError: The value of --answer does not fit the question.
        """
        from synapse.call import prompts

        data = item.get("requestData")
        question: dict[str, Any] = data if isinstance(data, dict) else {"data": data}
        # --yes answers the yes/no questions, --answer the others.
        if self._yes and question.get("type") == "confirm":
            return {"type": "confirmed", "value": True}
        if self._given:
            return prompts.read_answer(question, self._given.pop(0))
        if self._can_ask:
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
            f"the method asks {question.get('message', 'a question')!r}, and there is no terminal",
            hint="Answer with --answer or --yes, or run the command at a terminal",
        )
        return {"type": "cancelled"}


def confirm_destruction(
    invocation: Invocation, schema: MethodSchema, params: dict[str, Any], words: str
) -> None:
    """Ask the user before a destructive method is called.

    Without a terminal, or with --yes or --no-input, the method is called at once.

    Raises:
        CommandError: The user declined.
    """
    is_destructive = schema.get("annotations", {}).get("destructive")
    if not is_destructive or invocation.flag("--yes") or invocation.flag("--no-input"):
        return
    default = schema["params"]["properties"].get("dry_run", {}).get("default")
    if params.get("dry_run", default) is True:
        return
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return
    from synapse.call import prompts

    values = ", ".join(f"{name} {json.dumps(value)}" for name, value in params.items())
    message = f"{words} ({values}) cannot be undone. Continue?" if values else f"{words}?"
    question = {"type": "confirm", "message": message, "default": False}
    try:
        answer = prompts.ask(question, float("inf"), lambda: None)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise
    if not answer or not answer.get("value"):
        raise CommandError("nothing was done", hint="--yes skips the question")
