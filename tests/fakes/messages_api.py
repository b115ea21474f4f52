"""A Messages API on 127.0.0.1 for the real `claude` program. The prompt holds its answers.

What a prompt asks for is read by tests/fakes/script.py; this file only delivers it.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

from tests.fakes.http import HttpRequest, HttpServer, Reply
from tests.fakes.script import Answer, Block, answer_to

# The client gets a text in pieces of this many characters.
PIECE: Final = 12

MODELS: Final = ("claude-fake-1", "claude-fake-2")

ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


class FakeMessagesApi(HttpServer):
    """The server, as an async context manager; `url` is the value for ANTHROPIC_BASE_URL."""

    def __init__(self) -> None:
        super().__init__()
        # Grows by one with every request, in the order they came.
        self.requests: list[HttpRequest] = []
        # How often each prompt was tried at the same step; STATUS and CUT count by it.
        self._attempts: Counter[tuple[str, int]] = Counter()

    @property
    def conversations(self) -> list[list[dict[str, Any]]]:
        """The messages of every request that asked for one, without counts and probes."""
        asked = (each for each in self.requests if each.endpoint == "/v1/messages")
        return [request.body["messages"] for request in asked]

    async def answer(self, request: HttpRequest, reply: Reply) -> None:
        """Answer as the API would, or as the prompt wants."""
        self.requests.append(request)
        if request.method == "HEAD":
            await reply.send(200)
        elif request.endpoint == "/v1/messages/count_tokens":
            await reply.send(200, {"input_tokens": len(json.dumps(request.body)) // 4})
        elif request.endpoint == "/v1/models":
            await reply.send(200, {"data": [_model(name) for name in MODELS], "has_more": False})
        elif request.endpoint == "/v1/messages" and request.method == "POST":
            await self._message(request, reply)
        else:
            await _send_error(reply, 404, f"no such endpoint: {request.path}")

    async def _message(self, request: HttpRequest, reply: Reply) -> None:
        answer = answer_to(request.body["messages"])
        key = (answer.prompt, answer.step)
        self._attempts[key] += 1
        attempt = self._attempts[key]
        if answer.status is not None and attempt <= answer.status_times:
            await _send_error(reply, answer.status, f"fake {answer.status}")
            return
        message = _message(request, answer)
        if not request.body.get("stream"):
            content = [block.whole() for block in answer.blocks]
            usage = {**message["usage"], "output_tokens": answer.output_tokens}
            ending = {"content": content, "stop_reason": answer.stop_reason, "usage": usage}
            await reply.send(200, {**message, **ending}, **_request_id())
            return
        await reply.start_stream(**_request_id())
        if answer.cut is not None and attempt == 1:
            await _stream(reply, _first_delta(_events(message, answer, Block("text", answer.cut))))
            reply.cut()
        if answer.hang:
            await _stream(reply, _first_delta(_events(message, answer, *answer.blocks)))
            await asyncio.Event().wait()
        await _stream(reply, _events(message, answer, *answer.blocks), answer.slow)
        await reply.end_stream()


def _model(name: str) -> dict[str, Any]:
    born = "2026-01-01T00:00:00Z"
    return {"type": "model", "id": name, "display_name": name, "created_at": born}


def _message(request: HttpRequest, answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", "fake"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": answer.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 1,
        },
    }


def _events(message: dict[str, Any], answer: Answer, *blocks: Block) -> Iterator[dict[str, Any]]:
    """The events of one streamed message, in the API's order."""
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block.opening()}
        for delta in block.deltas(PIECE):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": answer.stop_reason, "stop_sequence": None},
        "usage": {"output_tokens": answer.output_tokens},
    }
    yield {"type": "message_stop"}


def _first_delta(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events up to the first that carries content."""
    for event in events:
        yield event
        if event["type"] == "content_block_delta":
            return


async def _stream(reply: Reply, events: Iterator[dict[str, Any]], seconds: float = 0.0) -> None:
    """Send events, spread over some time."""
    chosen = list(events)
    for event in chosen:
        if seconds:
            await asyncio.sleep(seconds / len(chosen))
        await reply.event(event["type"], event)


async def _send_error(reply: Reply, status: int, text: str) -> None:
    error = {"type": ERROR_TYPES.get(status, "api_error"), "message": text}
    await reply.send(status, {"type": "error", "error": error}, **_request_id())


def _request_id() -> dict[str, str]:
    return {"request-id": f"req_{uuid4().hex[:20]}"}
