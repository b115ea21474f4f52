"""mustache: templates as prompts: their blanks, and the data that texts typed into them make."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import from_json

from hubd.activation import InvalidParams, Prompt, PromptArgument
from hubd.mustache.parser import Variable
from hubd.plugins.mustache.store import About

SECTION: Final = "Text, or JSON such as true, false or a list"


def prompts(templates: Sequence[About]) -> list[Prompt]:
    """A prompt for every template, with the blanks of its partials too."""
    known = {template.name: template for template in templates}
    return [
        Prompt(
            template.name,
            template.description,
            tuple(
                PromptArgument(blank.name, SECTION if blank.section else "", blank.required)
                for blank in blanks(template.variables, _below(template, known))
            ),
        )
        for template in templates
    ]


def blanks(own: Iterable[Variable], others: Iterable[Sequence[Variable]]) -> tuple[Variable, ...]:
    """The variables of a template and of its partials; only its own are ever required."""
    found = {variable.name: variable for variable in own}
    for variables in others:
        for other in variables:
            known = found.get(other.name) or Variable(other.name, section=False, required=False)
            section = known.section or other.section
            found[other.name] = Variable(other.name, section, known.required)
    return tuple(found.values())


def data_of(variables: Iterable[Variable], arguments: Mapping[str, str]) -> dict[str, Any]:
    """What was typed, as data: dotted names are fields of objects. An empty text is none at all.

    Raises:
        InvalidParams: Something is given as a text and as an object.
    """
    known = {variable.name: variable for variable in variables}
    # What is shown for each item, and what has fields, can be more than a text.
    structured = {name for name, variable in known.items() if variable.section}
    structured |= {above for name in known for above in _above(name)}
    data: dict[str, Any] = {}
    # An object before its fields, which may be given beside it.
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
                    f"'{name}' is given, but '{part}' is no object",
                    suggestion=f"Leave one of them empty, or give '{part}' as a JSON object",
                )
        place[last] = _read(text) if name in structured else text
    return data


def _read(text: str) -> Any:
    """JSON where it is JSON. A number stays as it was typed, but that zero is false."""
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    return text if type(value) in (int, float) and value else value


def _above(name: str) -> Iterable[str]:
    """Those that a dotted name is a field of."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def _below(template: About, known: Mapping[str, About]) -> Iterable[Sequence[Variable]]:
    """The variables of the templates that one refers to, directly or not."""
    seen, waiting = {template.name}, [template]
    while waiting:
        for name in waiting.pop().partials:
            if name in known and name not in seen:
                seen.add(name)
                waiting.append(known[name])
                yield known[name].variables
