"""The text of a content: decode it and read it. Slow for long pages, so it runs in a thread."""

from typing import Final, NamedTuple

from pydantic_core import from_json, to_json

from hubd.plugins.web import charset
from hubd.plugins.web.media_type import MediaType
from hubd.plugins.web.readable import Link, Readable, plain_text, readable_page

# The first bytes of a content that are read for its text.
READ_BYTES: Final = 4 * 1024 * 1024


class Reading(NamedTuple):
    """The text of a content."""

    charset: str
    title: str | None
    # The readable part, as `unpack` reads it.
    packed: bytes


def read(beginning: bytes, kind: MediaType, url: str, *, cut: bool) -> Reading:
    """Return the text of a content.

    Args:
        beginning: The first bytes of the content, at most `READ_BYTES`.
        kind: The type of the content.
        url: The address of the content, for relative links.
        cut: Whether the content has more bytes.
    """
    codec = charset.detect(beginning, kind.charset)
    text = "".join(charset.decode(beginning, codec))
    readable = readable_page(text, url, cut=cut) if kind.is_html else plain_text(text, cut=cut)
    return Reading(codec, readable.title, to_json(readable))


def unpack(packed: bytes) -> Readable:
    """Return the readable part of a content."""
    title, text, links, cut = from_json(packed)
    return Readable(title, text, tuple(Link(*link) for link in links), cut)
