"""The offline model: without account or network, with a deterministic answer."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from hubd.activation import HubError
from hubd.plugins.cone.providers.provider import Ending, Message
from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.text import shorten

NAME: Final = "offline"
# Characters of the prompt that the answer repeats.
QUOTED: Final = 1000

_WORDS: Final = lazy_pattern(r"\s*\S+\s*")


class Offline:
    """A model that names itself as offline and repeats the prompt."""

    name = NAME

    def obstacle(self) -> HubError | None:
        """Return None, because the model is always available."""
        return None

    async def answer(
        self, model: str, messages: Sequence[Message]
    ) -> AsyncGenerator[str | Ending, None]:
        """Yield the words of the answer, then its ending."""
        words = _WORDS.findall(answer_to(messages))
        for word in words:
            yield word
            # A reader gets the words one by one.
            await asyncio.sleep(0)
        input_words = sum(len(message.content.split()) for message in messages)
        # Words are counted instead of tokens.
        yield Ending(NAME, "end_turn", input_tokens=input_words, output_tokens=len(words))

    async def models(self) -> list[str]:
        """Return the only model."""
        return [NAME]


def answer_to(messages: Sequence[Message]) -> str:
    """Return the answer to a conversation."""
    *before, last = messages
    counts = [
        f"{number} {role}"
        for role in ("system", "user", "assistant")
        if (number := sum(message.role == role for message in before))
    ]
    prompt = shorten(last.content, QUOTED + 1)
    context = f"\nBefore that: {', '.join(counts)}." if counts else ""
    return f"[offline: no language model was asked] You said: {prompt}{context}"
