"""The readable text of a page: its title, its main text and its links.

The main text is the text in `main` or `article`, if it has a good part of the page; else the text
without navigation, forms and asides. Headings begin with `#`, items of lists with `-`; paragraphs
have an empty line between them.
"""

from html import unescape
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from hubd.plugins.web.html_tokens import End, Start, Text, tokens
from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.text import shorten

# The longest texts in characters, and the most links.
MAX_TEXT: Final = 1024 * 1024
MAX_TITLE: Final = 300
MAX_LINKS: Final = 1000
MAX_LINK_TEXT: Final = 200
MAX_URL: Final = 2000
# Tags and texts that are read: enough for every real page, in about a second.
MAX_TOKENS: Final = 300_000
# Different links that are looked at.
MAX_REFERENCES: Final = 5 * MAX_LINKS
# The share of the page's text that `main` or `article` must have to be the main text.
MAIN_SHARE: Final = 0.2

_INVISIBLE: Final = frozenset(
    ("script", "style", "template", "noscript", "svg", "math", "head", "object", "iframe", "xmp")
)
_ASIDE: Final = frozenset(("nav", "aside", "footer", "form", "button", "select", "dialog", "menu"))
_MAIN: Final = frozenset(("main", "article"))
_HEADINGS: Final = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_PARAGRAPHS: Final = frozenset(
    (
        *("p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "form"),
        *("ul", "ol", "dl", "table", "pre", "blockquote", "figure", "fieldset", "hr", "address"),
        *("details", "summary", "body", *_HEADINGS),
    )
)
# Elements that begin a line, if they are not at the beginning of one.
_LINES: Final = frozenset(("li", "tr", "dt", "dd", "option", "figcaption", "caption"))
_CELLS: Final = frozenset(("td", "th"))

_SPACE: Final = lazy_pattern(r"\s+")
_CONTROL: Final = lazy_pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BLANK_LINES: Final = lazy_pattern(r"\n{3,}")


class Link(NamedTuple):
    """A link of a page."""

    url: str
    text: str


class Readable(NamedTuple):
    """The readable part of a content."""

    title: str | None
    text: str
    links: tuple[Link, ...]
    # Whether the page had more text than is kept.
    cut: bool


def plain_text(text: str, *, cut: bool = False) -> Readable:
    """Return a text that has no markup."""
    return Readable(None, text[:MAX_TEXT], (), cut or len(text) > MAX_TEXT)


def readable_page(page: str, url: str, *, cut: bool = False) -> Readable:
    """Return the readable part of a page.

    Args:
        page: The markup.
        url: The address of the page, for relative links.
        cut: Whether `page` is only the beginning of the page.
    """
    reader = _Reader(url)
    complete = reader.read(page)
    text = _tidy(reader.main_text())
    title = shorten(" ".join(unescape("".join(reader.title)).split()), MAX_TITLE) or None
    return Readable(
        title and _CONTROL.sub("", title),
        text[:MAX_TEXT],
        tuple(Link(url, words) for url, words in reader.links.items()),
        cut or not complete or len(text) > MAX_TEXT,
    )


class _Reader:
    """Collects the parts of one page. It counts open elements, so nesting costs nothing."""

    def __init__(self, url: str) -> None:
        self.title: list[str] = []
        # Addresses with the text of their first link.
        self.links: dict[str, str] = {}
        self._base = url
        # The addresses of references as they are written.
        self._addresses: dict[str, str | None] = {}
        # All visible text, then the text outside of asides, then the text in `main`.
        self._visible: list[str] = []
        self._body: list[str] = []
        self._main: list[str] = []
        # Open elements of each group.
        self._open = {"invisible": 0, "aside": 0, "main": 0, "pre": 0}
        self._invisible_name = ""
        self._in_title = False
        self._link: str | None = None
        self._link_words: list[str] = []

    def read(self, page: str) -> bool:
        """Read the page; False if it has too many tags and texts."""
        for count, token in enumerate(tokens(page)):
            if count >= MAX_TOKENS:
                return False
            if isinstance(token, Text):
                self._text(token.text)
            elif isinstance(token, Start):
                self._start(token)
            else:
                self._end(token)
        return True

    def main_text(self) -> str:
        """Return the text of the best part."""
        visible, body, main = map("".join, (self._visible, self._body, self._main))
        body = body if body.strip() else visible
        return main if len(main.strip()) > MAIN_SHARE * len(body.strip()) else body

    def _text(self, text: str) -> None:
        if self._in_title:
            self.title.append(text)
        elif not self._open["invisible"]:
            text = _CONTROL.sub("", unescape(text))
            if not self._open["pre"]:
                text = _SPACE.sub(" ", text)
                if not self._visible or self._visible[-1][-1:].isspace():
                    text = text.removeprefix(" ")
            if not text:
                return
            self._add(text)
            if self._link is not None and len(self._link_words) < MAX_LINK_TEXT:
                self._link_words.append(text)

    def _add(self, text: str) -> None:
        self._visible.append(text)
        if not self._open["aside"]:
            self._body.append(text)
            if self._open["main"]:
                self._main.append(text)

    def _start(self, tag: Start) -> None:
        name = tag.name
        if self._open["invisible"]:
            # The elements of a head may be visible if the head is not closed.
            if self._invisible_name == "head" and name == "body":
                self._open["invisible"] = 0
            elif name == self._invisible_name:
                self._open["invisible"] += 1
            elif name == "title" and self._invisible_name == "head" and not self.title:
                self._in_title = True
            elif name == "base" and self._invisible_name == "head" and "href" in tag.attributes:
                self._base = self._absolute(tag.attributes["href"]) or self._base
            return
        if name == "title" and not self.title:
            self._in_title = True
        elif name in _INVISIBLE:
            self._open["invisible"], self._invisible_name = 1, name
        elif name == "a":
            self._close_link()
            self._link = self._address(tag.attributes.get("href", ""))
        else:
            self._block(name)
            if name == "br":
                self._add("\n")
            elif name in _CELLS and not self._is_at_line_start:
                self._add("\t")
            if name in _ASIDE:
                self._open["aside"] += 1
            elif name in _MAIN:
                self._open["main"] += 1
            elif name == "pre":
                self._open["pre"] += 1
            if name in _HEADINGS:
                self._add(_HEADINGS[name])
            elif name == "li":
                self._add("- ")

    def _end(self, tag: End) -> None:
        name = tag.name
        if name == "title":
            self._in_title = False
        elif self._open["invisible"]:
            if name == self._invisible_name:
                self._open["invisible"] -= 1
        elif name == "a":
            self._close_link()
        else:
            for group, names in (("aside", _ASIDE), ("main", _MAIN), ("pre", ("pre",))):
                if name in names and self._open[group]:
                    self._open[group] -= 1
            self._block(name)

    def _block(self, name: str) -> None:
        if name in _PARAGRAPHS:
            self._add("\n\n")
        elif name in _LINES and not self._is_at_line_start:
            self._add("\n")

    @property
    def _is_at_line_start(self) -> bool:
        return not self._visible or self._visible[-1].endswith("\n")

    def _close_link(self) -> None:
        if self._link is not None and len(self.links) < MAX_LINKS:
            words = shorten(" ".join("".join(self._link_words).split()), MAX_LINK_TEXT)
            if not self.links.get(self._link):
                self.links[self._link] = words
        self._link, self._link_words = None, []

    def _address(self, reference: str) -> str | None:
        """Return the address of a link; None if it is not one for people to follow."""
        if reference not in self._addresses:
            if len(self._addresses) >= MAX_REFERENCES:
                return None
            self._addresses[reference] = self._absolute(reference)
        return self._addresses[reference]

    def _absolute(self, reference: str) -> str | None:
        reference = _CONTROL.sub("", unescape(reference[:MAX_URL])).strip()
        if not reference or reference.startswith("#"):
            return None
        try:
            url = urljoin(self._base, reference)
            scheme = urlsplit(url).scheme
        except ValueError:
            return None
        return url if scheme in ("http", "https", "mailto") and len(url) <= MAX_URL else None


def _tidy(text: str) -> str:
    """Return a text without spaces at the ends of lines and without long gaps."""
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip("\n")
