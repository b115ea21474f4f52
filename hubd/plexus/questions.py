"""Questions of methods to their callers, and the check of the answers."""

import asyncio
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import uuid4

from hubd.plexus.dispatch import Call
from hubd.wire.caller import Actor
from hubd.wire.item import ANSWERS, NO_TIMEOUT_MS, Request, RequestClosed

# The reason if a plugin cancels its question without one.
WITHDRAWN: Final = "the method needs no answer any more"


class _Question(NamedTuple):
    """A question that waits for an answer."""

    data: dict[str, Any]
    # The actor that was asked. No other may answer.
    actor: Actor
    answer: asyncio.Future[dict[str, Any]]


class Questions:
    """The questions that wait for an answer, by random ids."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Question] = {}

    def answer(self, request_id: str, data: object, by: Actor) -> str | None:
        """Give an answer to the method that asked.

        Args:
            request_id: The id of the question.
            data: The answer.
            by: The actor that answers. It must be the one that was asked.

        Returns:
            The problem with the answer, or None if the method got it.
        """
        question = self._waiting.get(request_id)
        if question is None or question.actor != by:
            return "no question with this request_id waits for an answer"
        if question.answer.done():
            return "this question is answered already"
        problem = answer_problem(question.data, data)
        if problem is None:
            assert isinstance(data, dict)
            question.answer.set_result(data)
        return problem

    def expire(self, request_id: str) -> None:
        """End a question as its time limit would."""
        if self.waits(request_id):
            self._waiting[request_id].answer.set_result({"type": "timeout"})

    def waits(self, request_id: str) -> bool:
        """Return whether a question still waits for an answer."""
        question = self._waiting.get(request_id)
        return question is not None and not question.answer.done()

    async def ask(
        self, call: Call, request: dict[str, Any], timeout_seconds: float | None
    ) -> dict[str, Any]:
        """Ask the caller of a call and return the answer.

        If the time limit passes, the answer is `{"type": "timeout"}`. If the task is cancelled,
        the question is withdrawn; the message of the cancellation is the reason.

        Args:
            call: The call.
            request: The question.
            timeout_seconds: The time limit; None or infinity for no limit.
        """
        request_id = str(uuid4())
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = _Question(request, call.caller.client.actor, future)
        if timeout_seconds == math.inf:
            timeout_seconds = None
        try:
            timeout_ms = _milliseconds(timeout_seconds)
            await call.send(Request(call.stamp.metadata(), request_id, request, timeout_ms))
            async with asyncio.timeout(timeout_seconds):
                answer = await future
        except TimeoutError:
            answer = {"type": "timeout"}
        except asyncio.CancelledError as cancelled:
            _close(call, request_id, str(cancelled.args[0]) if cancelled.args else WITHDRAWN)
            raise
        finally:
            del self._waiting[request_id]
        if answer["type"] == "timeout":
            _close(call, request_id, "there was no answer in time")
        return answer


def _close(call: Call, request_id: str, reason: str) -> None:
    call.post(RequestClosed(call.stamp.metadata(), request_id, reason))


def _milliseconds(seconds: float | None) -> int:
    return NO_TIMEOUT_MS if seconds is None else min(int(seconds * 1000), NO_TIMEOUT_MS)


def answer_problem(request: Mapping[str, Any], data: object) -> str | None:
    """Return the reason why `data` does not answer a question; None if it does."""
    kind = request["type"]
    if not isinstance(data, dict):
        return "an answer is an object with a 'type'"
    if data.get("type") == "cancelled":
        return None
    expected, field = ANSWERS[kind]
    if data.get("type") != expected or field not in data:
        return f"answer a {kind} with {{type: '{expected}', {field}: …}} or {{type: 'cancelled'}}"
    value = data[field]
    fits = {
        "confirm": isinstance(value, bool),
        "prompt": isinstance(value, str),
        "select": isinstance(value, list) and all(isinstance(entry, str) for entry in value),
        "custom": True,
    }
    if not fits[kind]:
        return f"'{field}' has the wrong type for a {kind}"
    return _choice_problem(request, value) if kind == "select" else None


def _choice_problem(request: Mapping[str, Any], values: list[str]) -> str | None:
    offered = {option["value"] for option in request["options"]}
    for value in values:
        if value not in offered:
            return f"{value!r} is not one of the options"
    if not request.get("multiSelect") and len(values) != 1:
        return "choose exactly one option"
    return None
