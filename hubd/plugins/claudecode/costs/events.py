"""The events about tokens and costs."""

from pydantic import BaseModel, Field

from hubd.activation import Event, columns
from hubd.plugins.claudecode.methods.parameters import Grouping
from hubd.wire.summary import TOTALS_KEYWORD


class UsageRow(BaseModel, defer_build=True):
    """The tokens and costs of one session, branch, model or day."""

    label: str = Field(description="The name of the session or branch, the model, or the day")
    session_id: str | None = Field(description="The session, if the row is about one")
    turns: int
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int
    cost_usd: float


class Usage(Event):
    """Tokens and costs: rows, and the sums of all turns in them.

    A turn on several branches, or with several models, counts once in the sums.
    """

    by: Grouping
    rows: list[UsageRow] = Field(
        json_schema_extra={
            **columns(
                label="{label}",
                turns="{turns}",
                cost="{cost_usd}",
                input="{input_tokens}",
                output="{output_tokens}",
                cached="{cache_read_input_tokens}",
            ),
            TOTALS_KEYWORD: "total",
        }
    )
    turns: int
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int
    cost_usd: float
