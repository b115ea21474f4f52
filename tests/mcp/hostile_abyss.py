"""A plugin that takes its module down with it: a schema too deep to be read."""

from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import WithJsonSchema

from hubd.activation import Activation, method
from tests.mcp.hostile import Heard, deep


class Abyss(Activation, namespace="abyss", version="1.0.0"):
    """Has a schema that is nested without an end."""

    @method(streaming=False)
    async def fall(
        self, text: Annotated[str, WithJsonSchema(deep(10_000))] = ""
    ) -> AsyncIterator[Heard]:
        """Has a parameter with a schema that nothing can read."""
        yield Heard(text=text, number=0.0)
