"""The settings of loopback."""

from pydantic import BaseModel, Field


class Settings(BaseModel, defer_build=True):
    """Times of approvals, and the command that notifies people."""

    # Seconds after which an unanswered approval is denied.
    deadline_secs: int = Field(86_400, ge=1)
    # Seconds after which people are asked too, if a session's approver is `parent_then_human`.
    escalate_secs: int = Field(300, ge=0)
    # A command line for the shell, or a program and its arguments. It gets each approval that
    # people are asked about as JSON on its standard input.
    notify: str | list[str] | None = None

    @property
    def notify_command(self) -> list[str]:
        """The program and its arguments; empty if there is none."""
        if isinstance(self.notify, str):
            return ["sh", "-c", self.notify]
        return self.notify or []
