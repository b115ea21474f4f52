"""web: the plugin with its methods and its resolver."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

from pydantic import BaseModel, Field
from pydantic_core import to_json

from hubd.activation import (
    Activation,
    Encoded,
    InvalidParams,
    NotFound,
    Progress,
    SearchSource,
    method,
    resolver,
)
from hubd.activation.pages import RowLimit, limited
from hubd.activation.params import IdPrefix
from hubd.plugins.web import events, search, store
from hubd.plugins.web.handles import NAMESPACE, VERSION, FetchRef
from hubd.plugins.web.lookup import Lookup, system_lookup
from hubd.plugins.web.store import Fetch
from hubd.plugins.web.tables import MIGRATIONS
from hubd.storage import ids
from hubd.storage.blobs.rows import Blob

if TYPE_CHECKING:  # Slow to import, as all modules that `fetch` imports.
    import httpcore2

    from hubd.plugins.web.fetching import Fetcher

MIB: Final = 1024 * 1024
# The most bytes of a page that a call can ask for, and the longest time.
MAX_BYTES: Final = 1024 * MIB
MAX_SECONDS: Final = 3600
# Bytes of a content in one event.
PAGE_BYTES: Final = 8 * MIB

# Pages of which the text is read at the same time.
MAX_READINGS: Final = 2

LIST_FETCHES: Final = {"fetch_id": f"{NAMESPACE}.list"}

Url = Annotated[str, Field(min_length=1, max_length=8000, examples=["https://example.org/"])]
Headers = Annotated[dict[str, str], Field(examples=[{"accept-language": "de"}])]
MaxBytes = Annotated[int, Field(ge=1, le=MAX_BYTES, examples=[1_000_000])]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS, examples=[10])]
Offset = Annotated[int, Field(ge=0, le=MAX_BYTES, examples=[0])]


class Settings(BaseModel, defer_build=True):
    """The settings of web."""

    # Whether loopback, link-local, private and other special addresses may be fetched.
    allow_private: bool = False
    # The most MiB of a page that `fetch` keeps without `max_bytes`.
    max_mib: int = Field(default=32, ge=1, le=MAX_BYTES // MIB)
    # The time limit of `fetch` without `timeout_secs`.
    timeout_secs: float = Field(default=30, gt=0, le=MAX_SECONDS)


class Web(Activation, namespace=NAMESPACE, version=VERSION):
    """Web pages, kept exactly as they were received, with their readable text.

    A page is fetched once. Its handle resolves to the stored copy and never uses the network. Only
    http and https are fetched, and only from public addresses, unless web.allow_private is set.
    """

    migrations = MIGRATIONS
    settings_model = Settings

    def __init__(
        self,
        lookup: Lookup = system_lookup,
        network: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        """Prepare the plugin.

        Args:
            lookup: Returns the addresses of a name.
            network: Connects to addresses; the system's network by default.
        """
        self._lookup = lookup
        self._network = network
        # Created by the first fetch.
        self._fetcher: Fetcher | None = None
        # Long pages must not take all threads of the hub.
        self._reading = asyncio.Semaphore(MAX_READINGS)

    @method
    async def fetch(
        self,
        url: Url,
        headers: Headers | None = None,
        max_bytes: MaxBytes | None = None,
        timeout_secs: Seconds | None = None,
    ) -> events.Fetched:
        """Fetch a web page, store it, and return a handle to the stored copy.

        Every HTTP status is a result, also 404 and 500. Up to 10 redirects are followed.

        Args:
            url: The address of the page, with http or https.
            headers: Headers of the request. They are sent to the origin of `url` only, and are
                never stored.
            max_bytes: The most bytes to keep, after decompression; a longer page is cut. 32 MiB by
                default (setting `web.max_mib`).
            timeout_secs: The time limit of the whole fetch in seconds; 30 by default.
        """
        settings = self.settings(Settings)
        fetcher = await self._ready(settings)
        # The thread has imported them.
        from hubd.plugins.web import reading
        from hubd.plugins.web.fetching import Limits
        from hubd.plugins.web.media_type import SNIFFED_BYTES, media_type

        limits = Limits(max_bytes or settings.max_mib * MIB, timeout_secs or settings.timeout_secs)
        progress = Progress(self.host, "received bytes")
        beginning = bytearray()
        started = time.monotonic()
        async with self.db.blobs.stage() as staging:

            async def write(piece: bytes) -> None:
                beginning.extend(piece[: reading.READ_BYTES - len(beginning)])
                await staging.write(piece)
                await progress.update(staging.size)

            page = await fetcher.fetch(url, headers or {}, limits, write)
            duration_ms = round((time.monotonic() - started) * 1000)
            content = await staging.finish()
            kind = media_type(page.content_type, bytes(beginning[:SNIFFED_BYTES]))
            text = None
            if kind.is_text:
                cut = page.truncated or len(beginning) < page.size
                async with self._reading:
                    text = await self.host.in_thread(
                        reading.read, bytes(beginning), kind, page.final_url, cut=cut
                    )
            row = Fetch(
                key=0,
                id=ids.uuid4(),
                url=page.url,
                final_url=page.final_url,
                redirects=page.redirects,
                status=page.status,
                mime_type=kind.mime_type,
                charset=text.charset if text else None,
                title=text.title if text else None,
                size=page.size,
                truncated=page.truncated,
                digest=content.digest,
                readable=None,
                fetched_at=int(time.time()),
                duration_ms=duration_ms,
            )
            await self._store(row, content, text.packed if text else None)
        return events.Fetched(**_common(row), redirects=row.redirects, duration_ms=row.duration_ms)

    @method(read_only=True, completes=LIST_FETCHES)
    async def get(
        self, fetch_id: IdPrefix, offset: Offset | None = None
    ) -> events.Document | events.Binary | events.Content | Encoded:
        """Show a stored page with its text, or a part of its exact bytes.

        Args:
            fetch_id: The id of the fetch, or its first 8 or more digits.
            offset: Return up to 8 MiB of the exact bytes from this offset, instead of the text.
        """
        fetch = await store.find(self.db, fetch_id)
        if offset is None:
            return await self._resolved(fetch)
        if offset > fetch.size:
            raise InvalidParams(f"offset {offset} is behind the end, {fetch.size}")
        data, next_offset = await self._bytes(fetch, offset)
        return events.Content(
            fetch_id=ids.text(fetch.id), offset=offset, base64=data, next_offset=next_offset
        )

    @method(name="list", read_only=True, render="table")
    async def list_fetches(self, limit: RowLimit | None = None) -> AsyncIterator[events.Fetches]:
        """List the stored pages, the newest first, in pages.

        Args:
            limit: The maximum number of rows; all by default.
        """
        async for page in limited(self._pages(), limit):
            yield events.Fetches(fetches=list(map(_info, page)))

    @method(destructive=True, completes=LIST_FETCHES)
    async def delete(self, fetch_id: IdPrefix) -> events.Deleted:
        """Delete a stored page. Its handle then resolves to nothing.

        Args:
            fetch_id: The id of the fetch, or its first 8 or more digits.
        """
        fetch = await self.db.transaction(lambda tx: store.delete(tx, fetch_id))
        return events.Deleted(fetch_id=ids.text(fetch.id), url=fetch.url)

    def search_sources(self) -> Sequence[SearchSource]:
        """Return the fetched pages."""
        return (search.source(),)

    @resolver(many=True)
    async def page(
        self, refs: list[FetchRef]
    ) -> AsyncIterator[events.Document | events.Binary | Encoded | NotFound]:
        """Read stored pages."""
        fetches = await store.look_up_each(self.db, [ref.fetch_id for ref in refs])
        for ref, fetch in zip(refs, fetches, strict=True):
            if isinstance(fetch, NotFound):
                yield fetch
            elif fetch.status != ref.status:
                yield NotFound(f"the page {ref.fetch_id} has the status {fetch.status}")
            else:
                yield await self._resolved(fetch)

    async def _ready(self, settings: Settings) -> Fetcher:
        """Return the fetcher. The first call imports the HTTP client in a thread."""
        if self._fetcher is None:
            self._fetcher = await self.host.in_thread(self._create_fetcher, settings)
        return self._fetcher

    def _create_fetcher(self, settings: Settings) -> Fetcher:
        import httpcore2

        from hubd.plugins.web import reading  # noqa: F401 -- imported for `fetch`
        from hubd.plugins.web.fetching import Fetcher
        from hubd.plugins.web.network import ssl_context

        ssl_context()
        network = self._network or httpcore2.AnyIOBackend()
        return Fetcher(self._lookup, network, allow_private=settings.allow_private)

    async def _store(self, fetch: Fetch, content: Blob, packed: bytes | None) -> None:
        """Store a fetch with its content and its text."""
        async with self.db.blobs.stage() as staging:
            text = None
            if packed is not None:
                await staging.write(packed)
                text = await staging.finish()
            row = fetch._replace(readable=text.digest if text else None)
            await self.db.transaction(lambda tx: store.add(tx, row, content, text))

    async def _resolved(self, fetch: Fetch) -> events.Binary | Encoded:
        if fetch.readable is None:
            data, next_offset = await self._bytes(fetch, 0)
            return events.Binary(**_common(fetch), base64=data, next_offset=next_offset)
        # The text is stored as the last fields of a `Document`, and not parsed again.
        text = await self.db.blobs.read(fetch.readable)
        common = _common(fetch) | {"handle": str(_handle(fetch).at(self.origin))}
        beginning = to_json({"type": events.Document.tag, **common})
        return Encoded(b"%b,%b" % (beginning[:-1], text[1:]), common)

    async def _bytes(self, fetch: Fetch, offset: int) -> tuple[str, int | None]:
        """Return bytes of the content in base64, and the offset of the next ones."""
        content = await self.db.blobs.read(fetch.digest, offset, PAGE_BYTES)
        end = offset + len(content)
        return b64encode(content).decode(), end if end < fetch.size else None

    async def _pages(self) -> AsyncIterator[list[Fetch]]:
        before = 2**63 - 1
        while page := await store.page(self.db, before):
            yield page
            before = page[-1].key


def _common(fetch: Fetch) -> dict[str, Any]:
    """Return the fields that all events about a page have."""
    return {
        "handle": _handle(fetch),
        "fetch_id": ids.text(fetch.id),
        "url": fetch.url,
        "final_url": fetch.final_url,
        "status": fetch.status,
        "mime_type": fetch.mime_type,
        "charset": fetch.charset,
        "title": fetch.title,
        "size": fetch.size,
        "truncated": fetch.truncated,
        "digest": fetch.digest.hex(),
        "fetched_at": fetch.fetched_at,
    }


def _info(fetch: Fetch) -> events.FetchInfo:
    """Return a page as a row of the list."""
    fields = _common(fetch)
    return events.FetchInfo(**{name: fields[name] for name in events.FetchInfo.model_fields})


def _handle(fetch: Fetch) -> FetchRef:
    return FetchRef(fetch_id=UUID(bytes=fetch.id), status=fetch.status)
