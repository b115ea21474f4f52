"""The settings of loopback."""

import shlex

from pydantic import BaseModel, Field, field_validator


class Settings(BaseModel, defer_build=True):
    """Times of approvals, and the command that tells people about them."""

    # Seconds after which an unanswered approval is denied.
    deadline_secs: int = Field(86_400, ge=1)
    # Seconds after which people are asked too, if a session's approver is `parent_then_human`.
    escalate_secs: int = Field(300, ge=0)
    # A command and its arguments, as a list or as a text with shell quoting; no shell runs it. It
    # gets each approval that people are asked about as JSON on its standard input.
    notify: list[str] = Field(default_factory=list)

    @field_validator("notify", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return shlex.split(value) if isinstance(value, str) else value
