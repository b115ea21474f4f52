"""Questions of methods to their callers, and the check of the answers."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from hubd.plexus.dispatch import Call
from hubd.wire.item import ANSWERS, Request


class Questions:
    """The questions that wait for an answer, by random ids."""

    def __init__(self) -> None:
        # The question, and the future of its answer.
        self._waiting: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}

    def answer(self, request_id: str, data: object) -> str | None:
        """Give an answer to the method that asked.

        Returns:
            The problem with the answer, or None if the method got it.
        """
        if request_id not in self._waiting:
            return "no question with this request_id waits for an answer"
        request, future = self._waiting[request_id]
        if future.done():
            return "this question is answered already"
        problem = answer_problem(request, data)
        if problem is None:
            assert isinstance(data, dict)
            future.set_result(data)
        return problem

    def expire(self, request_id: str) -> None:
        """End a question as its time limit would."""
        if self.waits(request_id):
            self._waiting[request_id][1].set_result({"type": "timeout"})

    def waits(self, request_id: str) -> bool:
        """Return whether a question still waits for an answer."""
        entry = self._waiting.get(request_id)
        return entry is not None and not entry[1].done()

    async def ask(
        self, call: Call, request: dict[str, Any], timeout_seconds: float
    ) -> dict[str, Any]:
        """Ask the caller of a call and return the answer.

        If the time limit passes, the answer is `{"type": "timeout"}`.
        """
        request_id = str(uuid4())
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = (request, future)
        try:
            timeout_ms = int(timeout_seconds * 1000)
            await call.send(Request(call.stamp.metadata(), request_id, request, timeout_ms))
            async with asyncio.timeout(timeout_seconds):
                return await future
        except TimeoutError:
            return {"type": "timeout"}
        finally:
            del self._waiting[request_id]


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
