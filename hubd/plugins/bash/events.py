"""The events of bash's methods."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from hubd.activation import Event, columns
from hubd.plugins.bash.handles import ExecutionRef
from hubd.plugins.bash.store import Status

# How the text of an output represents its bytes.
Encoding = Literal["utf-8", "escaped", "base64"]

# Flags that are left out unless they are true: most lines have none.
Partial = Annotated[
    bool,
    Field(
        exclude_if=lambda flag: not flag,
        description="True if no line end follows: the line continues in the next event of this "
        "output, or the output ends here. Otherwise left out",
    ),
]
Escaped = Annotated[
    bool,
    Field(
        exclude_if=lambda flag: not flag,
        description="True if the line is not UTF-8: `\\xNN` is a byte, and `\\\\` a backslash. "
        "Otherwise left out",
    ),
]


class Stdout(Event, summary="{line}"):
    """A line of the standard output, without its line end."""

    line: str
    partial: Partial = False
    escaped: Escaped = False


class Stderr(Event, summary="{line}"):
    """A line of the standard error output, without its line end."""

    line: str
    partial: Partial = False
    escaped: Escaped = False


class Exit(Event, summary="exit {code}"):
    """The end of the command."""

    code: int = Field(description="The exit status; 128 and the number of the signal that ended it")
    handle: ExecutionRef


class ExecutionData(Event, tag="execution", summary="{command} (exit {exit_code})"):
    """A command and its output. Times are in seconds, sizes in bytes."""

    handle: ExecutionRef
    execution_id: str
    command: str
    stdout: str
    stderr: str
    exit_code: int | None = Field(description="Null while the command runs or if it is unknown")
    duration_ms: int | None
    cwd: str
    truncated: bool = Field(description="Whether the command wrote more than these texts have")
    status: Status
    shell: str
    started_at: int
    stdout_encoding: Encoding
    stderr_encoding: Encoding
    stdout_size: int = Field(description="The recorded bytes")
    stderr_size: int = Field(description="The recorded bytes")
    stdout_dropped: int = Field(description="The bytes beyond the limit, which are not recorded")
    stderr_dropped: int = Field(description="The bytes beyond the limit, which are not recorded")


class ExecutionEntry(BaseModel, defer_build=True):
    """An execution in a list. Times are in seconds."""

    execution_id: str
    command: str
    status: Status
    exit_code: int | None
    duration_ms: int | None
    size: int = Field(description="The recorded bytes of both outputs")
    cwd: str
    started_at: int
    handle: ExecutionRef


class ExecutionList(Event):
    """A page of executions, the newest first."""

    executions: list[ExecutionEntry] = Field(
        json_schema_extra=columns(
            id="{execution_id:.8}",
            command="{command}",
            status="{status}",
            code="{exit_code}",
            ms="{duration_ms}",
            bytes="{size}",
            started="{started_at}",
        )
    )


class ExecutionDeleted(Event, summary="deleted {execution_id}"):
    """A deleted execution."""

    execution_id: str


Line = Stdout | Stderr
LINES: Final[dict[str, type[Stdout] | type[Stderr]]] = {"stdout": Stdout, "stderr": Stderr}
