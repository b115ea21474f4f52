"""The events of loopback's methods about approvals."""

from typing import Any, Literal

from pydantic import Field

from hubd.activation import Event, columns


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
    """Pending approvals: the questions whether a tool may run."""

    approvals: list[dict[str, Any]] = Field(
        json_schema_extra=columns(
            id="{id:.8}",
            tool="{tool_name}",
            wants="{summary}",
            session="{session_name}",
            asked="{created_at}",
        )
    )


class PastApprovals(Event, tag="ok"):
    """A page of approvals with their answers, the newest first."""

    approvals: list[dict[str, Any]] = Field(
        json_schema_extra=columns(
            id="{id:.8}",
            status="{status}",
            tool="{tool_name}",
            wanted="{summary}",
            by="{by}",
            session="{session_name}",
            asked="{created_at}",
        )
    )


class Asked(Event, summary="approval {approval.id:.8}"):
    """An approval is put to the caller."""

    approval: dict[str, Any]


class Answered(Event, summary="approval {approval_id:.8} was {text}"):
    """An approval that the caller was asked about has an answer, perhaps of another watcher."""

    approval_id: str
    status: str
    by: str
    text: str = Field(description="The status, the decider and the message, for people")


class Declined(Event, summary="approval {approval_id:.8} stays pending"):
    """The caller declined to answer. The approval stays pending."""

    approval_id: str


class Configured(Event):
    """A configuration for a `claude` that this hub did not start."""

    file: str
    flags: list[str]
    command: str
