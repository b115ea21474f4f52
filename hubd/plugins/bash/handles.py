"""The handle type of bash."""

from uuid import UUID

from pydantic import Field

from hubd.activation import Handle


class ExecutionRef(Handle, method="execute", kind="output", summary="{command} (exit {exit_code})"):
    """Points at a command that was run, and its output."""

    execution_id: UUID
    exit_code: int | None = Field(
        None, description="The exit status; left out while the command runs or if it is unknown"
    )
