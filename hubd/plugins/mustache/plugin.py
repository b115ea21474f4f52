"""mustache: the plugin with its methods, its resolver and its prompts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from hubd.activation import (
    Activation,
    AnyHandle,
    InvalidParams,
    Prompt,
    PromptMessage,
    Style,
    method,
    resolver,
)
from hubd.activation.pages import RowLimit, limited
from hubd.mustache import MAX_TEMPLATE
from hubd.plugins.mustache import events, store
from hubd.plugins.mustache.handles import TemplateRef
from hubd.plugins.mustache.library import Library
from hubd.plugins.mustache.prompts import all_variables, data_of, prompts
from hubd.wire.text import did_you_mean

MAX_NAME: Final = 100

NewName = Annotated[
    str,
    Field(max_length=MAX_NAME, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", examples=["greeting"]),
]
# The name in a lookup; it may be any text.
Name = Annotated[str, Field(min_length=1, max_length=100, examples=["greeting"])]
HandleType = Annotated[
    str,
    Field(
        max_length=200,
        pattern=r"^[A-Za-z0-9._-]+::[A-Za-z0-9._-]+$",
        examples=["mustache::register_template"],
    ),
]
Text = Annotated[str, Field(max_length=MAX_TEMPLATE, examples=["Hello {{name}}!"])]
Data = Annotated[dict[str, Any], Field(examples=[{"name": "Ann"}])]

LIST_NAMES: Final = {"name": "mustache.list_templates"}
STYLE_HINT: Final = "Add --handle-type PLUGIN::METHOD, such as notes::add"


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
        text = template if template is not None else (await self._library.stored(name or "")).text
        parsed = await self._library.parse(text)
        resolved = (await self.host.resolve(handle)).data if handle is not None else {}
        partials = await self._library.partials(parsed)
        values = {**resolved, **(data or {})}
        output = await asyncio.to_thread(parsed.render, values, partials, escape=escape == "html")
        return events.Rendered(text=output)

    @method(any_of=("name", "handle_type"), completes=LIST_NAMES)
    async def register_template(
        self,
        template: Text,
        name: NewName | None = None,
        handle_type: HandleType | None = None,
        style: Style | None = None,
        description: Annotated[str, Field(max_length=1000)] = "",
        replace: bool = False,
    ) -> events.TemplateRegistered:
        """Store a template under a name, for a handle type, or both.

        With a handle type, `resolve_handle --style`, trees and documents show the data of such
        handles by this template.

        Args:
            template: The text of the template.
            name: The name: letters, digits, '.', '_' and '-'. With a handle type, by default made
                of the type and the style.
            handle_type: The handles to show by the template, as `PLUGIN::METHOD`.
            style: The style in which they are shown so: `default`, `compact` or `verbose`.
            description: The purpose of the template.
            replace: Overwrite another template with this name, or of this type and style.
        """
        if handle_type is None and style is not None:
            raise InvalidParams("a style needs a handle type", suggestion=STYLE_HINT)
        tie = store.Tie(handle_type, style or "default") if handle_type is not None else None
        parsed = await self._library.parse(template)
        new = store.NewTemplate(
            name or _name_of(tie), template, description, parsed, int(time.time())
        )
        outcome = await self.db.transaction(
            lambda tx: store.register(tx, new, tie, replace=replace)
        )
        if outcome != "same":
            self.host.prompts_changed()
        kinds = self.host.handle_kinds()
        if tie is not None and tie.handle_type not in kinds:
            nearest = did_you_mean(tie.handle_type, kinds)
            await self.host.advise(
                "handle_type", f"No plugin has handles {tie.handle_type} now. {nearest}".rstrip()
            )
        return events.TemplateRegistered(
            name=new.name,
            variables=[variable.name for variable in parsed.variables],
            replaced=outcome == "replaced",
            handle_type=tie.handle_type if tie else None,
            style=tie.style if tie else None,
            handle=TemplateRef(name=new.name),
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
            ties = await store.ties(self.db, [template.name for template in page])
            yield events.TemplateList(
                templates=[
                    events.TemplateEntry(
                        name=template.name,
                        description=template.description,
                        variables=[variable.name for variable in template.variables],
                        handle_types=ties.get(template.name, []),
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
        return _template_data(await self._library.stored(name))

    @method(destructive=True, completes=LIST_NAMES)
    async def delete_template(self, name: Name) -> events.TemplateDeleted:
        """Delete a template.

        Args:
            name: The name of the template.
        """
        if not await self.db.transaction(lambda tx: store.delete(tx, name)):
            raise await self._library.not_found(name)
        self.host.prompts_changed()
        return events.TemplateDeleted(name=name)

    @resolver
    async def template(self, ref: TemplateRef) -> events.TemplateData:
        """Read the current version of a template."""
        return _template_data(await self._library.stored(ref.name))

    async def lifespan(self) -> AsyncIterator[None]:
        """Offer the templates to the hub."""
        with self.host.providing_templates(self._library):
            yield

    async def offer_prompts(self) -> Sequence[Prompt]:
        """Return all templates as prompts."""
        return prompts([template async for page in self._pages() for template in page])

    async def fill_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """Render a template as a message, without escaping."""
        parsed = await self._library.parse((await self._library.stored(name)).text)
        partials = await self._library.partials(parsed)
        variables = all_variables(
            parsed.variables, (partial.variables for partial in partials.values())
        )
        values = data_of(variables, arguments)
        output = await asyncio.to_thread(parsed.render, values, partials, escape=False)
        return [PromptMessage("user", output)]

    @cached_property
    def _library(self) -> Library:
        return Library(self.db, self.host, self.path)

    async def _pages(self) -> AsyncIterator[list[store.TemplateInfo]]:
        after = ""
        while page := await store.page(self.db, after):
            yield page
            after = page[-1].name


def _name_of(tie: store.Tie | None) -> str:
    """Return the name of a template that has only a handle type and a style."""
    assert tie is not None
    return f"{tie.handle_type.replace('::', '.')}.{tie.style}"[-MAX_NAME:].lstrip("._-")


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
