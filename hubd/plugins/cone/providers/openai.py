"""OpenAI's models, and those of servers with the same protocol, through OpenAI's SDK."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from hubd.activation import HubError, Unavailable
from hubd.plugins.cone.providers.provider import (
    JSON,
    Ending,
    Message,
    failures,
    incomplete,
    no_stream,
)
from hubd.plugins.cone.settings import Settings

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NAME: Final = "openai"
KEY: Final = "OPENAI_API_KEY"
# Without it, the SDK would read the hub's environment instead of the caller's.
ADDRESS: Final = "https://api.openai.com/v1"
# The SDK needs a key, even if the server does not.
NO_KEY: Final = "none"


class OpenAI:
    """A server with the key and the address in an environment."""

    name = NAME

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._key = env.get(KEY) or None
        self._base_url = env.get("OPENAI_BASE_URL") or settings.openai_base_url

    def obstacle(self) -> HubError | None:
        """Return an error if the SDK is missing, or both the key and the address."""
        if find_spec("openai") is None:
            return Unavailable(
                "the package 'openai' is not installed",
                suggestion="Install it in hubd's environment: pip install 'hubd[openai]'",
            )
        if not (self._key or self._base_url):
            return Unavailable(
                f"there is no key for {NAME}",
                suggestion=f"Set the variable {KEY}, or OPENAI_BASE_URL to another server",
            )
        return None

    async def answer(
        self, model: str, messages: Sequence[Message]
    ) -> AsyncGenerator[str | Ending, None]:
        """Yield the pieces of the answer, then its ending."""
        entries: list[Any] = [{"role": entry.role, "content": entry.content} for entry in messages]
        answered_by, reason, usage = model, None, None
        with self._failures():
            client = await asyncio.to_thread(self._client)
            async with client:
                stream = await client.chat.completions.create(
                    model=model,
                    messages=entries,
                    stream=True,
                    stream_options={"include_usage": True},
                )
                async with stream:
                    empty = True
                    async for chunk in stream:
                        empty = False
                        answered_by, usage = chunk.model or answered_by, chunk.usage or usage
                        # Other servers send null where OpenAI sends an empty list.
                        for choice in chunk.choices or ():
                            reason = choice.finish_reason or reason
                            piece: object = choice.delta and choice.delta.content
                            if isinstance(piece, str):
                                yield piece
                            elif piece is not None:
                                raise TypeError("a piece of the answer is not a text")
                    content_type = stream.response.headers.get("content-type", "")
                    if empty and content_type.startswith(JSON):
                        raise no_stream(NAME, content_type)
            if reason is None:
                raise incomplete(NAME)
            input_tokens, output_tokens = (
                (usage.prompt_tokens, usage.completion_tokens) if usage else (None, None)
            )
            ending = Ending.read(answered_by, reason, input_tokens, output_tokens)
        yield ending

    async def models(self) -> list[str]:
        """Return the models that the server lists."""
        with self._failures():
            client = await asyncio.to_thread(self._client)
            async with client:
                return [str(model.id) async for model in client.models.list()]

    def _client(self) -> "AsyncOpenAI":
        """Create a client. Slow, because it imports the SDK and reads certificates."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        from hubd.plugins.cone.providers import bounded

        return AsyncOpenAI(
            http_client=DefaultAsyncHttpxClient(**bounded.OPTIONS),
            api_key=self._key or NO_KEY,
            base_url=self._base_url or ADDRESS,
            max_retries=self._settings.retries,
        )

    def _failures(self) -> AbstractContextManager[None]:
        return failures(NAME, self._key, KEY)
