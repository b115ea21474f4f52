"""mustache: the plugin with its methods, its resolver and its prompts."""

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
from hubd.plugins.mustache.prompts import all_variables, data_of, prompts
from hubd.wire.text import did_you_mean

# The number of partials of one rendering, and their characters in all.
MAX_PARTIALS: Final = 100
MAX_PARTIALS_TEXT: Final = 1024 * 1024
# The number of names to compare with an unknown one, and the number to list.
MAX_COMPARED: Final = 1000
NEAREST: Final = 10

NewName = Annotated[
    str,
    Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", examples=["greeting"]),
]
# The name in a lookup; it may be any text.
Name = Annotated[str, Field(min_length=1, max_length=100, examples=["greeting"])]
Text = Annotated[str, Field(max_length=MAX_TEMPLATE, examples=["Hello {{name}}!"])]
Data = Annotated[dict[str, Any], Field(examples=[{"name": "Ann"}])]

LIST_NAMES: Final = {"name": "mustache.list_templates"}
COMBINE: Final = "Combine some of the templates"
LIST_HINT: Final = "List the templates with `synapse mustache list-templates`"


class Mustache(Activation, namespace="mustache", version="1.0.0"):
    """Mustache templates, stored by name and rendered with data or with the data behind handles.

    {{name}} is a value, escaped for HTML by default; {{{name}}} is not escaped.
    {{#items}}…{{/items}} is shown for each item, or if the value is true; {{^items}}…{{/items}} if
    it is false. {{user.name}} is a field, {{.}} the item itself, {{! … }} a comment, and {{>other}}
    another template. Every template is also a prompt for MCP clients.
    """

    migrations = store.MIGRATIONS

    @method(
        read_only=True,
        render="text",
        weight=30,
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
    ) -> events.Rendered:
        """Render a given or a registered template.

        Args:
            template: The text of a template.
            name: The name of a registered template.
            data: The values, as a JSON object.
            handle: A handle, for the data behind it. Fields of `data` override it.
            escape: The escaping of values.
        """
        text = template if template is not None else (await self._stored(name or "")).text
        parsed = await self._parse(text)
        resolved = (await self.host.resolve(handle)).data if handle is not None else {}
        partials = await self._partials(parsed)
        values = {**resolved, **(data or {})}
        output = await asyncio.to_thread(parsed.render, values, partials, escape=escape == "html")
        return events.Rendered(text=output)

    @method(completes=LIST_NAMES)
    async def register_template(
        self,
        name: NewName,
        template: Text,
        description: Annotated[str, Field(max_length=1000)] = "",
        replace: bool = False,
    ) -> events.TemplateRegistered:
        """Store a template under a name.

        Args:
            name: The name: letters, digits, '.', '_' and '-'.
            template: The text of the template.
            description: The purpose of the template.
            replace: Overwrite another template with this name.
        """
        parsed = await self._parse(template)
        now = int(time.time())
        outcome = await self.db.transaction(
            lambda tx: store.register(
                tx, name, template, description, parsed, replace=replace, now=now
            )
        )
        if outcome != "same":
            self.host.prompts_changed()
        return events.TemplateRegistered(
            name=name,
            variables=[variable.name for variable in parsed.variables],
            replaced=outcome == "replaced",
            handle=TemplateRef(name=name),
        )

    @method(read_only=True, render="table")
    async def list_templates(
        self, limit: RowLimit | None = None
    ) -> AsyncIterator[events.TemplateList]:
        """List all templates, sorted by name, in pages.

        Args:
            limit: The maximum number of templates; all by default.
        """
        async for page in limited(self._pages(), limit):
            yield events.TemplateList(
                templates=[
                    events.TemplateEntry(
                        name=template.name,
                        description=template.description,
                        variables=[variable.name for variable in template.variables],
                        updated_at=template.updated_at,
                    )
                    for template in page
                ]
            )

    @method(read_only=True, completes=LIST_NAMES)
    async def get_template(self, name: Name) -> events.TemplateData:
        """Show a template.

        Args:
            name: The name of the template.
        """
        return _template_data(await self._stored(name))

    @method(destructive=True, completes=LIST_NAMES)
    async def delete_template(self, name: Name) -> events.TemplateDeleted:
        """Delete a template.

        Args:
            name: The name of the template.
        """
        if not await self.db.transaction(lambda tx: store.delete(tx, name)):
            raise await self._not_found(name)
        self.host.prompts_changed()
        return events.TemplateDeleted(name=name)

    @resolver
    async def template(self, ref: TemplateRef) -> events.TemplateData:
        """Read the current version of a template."""
        return _template_data(await self._stored(ref.name))

    async def offer_prompts(self) -> Sequence[Prompt]:
        """Return all templates as prompts."""
        return prompts([template async for page in self._pages() for template in page])

    async def fill_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """Render a template as a message, without escaping."""
        parsed = await self._parse((await self._stored(name)).text)
        partials = await self._partials(parsed)
        variables = all_variables(
            parsed.variables, (partial.variables for partial in partials.values())
        )
        values = data_of(variables, arguments)
        output = await asyncio.to_thread(parsed.render, values, partials, escape=False)
        return [PromptMessage("user", output)]

    async def _pages(self) -> AsyncIterator[list[store.TemplateInfo]]:
        after = ""
        while page := await store.page(self.db, after):
            yield page
            after = page[-1].name

    async def _stored(self, name: str) -> store.Stored:
        """Return a template by its name.

        Raises:
            NotFound: No template has this name; the error suggests the nearest names.
        """
        stored = await store.find(self.db, name)
        if stored is None:
            raise await self._not_found(name)
        return stored

    async def _not_found(self, name: str) -> NotFound:
        names = await store.names(self.db, MAX_COMPARED)
        # In a thread, because long names take seconds to compare.
        nearest = await asyncio.to_thread(get_close_matches, name, names, NEAREST, 0.0)
        return NotFound(
            f"there is no template '{name}'",
            suggestion=did_you_mean(name, nearest) or LIST_HINT,
            available=nearest,
        )

    async def _partials(self, template: Template) -> dict[str, Template]:
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
            stored = await store.find(self.db, name)
            if stored is None:
                continue
            length += len(stored.text)
            if length > MAX_PARTIALS_TEXT:
                raise InvalidParams(
                    f"the partials have more than {MAX_PARTIALS_TEXT:,} characters",
                    suggestion=COMBINE,
                )
            partials[name] = await self._parse(stored.text)
            waiting += partials[name].partials
        return partials

    async def _parse(self, text: str) -> Template:
        """Parse a template in a thread, so that a long one does not delay other calls."""
        return await self.host.in_thread(Template.parse, text)


def _template_data(stored: store.Stored) -> events.TemplateData:
    info = stored.info
    return events.TemplateData(
        name=info.name,
        template=stored.text,
        description=info.description,
        variables=[variable.name for variable in info.variables],
        required=[variable.name for variable in info.variables if variable.required],
        sections=[variable.name for variable in info.variables if variable.section],
        partials=list(info.partials),
        created_at=info.created_at,
        updated_at=info.updated_at,
        handle=TemplateRef(name=info.name),
    )
