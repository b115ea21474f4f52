"""mustache: the plugin: its methods, what its handles point at, and its prompts."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from hubd.activation import (
    Activation,
    AnyHandle,
    InvalidParams,
    NotFound,
    Prompt,
    PromptMessage,
    method,
    resolver,
)
from hubd.activation.pages import RowLimit, limited
from hubd.mustache.template import MAX_TEMPLATE, Template
from hubd.plugins.mustache import events, store
from hubd.plugins.mustache.events import TemplateRef
from hubd.plugins.mustache.prompts import blanks, data_of, prompts

# What one rendering may refer to, directly and through others, and its length altogether.
MAX_PARTIALS: Final = 100
MAX_PARTIALS_TEXT: Final = 1024 * 1024
# Among so many names the nearest ones are looked for, and so many are told.
MAX_COMPARED: Final = 1000
NEAREST: Final = 10

NewName = Annotated[
    str,
    Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", examples=["greeting"]),
]
# Of one that is there, or is not.
Name = Annotated[str, Field(min_length=1, max_length=100, examples=["greeting"])]
Text = Annotated[str, Field(max_length=MAX_TEMPLATE, examples=["Hello {{name}}!"])]
Data = Annotated[dict[str, Any], Field(examples=[{"name": "Ann"}])]

LIST_NAMES: Final = {"name": "mustache.list_templates"}
TOGETHER: Final = "Put what belongs together into one template"
LISTED_BY: Final = "mustache.list_templates lists those there are"


class Mustache(Activation, namespace="mustache", version="1.0.0"):
    """Templates, kept by name and filled with data or with what handles point at.

    {{name}} is a value, escaped for HTML unless said otherwise; {{{name}}} never is.
    {{#items}}…{{/items}} is shown for each item, or if there is something; {{^items}}…{{/items}} if
    there is nothing. {{user.name}} is a field, {{.}} the item itself, {{! … }} a comment, and
    {{>other}} another template. Every template is also a prompt for MCP clients.
    """

    migrations = store.MIGRATIONS

    @method(
        streaming=False,
        read_only=True,
        render="text",
        one_of=("template", "name"),
        completes=LIST_NAMES,
    )
    async def render(
        self,
        template: Text | None = None,
        name: Name | None = None,
        data: Data | None = None,
        handle: AnyHandle | None = None,
        escape: Literal["html", "none"] = "html",
    ) -> AsyncIterator[events.Rendered]:
        """Fill a template: one that is given, or one that is kept.

        Args:
            template: The template itself.
            name: The name of one that is kept.
            data: What to fill in, by name.
            handle: Fill in what this points at; the fields of `data` stand above it.
            escape: Whether values are escaped for HTML.
        """
        text = template if template is not None else (await self._kept(name or "")).text
        read = await _read(text)
        known = (await self.host.resolve(handle)).data if handle is not None else {}
        others = await self._partials(read)
        filling = {**known, **(data or {})}
        filled = await asyncio.to_thread(read.render, filling, others, escape=escape == "html")
        yield events.Rendered(text=filled)

    @method(streaming=False, completes=LIST_NAMES)
    async def register_template(
        self,
        name: NewName,
        template: Text,
        description: Annotated[str, Field(max_length=1000)] = "",
        replace: bool = False,
    ) -> AsyncIterator[events.TemplateRegistered]:
        """Keep a template under a name.

        Args:
            name: What to call it: letters, digits, '.', '_' and '-'.
            template: The template.
            description: What it is for.
            replace: Take the place of another one of that name.
        """
        read = await _read(template)
        now = int(time.time())
        outcome = await self.db.transaction(
            lambda tx: store.keep(tx, name, template, description, read, replace=replace, now=now)
        )
        if outcome != "same":
            self.host.prompts_changed()
        yield events.TemplateRegistered(
            name=name,
            variables=[variable.name for variable in read.variables],
            replaced=outcome == "replaced",
            handle=TemplateRef(name=name),
        )

    @method(read_only=True, render="table")
    async def list_templates(
        self, limit: RowLimit | None = None
    ) -> AsyncIterator[events.TemplateList]:
        """List all templates by name, in pages.

        Args:
            limit: The maximum number of templates; all by default.
        """
        async for page in limited(self._pages(), limit):
            yield events.TemplateList(
                templates=[
                    events.TemplateEntry(
                        name=about.name,
                        description=about.description,
                        variables=[variable.name for variable in about.variables],
                        updated_at=about.updated_at,
                    )
                    for about in page
                ]
            )

    @method(streaming=False, read_only=True, completes=LIST_NAMES)
    async def get_template(self, name: Name) -> AsyncIterator[events.TemplateData]:
        """Look at a template.

        Args:
            name: Its name.
        """
        yield _described(await self._kept(name))

    @method(streaming=False, destructive=True, completes=LIST_NAMES)
    async def delete_template(self, name: Name) -> AsyncIterator[events.TemplateDeleted]:
        """Remove a template.

        Args:
            name: Its name.
        """
        if not await self.db.transaction(lambda tx: store.delete(tx, name)):
            raise await self._missing(name)
        self.host.prompts_changed()
        yield events.TemplateDeleted(name=name)

    @resolver
    async def template(self, ref: TemplateRef) -> AsyncIterator[events.TemplateData]:
        """Read a template back, as it is now."""
        yield _described(await self._kept(ref.name))

    async def offer_prompts(self) -> Sequence[Prompt]:
        """Every template."""
        return prompts([about async for page in self._pages() for about in page])

    async def fill_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """A template as a message; never escaped, since a model reads it."""
        read = await _read((await self._kept(name)).text)
        others = await self._partials(read)
        variables = blanks(read.variables, (other.variables for other in others.values()))
        filling = data_of(variables, arguments)
        filled = await asyncio.to_thread(read.render, filling, others, escape=False)
        return [PromptMessage("user", filled)]

    async def _pages(self) -> AsyncIterator[list[store.About]]:
        after = ""
        while page := await store.page(self.db, after):
            yield page
            after = page[-1].name

    async def _kept(self, name: str) -> store.Stored:
        """A template by its name.

        Raises:
            NotFound: There is none; names the nearest.
        """
        found = await store.find(self.db, name)
        if found is None:
            raise await self._missing(name)
        return found

    async def _missing(self, name: str) -> NotFound:
        names = await store.names(self.db, MAX_COMPARED)
        # In a thread: long names take seconds.
        nearest = await asyncio.to_thread(get_close_matches, name, names, NEAREST, 0.0)
        close = get_close_matches(name, nearest, n=1)
        return NotFound(
            f"there is no template '{name}'",
            suggestion=f"Did you mean {close[0]}?" if close else LISTED_BY,
            available=nearest,
        )

    async def _partials(self, template: Template) -> dict[str, Template]:
        """The templates that one refers to, directly or not; those that are not there are left out.

        Raises:
            InvalidParams: They are too many, or too long.
        """
        found: dict[str, Template] = {}
        asked: set[str] = set()
        length = 0
        waiting = list(template.partials)
        while waiting:
            name = waiting.pop()
            if name in asked:
                continue
            asked.add(name)
            if len(asked) > MAX_PARTIALS:
                raise InvalidParams(
                    f"there are more than {MAX_PARTIALS} partials", suggestion=TOGETHER
                )
            stored = await store.find(self.db, name)
            if stored is None:
                continue
            length += len(stored.text)
            if length > MAX_PARTIALS_TEXT:
                raise InvalidParams(
                    f"the partials have more than {MAX_PARTIALS_TEXT:,} characters",
                    suggestion=TOGETHER,
                )
            found[name] = await _read(stored.text)
            waiting += found[name].partials
        return found


async def _read(text: str) -> Template:
    """In a thread, as all work on templates: a long one would hold up everybody else."""
    return await asyncio.to_thread(Template.parse, text)


def _described(stored: store.Stored) -> events.TemplateData:
    about = stored.about
    return events.TemplateData(
        name=about.name,
        template=stored.text,
        description=about.description,
        variables=[variable.name for variable in about.variables],
        required=[variable.name for variable in about.variables if variable.required],
        sections=[variable.name for variable in about.variables if variable.section],
        partials=list(about.partials),
        created_at=about.created_at,
        updated_at=about.updated_at,
        handle=TemplateRef(name=about.name),
    )
