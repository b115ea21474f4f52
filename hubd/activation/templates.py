"""Templates for the data behind handles: their styles, and a source of templates for the hub."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args

if TYPE_CHECKING:
    from hubd.mustache.template import Template

Style = Literal["default", "compact", "verbose"]

STYLES: Final[tuple[Style, ...]] = get_args(Style)

# A template with everything that it needs: it turns data into text. It may run in a thread.
Render = Callable[[Mapping[str, Any]], str]


class TemplateSource(Protocol):
    """A plugin's templates, for `host.providing_templates`."""

    async def named(self, name: str) -> Render | None:
        """Return the template with a name."""

    async def tied(self, handle_type: str, style: Style) -> Render | None:
        """Return the template for handles of a type, such as `notes::add`, in a style."""


def check_templates(where: str, templates: Mapping[str, str]) -> "dict[str, Template]":
    """Parse the templates that a handle type declares, by style.

    Raises:
        TypeError: A style does not exist, or a template is invalid; names the class and the remedy.
    """
    if not templates:
        return {}
    # Few handle types have templates.
    from hubd.errors import InvalidParams
    from hubd.mustache.template import Template

    parsed: dict[str, Template] = {}
    for style, text in templates.items():
        if style not in STYLES:
            raise TypeError(f"{where}: the style {style!r} of a template is not one of {STYLES}")
        try:
            parsed[style] = Template.parse(text)
        except InvalidParams as error:
            raise TypeError(f"{where}: template {style!r}: {error.message}") from None
        if parsed[style].partials:
            raise TypeError(
                f"{where}: template {style!r} has partials; write their text into the template"
            )
    return parsed
