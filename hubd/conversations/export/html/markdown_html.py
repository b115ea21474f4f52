"""Markdown as HTML, without any HTML of the text itself.

markdown-it parses the text, and this module writes the HTML: each kind of token has a fixed
element, and the content of a token is always escaped. A text that would take long to parse, or that
is nested too deep for the parser, is shown as it is.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from hubd.conversations.export.html.safe_text import safe
from hubd.wire.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# Characters of a text. Parsing takes a tenth of a second for each 10,000.
MAX_LENGTH: Final = 50_000
# The time of the parser grows with the square of these.
MAX_BRACKETS: Final = 500
# Levels of lists and quotes. The parser drops text that is deeper.
MAX_NESTING: Final = 200
# Characters of the address of a link.
MAX_ADDRESS: Final = 2000

# Lines with so many markers of quotes and lists, or so much indentation, may be nested too deep.
_DEEP: Final = lazy_pattern(
    r"^(?:[ \t]*+(?:>|(?:[*+-]|\d{1,9}[.)])(?=[ \t]))){40}|^(?:\t| {4}){30}", re.MULTILINE
)
_SCHEMES: Final = ("http", "https", "mailto")

_TAGS: Final = {
    "paragraph": "p",
    "blockquote": "blockquote",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
    "strong": "strong",
    "em": "em",
    "s": "s",
}
# The classes for alignments of columns; the left one is the default.
_ALIGNED: Final = {"text-align:right": "right", "text-align:center": "center"}
# The page itself uses the first two levels of headings.
_HEADINGS: Final = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6", "h6": "h6"}


def markdown_html(text: str) -> str:
    """Return Markdown as HTML."""
    if len(text) > MAX_LENGTH or text.count("[") > MAX_BRACKETS or _DEEP.search(text):
        return plain_html(text)
    try:
        return "".join(map(_block, _parser().parse(text)))
    except RecursionError:
        return plain_html(text)


def plain_html(text: str) -> str:
    """Return text as HTML, with its lines and spaces."""
    return f'<div class="plain">{safe(text)}</div>'


@cache
def _parser() -> "MarkdownIt":
    # Imported here, because most hubs never write a page.
    from markdown_it import MarkdownIt

    options = {"html": False, "maxNesting": MAX_NESTING}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    # A definition of a link would vanish from the page.
    return parser.disable("reference")


def _block(token: "Token") -> str:
    if token.type == "inline":
        return _inline(token.children or ())
    if token.type in ("fence", "code_block"):
        language = safe(token.info.strip()[:40])
        label = f'<span class="language">{language}</span>' if language else ""
        return f"{label}<pre><code>{safe(token.content)}</code></pre>"
    if token.type == "hr":
        return "<hr>"
    if token.hidden:
        return ""  # a paragraph in a list without blank lines
    return _tag(token) + safe(token.content)


def _inline(tokens: Sequence["Token"]) -> str:
    parts: list[str] = []
    # The end of each open link.
    ends: list[str] = []
    for token in tokens:
        if token.type == "code_inline":
            parts.append(f"<code>{safe(token.content)}</code>")
        elif token.type == "softbreak":
            parts.append("\n")
        elif token.type == "hardbreak":
            parts.append("<br>")
        elif token.type == "image":
            # Not loaded: the page uses no network.
            parts.append(safe(f"[image: {token.content} {token.attrGet('src') or ''}]"))
        elif token.type == "link_open":
            start, end = _link(str(token.attrGet("href") or ""))
            parts.append(start)
            ends.append(end)
        elif token.type == "link_close":
            parts.append(ends.pop())
        else:
            parts.append(_tag(token) + safe(token.content))
    return "".join(parts)


def _tag(token: "Token") -> str:
    """Return the start or the end of an element; nothing for other tokens."""
    name, _, side = token.type.rpartition("_")
    tag = _HEADINGS.get(token.tag) if name == "heading" else _TAGS.get(name)
    if tag is None or side not in ("open", "close"):
        return ""
    if side == "close":
        return f"</{tag}>"
    if tag in ("th", "td") and (align := _ALIGNED.get(str(token.attrGet("style")))):
        return f'<{tag} class="{align}">'
    start = token.attrGet("start") if tag == "ol" else None
    return f'<ol start="{int(start)}">' if start is not None else f"<{tag}>"


def _link(address: str) -> tuple[str, str]:
    """Return the start and the end of a link. The end shows the host, which the text may hide."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        parts, host = None, ""
    usable = parts is not None and parts.scheme in _SCHEMES and len(address) <= MAX_ADDRESS
    if not usable:
        return "", safe(f" ({address})") if address else ""
    target = safe(host or parts.path if parts else "")
    start = (
        f'<a class="external" href="{safe(address)}" title="{safe(address)}" target="_blank" '
        'rel="noreferrer noopener nofollow">'
    )
    return start, f'</a><span class="host"> ({target})</span>'
