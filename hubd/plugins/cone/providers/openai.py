"""OpenAI's models, and those of every server that speaks the same protocol, through its SDK."""

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
    Settings,
    broke_off,
    failures,
    no_stream,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NAME: Final = "openai"
KEY: Final = "OPENAI_API_KEY"
# Said to the SDK, which would otherwise look into the hub's environment: the caller's counts.
ADDRESS: Final = "https://api.openai.com/v1"
# The SDK wants one; a server on this machine mostly does not.
NO_KEY: Final = "none"


class OpenAI:
    """What can be reached with the key and the address in an environment."""

    name = NAME

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._key = env.get(KEY) or None
        self._base_url = env.get("OPENAI_BASE_URL") or settings.openai_base_url

    def obstacle(self) -> HubError | None:
        """The SDK is missing, or there is neither a key nor a server of one's own."""
        if find_spec("openai") is None:
            return Unavailable(
                "the package 'openai' is not installed",
                suggestion="Install it where hubd is: pip install 'hubd[openai]'",
            )
        if not (self._key or self._base_url):
            return Unavailable(
                f"there is no key for {NAME}",
                suggestion=f"Set the variable {KEY}, or OPENAI_BASE_URL to a server of your own",
            )
        return None

    async def answer(
        self, model: str, messages: Sequence[Message]
    ) -> AsyncGenerator[str | Ending, None]:
        """The answer, as it comes."""
        said: list[Any] = [{"role": entry.role, "content": entry.content} for entry in messages]
        answered_by, reason, usage = model, None, None
        with self._failures():
            client = await asyncio.to_thread(self._client)
            async with client:
                stream = await client.chat.completions.create(
                    model=model,
                    messages=said,
                    stream=True,
                    stream_options={"include_usage": True},
                )
                async with stream:
                    silent = True
                    async for chunk in stream:
                        silent = False
                        answered_by, usage = chunk.model or answered_by, chunk.usage or usage
                        # Servers that are only like OpenAI's have null where it has nothing.
                        for choice in chunk.choices or ():
                            reason = choice.finish_reason or reason
                            piece: object = choice.delta and choice.delta.content
                            if isinstance(piece, str):
                                yield piece
                            elif piece is not None:
                                raise TypeError("a piece of the answer is no text")
                    content_type = stream.response.headers.get("content-type", "")
                    if silent and content_type.startswith(JSON):
                        raise no_stream(NAME, content_type)
            if reason is None:
                raise broke_off(NAME)
            read, written = (
                (usage.prompt_tokens, usage.completion_tokens) if usage else (None, None)
            )
            ending = Ending.read(answered_by, reason, read, written)
        yield ending

    async def models(self) -> list[str]:
        """As the server lists them."""
        with self._failures():
            client = await asyncio.to_thread(self._client)
            async with client:
                return [str(model.id) async for model in client.models.list()]

    def _client(self) -> "AsyncOpenAI":
        """In a thread: the SDK takes a while to import, and so do certificates to be read."""
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
