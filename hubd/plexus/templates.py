"""The data behind handles as text: by a template of the call, or by those of the handle types."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hubd.activation.host import Resolved
from hubd.activation.templates import Render, Style
from hubd.errors import HubError
from hubd.plexus.hub import Hub
from hubd.wire.text import shorten

if TYPE_CHECKING:
    from hubd.mustache.template import Template

log = logging.getLogger(__name__)

# Every tag of a template begins with it. A text without it may be the name of a template.
TAG: Final = "{{"
# Characters of a name in a message.
NAME_LENGTH: Final = 100

TextOf = Callable[[Resolved], Awaitable[str]]
# Sends a guidance item to the caller: a topic and a sentence.
Advise = Callable[[str, str], Awaitable[None]]


async def by_template(hub: Hub, template: str, advise: Advise) -> TextOf:
    """Return the function that renders data by a template, or by a registered template's name.

    Raises:
        InvalidParams: The template is invalid.
    """
    render = await _named(hub, template) if TAG not in template else None
    if render is None:
        if template and TAG not in template:
            name = shorten(template, NAME_LENGTH)
            await advise(
                "template",
                f"'{name}' is used as text: it has no tags, and no template has this name",
            )
        from hubd.mustache.template import Template

        # In a thread, because a long template would block other calls.
        parsed = await asyncio.to_thread(Template.parse, template)
        render = _unescaped(parsed)
    return partial(_text, render)


def by_style(hub: Hub, style: Style, advise: Advise) -> TextOf:
    """Return the function that renders data by the templates of its handle type.

    A template that was tied to the handle type comes before the one that the plugin declares, and
    the style before the style `default`. Without any, or if the template fails, the text is the
    summary.
    """
    return _Styled(hub, style, advise).text


async def _text(render: Render, resolved: Resolved) -> str:
    return await asyncio.to_thread(_render, render, resolved)


def _render(render: Render, resolved: Resolved) -> str:
    return render(resolved.data)


async def _named(hub: Hub, name: str) -> Render | None:
    for source in hub.template_sources:
        if (render := await source.named(name)) is not None:
            return render
    return None


def _unescaped(template: "Template") -> Render:
    def render(data: Mapping[str, Any]) -> str:
        return template.render(data, escape=False)

    return render


class _Styled:
    """Renders data in one style, for one call."""

    def __init__(self, hub: Hub, style: Style, advise: Advise) -> None:
        self._hub = hub
        self._style = style
        self._advise = advise
        # By the handle type. None if it has no template, or a template that failed.
        self._renders: dict[str, Render | None] = {}

    async def text(self, resolved: Resolved) -> str:
        """Return data as text."""
        handle_type = f"{resolved.handle.plugin}::{resolved.handle.method}"
        try:
            if handle_type not in self._renders:
                self._renders[handle_type] = await self._choose(handle_type, resolved)
            render = self._renders[handle_type]
            return await _text(render, resolved) if render is not None else resolved.summary
        except HubError as error:
            reason = error.message
        except Exception as error:
            # A source of templates is a plugin.
            log.exception("a template of %s failed", handle_type)
            reason = f"{type(error).__name__}: {error}"
        # Once for each type: thousands of nodes may have it.
        self._renders[handle_type] = None
        await self._advise(
            "template",
            f"The {self._style} template of {handle_type} failed, so summaries are shown: {reason}",
        )
        return resolved.summary

    async def _choose(self, handle_type: str, resolved: Resolved) -> Render | None:
        owner = self._hub.owner_of(resolved.handle)
        declared = owner.activation.resolvers[resolved.handle.method].handle.templates
        styles: list[Style] = [self._style]
        if self._style != "default":
            styles.append("default")
        for style in styles:
            for source in self._hub.template_sources:
                if (render := await source.tied(handle_type, style)) is not None:
                    return render
            if style in declared:
                return _unescaped(declared[style])
        return None
