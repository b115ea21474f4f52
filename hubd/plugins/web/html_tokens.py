"""The tags and texts of an HTML page, in time proportional to its length.

`html.parser` of the standard library takes quadratic time for some pages, such as a page of
`<!--` only, and its buffer grows with an unclosed tag. Here each search that fails ends the page,
as in browsers: a comment, a quoted value or a script without an end takes the rest of the page.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from hubd.wire.lazy_pattern import lazy_pattern

# Elements that contain text without markup.
RAW_TEXT: Final = frozenset(
    ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
)
# A tag with more attributes ends at its next `>`.
MAX_ATTRIBUTES: Final = 200

_NAME: Final = lazy_pattern(r"[a-zA-Z][^\s/>]*")
_GAP: Final = lazy_pattern(r"[\s/]*")
_ATTRIBUTE: Final = lazy_pattern(r"[^\s/>=][^\s/>=]*")
_EQUALS: Final = lazy_pattern(r"\s*=\s*")
_UNQUOTED: Final = lazy_pattern(r"[^\s>]*")


class Text(NamedTuple):
    """A text between tags, with its character references."""

    text: str


class Start(NamedTuple):
    """A start tag. Names are in lower case; values have their character references."""

    name: str
    attributes: Mapping[str, str]


class End(NamedTuple):
    """An end tag."""

    name: str


Token = Text | Start | End


def tokens(page: str) -> Iterator[Token]:
    """Yield the tags and texts of a page in order. Comments and declarations are left out."""
    position = 0
    while position < len(page):
        tag = page.find("<", position)
        if tag < 0:
            yield Text(page[position:])
            return
        if tag > position:
            yield Text(page[position:tag])
        if name := _NAME.match(page, tag + 1):
            start, position = _start_tag(page, name)
            if start is None:
                return
            yield start
            if start.name in RAW_TEXT:
                end = _raw_end(page, position, start.name)
                if end > position:
                    yield Text(page[position:end])
                position = end
        elif page.startswith("</", tag) and (name := _NAME.match(page, tag + 2)):
            yield End(name[0].lower())
            position = _after(page, ">", name.end())
        elif page.startswith("<!--", tag):
            position = _after(page, "-->", tag + 4)
        elif page.startswith(("<!", "<?", "</"), tag):
            position = _after(page, ">", tag + 2)
        else:
            yield Text("<")
            position = tag + 1


def _start_tag(page: str, name: re.Match[str]) -> tuple[Start | None, int]:
    """Return the tag and the position after it; no tag if the page ends inside it."""
    attributes: dict[str, str] = {}
    position = name.end()
    for _ in range(MAX_ATTRIBUTES):
        position = _end(_GAP, page, position)
        if position >= len(page):
            return None, position
        if page[position] == ">":
            return Start(name[0].lower(), attributes), position + 1
        attribute = _ATTRIBUTE.match(page, position)
        # A stray `=` begins a name.
        end = attribute.end() if attribute else position + 1
        key = page[position:end].lower()
        value, position = _value(page, end)
        attributes.setdefault(key, value)
    return Start(name[0].lower(), attributes), _after(page, ">", position)


def _value(page: str, position: int) -> tuple[str, int]:
    """Return the value of an attribute and the position after it."""
    equals = _EQUALS.match(page, position)
    if equals is None:
        return "", position
    position = equals.end()
    quote = page[position : position + 1]
    if quote and quote in "\"'":
        end = page.find(quote, position + 1)
        return ("", len(page)) if end < 0 else (page[position + 1 : end], end + 1)
    end = _end(_UNQUOTED, page, position)
    return page[position:end], end


def _raw_end(page: str, position: int, name: str) -> int:
    """Return the position of the end tag of an element that contains only text."""
    end = re.compile(rf"</{name}(?=[\s/>])", re.I).search(page, position)
    return len(page) if end is None else end.start()


def _after(page: str, end: str, position: int) -> int:
    place = page.find(end, position)
    return len(page) if place < 0 else place + len(end)


def _end(pattern: re.Pattern[str], page: str, position: int) -> int:
    match = pattern.match(page, position)
    return position if match is None else match.end()
