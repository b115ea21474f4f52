"""The pieces in which a content is sent."""

from __future__ import annotations

import codecs
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Final

from hubd.plugins.file import events
from hubd.storage.blobs.store import Blobs

# A multiple of three, so that the base64 text of the pieces can be joined.
PAGE_BYTES: Final = 192 * 1024


async def pages(
    blobs: Blobs, digest: bytes, start: int, end: int, *, is_text: bool
) -> AsyncIterator[events.Text | events.Bytes]:
    """Yield a part of a content.

    Args:
        blobs: The stored contents.
        digest: The content.
        start: The position of the first byte; inside a character, its other bytes are skipped.
        end: The position after the last byte; inside a character, the character is left out.
        is_text: Whether the content is text.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    offset = start
    while offset < end:
        chunk = await blobs.read(digest, offset, min(PAGE_BYTES, end - offset))
        if is_text:
            if text := decoder.decode(chunk):
                yield events.Text(offset=start, text=text)
                start += len(text.encode())
        else:
            yield events.Bytes(offset=offset, base64=b64encode(chunk).decode())
        offset += len(chunk)
