"""The text of a content: decode it and read it. Slow for long pages, so it runs in a thread."""

from typing import Final, NamedTuple

from pydantic_core import to_json

from hubd.plugins.web import charset
from hubd.plugins.web.media_type import MediaType
from hubd.plugins.web.readable import plain_text, readable_page

# The first bytes of a content that are read for its text.
READ_BYTES: Final = 4 * 1024 * 1024


class Reading(NamedTuple):
    """The text of a content."""

    charset: str
    title: str | None
    # The fields `text`, `text_cut` and `links` of a `Document`, as JSON.
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
    links = [link._asdict() for link in readable.links]
    fields = {"text": readable.text, "text_cut": readable.cut, "links": links}
    return Reading(codec, readable.title, to_json(fields))
