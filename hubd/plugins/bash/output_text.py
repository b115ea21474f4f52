"""A recorded output as text."""

from __future__ import annotations

import asyncio
import base64
from typing import Final

from hubd.plugins.bash import events
from hubd.storage.database import Database
from hubd.wire.escaped_bytes import escape

# The maximum of each output in one answer: more would delay other clients while it is encoded.
MAX_ANSWER_BYTES: Final = 4 * 1024**2
# A larger output is converted in a thread.
LARGE_BYTES: Final = 256 * 1024


async def read_output(
    db: Database, digest: bytes | None, *, as_base64: bool, offset: int, length: int
) -> tuple[str, events.Encoding]:
    """Return a part of an output as text, and its encoding.

    Args:
        db: The database.
        digest: The stored content; None for an empty output.
        as_base64: Whether the text is base64. Otherwise it is UTF-8, or escaped if it is not.
        offset: The first byte.
        length: The maximum number of bytes.

    Raises:
        NotFound: The output was deleted meanwhile.
        DatabaseUnusable: The output cannot be read.
    """
    data = b"" if digest is None else await db.blobs.read(digest, offset, length)
    if len(data) <= LARGE_BYTES:
        return _encode(data, as_base64=as_base64)
    return await asyncio.to_thread(_encode, data, as_base64=as_base64)


def _encode(data: bytes, *, as_base64: bool) -> tuple[str, events.Encoding]:
    if as_base64:
        return base64.b64encode(data).decode(), "base64"
    text, escaped = escape(data)
    return text, "escaped" if escaped else "utf-8"
