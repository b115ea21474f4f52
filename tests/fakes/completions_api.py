"""A server on 127.0.0.1 with OpenAI's chat completions API. The prompt holds its answers.

The directives are those of tests/fakes/script.py. Like a server of one's own it wants no key.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from tests.fakes.http import HttpRequest, HttpServer, Reply
from tests.fakes.script import Answer, answer_to

PIECE: Final = 12
MODELS: Final = ("tiny-1b", "org/large")


class FakeCompletionsApi(HttpServer):
    """The server, as an async context manager; `base_url` is the value for OPENAI_BASE_URL."""

    def __init__(self) -> None:
        super().__init__()
        # Grows by one with every request, in the order they came.
        self.requests: list[HttpRequest] = []
        # Set to end a stream without saying why it ended.
        self.unfinished = False

    @property
    def base_url(self) -> str:
        """Where it listens."""
        return f"{self.url}/v1"

    @property
    def conversations(self) -> list[list[dict[str, Any]]]:
        """The messages of every request that asked for an answer."""
        asked = (each for each in self.requests if each.endpoint == "/v1/chat/completions")
        return [request.body["messages"] for request in asked]

    async def answer(self, request: HttpRequest, reply: Reply) -> None:
        """Answer as such a server would, or as the prompt wants."""
        self.requests.append(request)
        if request.endpoint == "/v1/models":
            listed = [{"id": name, "object": "model", "created": 0} for name in MODELS]
            await reply.send(200, {"object": "list", "data": listed})
            return
        answer = answer_to(request.body["messages"])
        if answer.status is not None:
            error = {"message": f"fake {answer.status}", "type": "fake", "code": None}
            await reply.send(answer.status, {"error": error})
            return
        await reply.start_stream()
        for number, chunk in enumerate(self._chunks(request.body["model"], answer)):
            if number == 1 and answer.hang:
                await asyncio.Event().wait()
            if number == 1 and answer.cut is not None:
                reply.cut()
            await reply.event("message", chunk)
        await reply.data("[DONE]")
        await reply.end_stream()

    def _chunks(self, model: str, answer: Answer) -> Iterator[dict[str, Any]]:
        text = "".join(block.text for block in answer.blocks)
        for start in range(0, len(text), PIECE):
            yield _chunk(model, {"content": text[start : start + PIECE]}, None)
        if not self.unfinished:
            yield _chunk(model, {}, "stop")
            usage = {
                "prompt_tokens": answer.input_tokens,
                "completion_tokens": answer.output_tokens,
                "total_tokens": answer.input_tokens + answer.output_tokens,
            }
            yield {**_chunk(model, {}, None), "choices": [], "usage": usage}


def _chunk(model: str, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": model,
        "choices": [choice],
    }
