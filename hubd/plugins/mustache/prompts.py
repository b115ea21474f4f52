"""mustache: templates as MCP prompts: their arguments, and the data of the arguments' texts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import from_json

from hubd.activation import InvalidParams, Prompt, PromptArgument
from hubd.mustache.parser import Variable
from hubd.plugins.mustache.store import TemplateInfo

SECTION: Final = "Text, or JSON such as true, false or a list"


def prompts(templates: Sequence[TemplateInfo]) -> list[Prompt]:
    """Return a prompt for every template, with the variables of its partials too."""
    by_name = {template.name: template for template in templates}
    return [
        Prompt(
            template.name,
            template.description,
            tuple(
                PromptArgument(
                    variable.name, SECTION if variable.section else "", variable.required
                )
                for variable in all_variables(template.variables, _below(template, by_name))
            ),
        )
        for template in templates
    ]


def all_variables(
    own: Iterable[Variable], others: Iterable[Sequence[Variable]]
) -> tuple[Variable, ...]:
    """Return the variables of a template and of its partials, which are not required."""
    merged = {variable.name: variable for variable in own}
    for variables in others:
        for other in variables:
            earlier = merged.get(other.name) or Variable(other.name, section=False, required=False)
            section = earlier.section or other.section
            merged[other.name] = Variable(other.name, section, earlier.required)
    return tuple(merged.values())


def data_of(variables: Iterable[Variable], arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return the data of the arguments. Dotted names are fields; empty texts are ignored.

    Raises:
        InvalidParams: A name is used as a text and as an object.
    """
    by_name = {variable.name: variable for variable in variables}
    # Sections, and names with fields, can be JSON.
    structured = {name for name, variable in by_name.items() if variable.section}
    structured |= {above for name in by_name for above in _above(name)}
    data: dict[str, Any] = {}
    # Objects before their fields.
    for name in sorted(arguments, key=lambda name: name.count(".")):
        text = arguments[name]
        if not text:
            continue
        *above, last = name.split(".")
        place = data
        for part in above:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise InvalidParams(
                    f"'{name}' is a field, but '{part}' is not an object",
                    suggestion=f"Leave one of them empty, or set '{part}' to a JSON object",
                )
        place[last] = _read(text) if name in structured else text
    return data


def _read(text: str) -> Any:
    """Parse a text as JSON if it is valid. Numbers except zero stay texts."""
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    return text if type(value) in (int, float) and value else value


def _above(name: str) -> Iterable[str]:
    """Return the names of the objects around a dotted name."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def _below(
    template: TemplateInfo, by_name: Mapping[str, TemplateInfo]
) -> Iterable[Sequence[Variable]]:
    """Yield the variables of the partials of a template, and of their partials."""
    seen, waiting = {template.name}, [template]
    while waiting:
        for name in waiting.pop().partials:
            if name in by_name and name not in seen:
                seen.add(name)
                waiting.append(by_name[name])
                yield by_name[name].variables
