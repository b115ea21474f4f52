"""Anthropic's models, through its SDK."""

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
    from anthropic import AsyncAnthropic

NAME: Final = "anthropic"
KEY: Final = "ANTHROPIC_API_KEY"
# Without it, the SDK would read the hub's environment instead of the caller's.
ADDRESS: Final = "https://api.anthropic.com"


class Anthropic:
    """Anthropic's API with the key in an environment."""

    name = NAME

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._key = env.get(KEY) or None
        self._token = None if self._key else env.get("ANTHROPIC_AUTH_TOKEN") or None
        self._base_url = env.get("ANTHROPIC_BASE_URL") or settings.anthropic_base_url or ADDRESS

    def obstacle(self) -> HubError | None:
        """Return an error if the SDK or the key is missing."""
        if find_spec("anthropic") is None:
            return Unavailable(
                "the package 'anthropic' is not installed",
                suggestion="Install it in hubd's environment: pip install 'hubd[anthropic]'",
            )
        if not (self._key or self._token):
            return Unavailable(f"there is no key for {NAME}", suggestion=f"Set the variable {KEY}")
        return None

    async def answer(
        self, model: str, messages: Sequence[Message]
    ) -> AsyncGenerator[str | Ending, None]:
        """Yield the pieces of the answer, then its ending."""
        system = "\n\n".join(entry.content for entry in messages if entry.role == "system")
        entries: list[Any] = [
            {"role": entry.role, "content": entry.content}
            for entry in messages
            if entry.role != "system"
        ]
        with self._failures():
            client = await asyncio.to_thread(self._client)
            from anthropic import omit

            async with (
                client,
                client.messages.stream(
                    model=model,
                    max_tokens=self._settings.max_tokens,
                    messages=entries,
                    system=system or omit,
                ) as stream,
            ):
                empty = True
                async for text in stream.text_stream:
                    empty = False
                    yield text
                content_type = stream.response.headers.get("content-type", "")
                if empty and content_type.startswith(JSON):
                    raise no_stream(NAME, content_type)
                final = await stream.get_final_message()
            if final.stop_reason is None:
                raise incomplete(NAME)
            usage = final.usage
            ending = Ending.read(
                final.model, final.stop_reason, usage.input_tokens, usage.output_tokens
            )
        yield ending

    async def models(self) -> list[str]:
        """Return the models that the API lists."""
        with self._failures():
            client = await asyncio.to_thread(self._client)
            async with client:
                return [str(model.id) async for model in client.models.list()]

    def _client(self) -> "AsyncAnthropic":
        """Create a client. Slow, because it imports the SDK and reads certificates."""
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        from hubd.plugins.cone.providers import bounded

        return AsyncAnthropic(
            http_client=DefaultAsyncHttpxClient(**bounded.OPTIONS),
            api_key=self._key,
            auth_token=self._token,
            base_url=self._base_url,
            max_retries=self._settings.retries,
        )

    def _failures(self) -> AbstractContextManager[None]:
        return failures(NAME, self._key or self._token, KEY)
