"""The settings of plugins that build contexts."""

from typing import Final

from pydantic import BaseModel, Field

# The default of `attachment_chars`: about 25,000 tokens.
ATTACHMENT_CHARS: Final = 100_000


class ContextSettings(BaseModel, defer_build=True):
    """The base of the settings of a plugin that builds contexts."""

    # The maximum number of characters of an output or a document in a context.
    attachment_chars: int = Field(default=ATTACHMENT_CHARS, ge=1000, le=10_000_000)
