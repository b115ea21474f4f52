"""The events of web's methods, and the data behind its handles. Times are in seconds."""

from pydantic import BaseModel, Field

from hubd.activation import Event, columns
from hubd.plugins.web.handles import FetchRef


class Page(Event):
    """A stored page, without its content."""

    handle: FetchRef
    fetch_id: str
    url: str = Field(description="The URL that was asked for, without user name and password")
    final_url: str = Field(description="The URL that answered, after all redirects")
    status: int = Field(description="The HTTP status")
    mime_type: str
    charset: str | None = Field(description="The character set of a text; null for other content")
    title: str | None
    size: int = Field(description="Bytes that were kept, after decompression")
    truncated: bool = Field(description="Whether the page was longer than max_bytes")
    digest: str = Field(description="The SHA-256 of the kept bytes, in hex digits")
    fetched_at: int


class Fetched(Page, summary="{status} {title} {final_url}"):
    """A page that was just fetched."""

    redirects: int = Field(description="The number of redirects that were followed")
    duration_ms: int


class Link(BaseModel, defer_build=True):
    """A link of a page."""

    url: str
    text: str


class Document(Page, kind="document", summary="{status} {title} {final_url}"):
    """A page with text: the readable part of HTML, or the text itself."""

    text: str
    text_cut: bool = Field(description="Whether the page has more text than `text`")
    links: list[Link] = Field(description="The links of an HTML page, without repetitions")


class Binary(Page, kind="binary", summary="{status} {mime_type} {final_url}"):
    """A content that is not text."""

    base64: str = Field(description="The first bytes")
    next_offset: int | None = Field(
        description="The offset of the next bytes, for `get`; null at the end"
    )


class Content(Event, summary="bytes from {offset} of {fetch_id}"):
    """Bytes of a stored page, exactly as they were received."""

    fetch_id: str
    offset: int
    base64: str
    next_offset: int | None = Field(description="The offset of the next bytes; null at the end")


class FetchInfo(BaseModel, defer_build=True):
    """A stored page in a list."""

    fetch_id: str
    url: str
    final_url: str
    status: int
    mime_type: str
    title: str | None
    size: int
    truncated: bool
    fetched_at: int
    handle: FetchRef


class Fetches(Event):
    """Stored pages, the newest first."""

    fetches: list[FetchInfo] = Field(
        json_schema_extra=columns(
            id="{fetch_id:.8}",
            status="{status}",
            url="{final_url}",
            title="{title}",
            type="{mime_type}",
            size="{size}",
            fetched="{fetched_at}",
        )
    )


class Deleted(Event, summary="deleted the page {url}"):
    """A deleted page."""

    fetch_id: str
    url: str
