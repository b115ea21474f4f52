"""The messages and blocks of a running chat that are not complete."""

from dataclasses import field
from typing import Any

from hubd.storage.arbor.tree import Place
from hubd.wire.lazy_dataclass import dataclass


@dataclass
class OpenBlock:
    """An unfinished block."""

    blob: bytes
    place: Place
    kind: str
    # The data of its blob, without the text.
    data: dict[str, Any]


@dataclass
class OpenMessage:
    """An unfinished message."""

    blob: bytes
    place: Place
    # The data of its blob; `blocks` are the ids of its blocks' blobs in order of arrival.
    data: dict[str, Any]
    # Its unfinished blocks by index.
    blocks: dict[int, OpenBlock] = field(default_factory=dict)

    def copy(self) -> "OpenMessage":
        """Return a message that can change without changing this one."""
        data = {**self.data, "blocks": [*self.data["blocks"]]}
        return OpenMessage(self.blob, self.place, data, dict(self.blocks))
