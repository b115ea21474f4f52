"""The settings of cone."""

from pydantic import Field

from hubd.conversations.settings import ContextSettings


class Settings(ContextSettings, defer_build=True):
    """The section `cone` of the settings."""

    # The model of cones without a model_id.
    model: str = Field(default="offline", min_length=1)
    # The maximum length of an answer, for providers that need one (Anthropic).
    max_tokens: int = Field(default=8192, ge=1)
    # The time limit of a whole answer.
    answer_seconds: float = Field(default=600, gt=0)
    # The number of retries if a provider is busy or does not answer.
    retries: int = Field(default=2, ge=0)
    # The address of a provider; an environment variable overrides it.
    anthropic_base_url: str | None = None
    openai_base_url: str | None = None
