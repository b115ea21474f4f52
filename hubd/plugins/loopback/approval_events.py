"""The events of loopback's methods about approvals."""

from typing import Any, Literal

from hubd.activation import Event


class Allowed(Event):
    """The tool may run with this input. The fields are those that `claude` reads."""

    behavior: Literal["allow"] = "allow"
    updatedInput: dict[str, Any]
    approval_id: str


class Denied(Event):
    """The tool may not run. The fields are those that `claude` reads."""

    behavior: Literal["deny"] = "deny"
    message: str
    approval_id: str


class Responded(Event, tag="ok", summary="{status}: approval {approval_id}"):
    """An approval was answered."""

    approval_id: str
    status: str
    rule_id: str | None = None


class Approvals(Event, tag="ok"):
    """Approvals: the questions whether a tool may run."""

    approvals: list[dict[str, Any]]


class Asked(Event, summary="{approval.tool_name} waits for an approval: {approval.input}"):
    """An approval is put to the caller."""

    approval: dict[str, Any]


class Answered(Event, summary="{status} by {by}"):
    """An approval that the caller was asked about has an answer, perhaps of another watcher."""

    approval_id: str
    status: str
    by: str


class Declined(Event, summary="approval {approval_id} was not answered"):
    """The caller declined to answer. The approval stays pending."""

    approval_id: str


class Configured(Event):
    """A configuration for a `claude` that this hub did not start."""

    file: str
    flags: list[str]
    command: str
