"""Reads an exported page with the standard library's parser, and checks that it is harmless."""

import base64
import hashlib
import re
from html.parser import HTMLParser

# Every element that a page may have, with its attributes.
PLAIN = """
    head title style body h1 h2 h3 h4 h5 h6 ul li strong em s code blockquote hr br
    header footer summary table thead tbody tr pre
"""
ALLOWED: dict[str, set[str]] = {
    **{tag: set() for tag in PLAIN.split()},
    "html": {"lang"},
    "meta": {"charset", "http-equiv", "content", "name"},
    "nav": {"id"},
    "section": {"id"},
    "th": {"class"},
    "td": {"class"},
    "article": {"id", "class"},
    "p": {"id", "class"},
    "div": {"class"},
    "span": {"class"},
    "details": {"class"},
    "mark": {"title"},
    "time": {"datetime"},
    "img": {"alt", "src"},
    "ol": {"start"},
    "a": {"href", "title", "class", "target", "rel"},
}
EMPTY = {"meta", "hr", "br", "img"}
CLASSES = {
    *("user", "assistant", "system", "tool", "attachment", "text", "plain", "note", "host"),
    *("language", "forks", "thinking", "call", "result", "failed", "other", "external"),
    *("right", "center"),
}
IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")


class Page(HTMLParser):
    """A parsed page: its problems, its anchors and links, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.external: list[str] = []
        self.elements: list[str] = []
        # The number of entries of each branch.
        self.articles: dict[str, int] = {}
        self.text = ""
        self._open: list[str] = []
        self.policy = ""
        self.style = ""
        self.feed(text)
        self.close()
        if self._open:
            self.problems.append(f"not closed: {self._open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag not in ALLOWED:
            self.problems.append(f"<{tag}>")
        values = {name: value or "" for name, value in attrs}
        for name in values.keys() - ALLOWED.get(tag, set()):
            self.problems.append(f"<{tag} {name}>")
        if not set(values.get("class", "").split()) <= CLASSES:
            self.problems.append(f"class {values['class']}")
        if "id" in values:
            if values["id"] in self.anchors:
                self.problems.append(f"{values['id']} twice")
            self.anchors.add(values["id"])
        if tag == "section":
            self.articles[values["id"]] = 0
        if tag == "article" and self.articles:
            self.articles[list(self.articles)[-1]] += 1
        if tag == "a":
            self._link(values)
        if tag == "img" and not IMAGE.fullmatch(values["src"]):
            self.problems.append(f"image {values['src'][:80]}")
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if tag not in EMPTY:
            self._open.append(tag)

    def _link(self, values: dict[str, str]) -> None:
        href = values["href"]
        if href.startswith("#"):
            self.links.append(href[1:])
        elif href.startswith(("https://", "http://", "mailto:")):
            self.external.append(href)
            if values.get("rel") != "noreferrer noopener nofollow":
                self.problems.append(f"link without rel: {href}")
        else:
            self.problems.append(f"link to {href}")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}> without its start")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.style += data
        else:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.problems.append(f"comment {data}")

    def unknown_decl(self, data: str) -> None:
        self.problems.append(f"declaration {data}")

    def handle_pi(self, data: str) -> None:
        self.problems.append(f"instruction {data}")


def check_page(text: str) -> Page:
    """Return a page after checking its elements, its policy and its inner links."""
    page = Page(text)
    assert page.problems == []
    assert set(page.links) <= page.anchors
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert page.policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:")
    assert "script" not in page.policy
    assert not re.search(r"url\(|@import|https?:", page.style)
    return page
