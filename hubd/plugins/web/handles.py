"""The handle of a fetched page."""

from typing import Final
from uuid import UUID

from pydantic import Field

from hubd.activation import Handle

NAMESPACE: Final = "web"
VERSION: Final = "1.0.0"


class FetchRef(Handle, method="fetch", kind="document", summary="{status} {title} {final_url}"):
    """The handle of a fetched page. It resolves to the stored copy, without the network.

    The kind is `document` for text, and `binary` for everything else.
    """

    fetch_id: UUID = Field(description="The id of the fetch")
    status: int = Field(description="The HTTP status")
