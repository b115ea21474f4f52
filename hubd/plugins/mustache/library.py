"""mustache: the stored templates, parsed and with their partials, for the plugin and the hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hubd.activation import Host, InvalidParams, NotFound, Style
from hubd.activation.templates import Render
from hubd.plugins.mustache import store
from hubd.storage.database import Database
from hubd.wire.text import did_you_mean

if TYPE_CHECKING:
    from hubd.mustache.template import Template

# The number of partials of one rendering, and their characters in all.
MAX_PARTIALS: Final = 100
MAX_PARTIALS_TEXT: Final = 1024 * 1024
# The number of names to compare with an unknown one, and the number to list.
MAX_COMPARED: Final = 1000
NEAREST: Final = 10

COMBINE: Final = "Combine some of the templates"
LIST_HINT: Final = "List the templates with `synapse mustache list-templates`"


class Library:
    """The stored templates. The hub renders the data behind handles with them."""

    def __init__(self, db: Database, host: Host, path: str) -> None:
        self._db = db
        self._host = host
        # The namespace of the plugin.
        self._path = path

    async def named(self, name: str) -> Render | None:
        """As `TemplateSource.named`. An agent needs the grant `render`.

        The output shows the text of the template, and `resolve_handle` alone must not reveal it.
        """
        if not self._host.client.actor.is_granted(self._path, "render"):
            return None
        stored = await store.find(self._db, name)
        return await self._render(stored.text) if stored is not None else None

    async def tied(self, handle_type: str, style: Style) -> Render | None:
        """As `TemplateSource.tied`."""
        text = await store.tied(self._db, handle_type, style)
        return await self._render(text) if text is not None else None

    async def stored(self, name: str) -> store.Stored:
        """Return a template by its name.

        Raises:
            NotFound: No template has this name; the error suggests the nearest names.
        """
        stored = await store.find(self._db, name)
        if stored is None:
            raise await self.not_found(name)
        return stored

    async def not_found(self, name: str) -> NotFound:
        """Return the error of an unknown name."""
        names = await store.names(self._db, MAX_COMPARED)
        # In a thread, because long names take seconds to compare.
        # Imported here, because the start of the daemon does not need it.
        from difflib import get_close_matches

        nearest = await self._host.in_thread(get_close_matches, name, names, NEAREST, 0.0)
        return NotFound(
            f"there is no template '{name}'",
            suggestion=did_you_mean(name, nearest) or LIST_HINT,
            available=nearest,
        )

    async def partials(self, template: Template) -> dict[str, Template]:
        """Return the partials of a template, and their partials. Missing ones are left out.

        Raises:
            InvalidParams: They are too many, or too long.
        """
        partials: dict[str, Template] = {}
        seen: set[str] = set()
        length = 0
        waiting = list(template.partials)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > MAX_PARTIALS:
                raise InvalidParams(
                    f"the template has more than {MAX_PARTIALS} partials", suggestion=COMBINE
                )
            stored = await store.find(self._db, name)
            if stored is None:
                continue
            length += len(stored.text)
            if length > MAX_PARTIALS_TEXT:
                raise InvalidParams(
                    f"the partials have more than {MAX_PARTIALS_TEXT:,} characters",
                    suggestion=COMBINE,
                )
            partials[name] = await self.parse(stored.text)
            waiting += partials[name].partials
        return partials

    async def parse(self, text: str) -> Template:
        """Parse a template in a thread, so that a long one does not delay other calls."""
        from hubd.mustache.template import Template

        return await self._host.in_thread(Template.parse, text)

    async def _render(self, text: str) -> Render:
        parsed = await self.parse(text)
        partials = await self.partials(parsed)

        def render(data: Mapping[str, Any]) -> str:
            return parsed.render(data, partials, escape=False)

        return render
