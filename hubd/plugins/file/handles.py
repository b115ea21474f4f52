"""The handle of a snapshot."""

from uuid import UUID

from pydantic import Field

from hubd.activation import Handle


class SnapshotRef(Handle, method="snapshot", kind="document", summary="{path} ({size} bytes)"):
    """The handle of the copy of a file."""

    snapshot_id: UUID = Field(description="The id of the snapshot")
    name: str = Field(description="The name of the file, without its directory")
