"""The offline model: no account, no network, always the same answer to the same conversation."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from hubd.activation import HubError
from hubd.plugins.cone.providers.provider import Ending, Message

NAME: Final = "offline"
# How much of what it was told it says again.
QUOTED: Final = 1000

_WORDS: Final = re.compile(r"\s*\S+\s*")


class Offline:
    """Says that it is no language model, and what it was told."""

    name = NAME

    def obstacle(self) -> HubError | None:
        """It is always there."""
        return None

    async def answer(
        self, model: str, messages: Sequence[Message]
    ) -> AsyncGenerator[str | Ending, None]:
        """The answer, word by word."""
        words = _WORDS.findall(answer_to(messages))
        for word in words:
            yield word
            # Whoever reads along sees it grow.
            await asyncio.sleep(0)
        read = sum(len(message.content.split()) for message in messages)
        # In place of tokens there are words here.
        yield Ending(NAME, "end_turn", input_tokens=read, output_tokens=len(words))

    async def models(self) -> list[str]:
        """There is one."""
        return [NAME]


def answer_to(messages: Sequence[Message]) -> str:
    """What the offline model says to a conversation."""
    *before, last = messages
    counts = [
        f"{number} {role}"
        for role in ("system", "user", "assistant")
        if (number := sum(message.role == role for message in before))
    ]
    heard = last.content if len(last.content) <= QUOTED else f"{last.content[:QUOTED]}…"
    context = f"\nBefore that: {', '.join(counts)}." if counts else ""
    return f"[offline: no language model was asked] You said: {heard}{context}"
