"""The parts of the page around the entries: its head with the style, the list of branches. No I/O.

The page has no scripts, and its content security policy allows none: only this style, by its hash,
and images that the page itself contains.
"""

import base64
import hashlib
from typing import Final

from hubd.conversations.export.html.entry import LINE_LENGTH
from hubd.conversations.export.html.safe_text import one_line

STYLE: Final = """
:root { color-scheme: light dark; --text: #1c1e21; --page: #fff; --dim: #61676f; --line: #d9dce1;
  --box: #f5f6f8; --user: #2457c5; --assistant: #1f7a3d; --tool: #8a5a00; --failed: #b3261e;
  --mark: #fff0b8; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e6ea; --page: #17191c; --dim: #9aa1ab;
  --line: #363a41; --box: #212429; --user: #8fb4ff; --assistant: #7bd396; --tool: #e0b264;
  --failed: #ff8a80; --mark: #4d4318; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 56rem; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1, h2 { line-height: 1.25; }
h2 { margin-top: 3rem; padding-top: 1rem; border-top: 2px solid var(--line); font-size: 1.15rem; }
a { color: var(--user); }
a.external::after { content: " ↗"; }
.host, .note, header, footer, .language { color: var(--dim); font-size: .85rem; }
nav ol { padding-left: 2rem; }
article { margin: 1.25rem 0; padding-left: .9rem; border-left: 3px solid var(--line); }
article.user { border-color: var(--user); }
article.assistant { border-color: var(--assistant); }
article.tool { border-color: var(--tool); }
article:target, section:target > h2 { background: var(--mark); }
/* Piles of accents stay in their message. */
article, .text { overflow: clip; overflow-clip-margin: .2rem; }
article > header { margin-bottom: .35rem; }
article > header a { text-decoration: none; }
mark { background: var(--mark); color: inherit; padding: 0 .3rem; border-radius: .25rem; }
.text p, .text li { white-space: pre-line; }
.text > :first-child { margin-top: 0; }
.text > :last-child { margin-bottom: 0; }
.text + .text { margin-top: 1rem; }
.language { display: block; margin-top: .75rem; }
.language + pre { margin-top: .15rem; }
.plain, pre { white-space: pre-wrap; unicode-bidi: plaintext; }
pre, code { font: .85rem/1.45 ui-monospace, monospace; }
pre { margin: .5rem 0; padding: .7rem; background: var(--box); border-radius: .35rem;
  max-height: 40rem; overflow: auto; }
code { background: var(--box); padding: .1rem .25rem; border-radius: .25rem; }
pre code { padding: 0; }
details { margin: .5rem 0; }
summary { cursor: pointer; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.thinking { color: var(--dim); font-style: italic; }
.failed > summary strong { color: var(--failed); }
.forks { color: var(--dim); font-size: .9rem; }
img { max-width: 100%; border: 1px solid var(--line); }
table { border-collapse: collapse; display: block; overflow: auto; overflow-wrap: break-word; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
.right { text-align: right; }
.center { text-align: center; }
blockquote { margin: .5rem 0; padding-left: .9rem; border-left: 3px solid var(--line); }
@media print { ::details-content { content-visibility: visible; } pre { max-height: none; } }
"""
_DIGEST: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def head_html(title: str) -> str:
    """Return the beginning of the page, up to the heading."""
    name = one_line(title, LINE_LENGTH)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>"
    )


def branch_link(number: int, title: str, heads: list[str]) -> str:
    """Return a link to a branch, with the names of the heads on it."""
    names = "".join(f" <mark>{one_line(name, LINE_LENGTH)}</mark>" for name in heads)
    return f'<a href="#b{number}">{one_line(title, LINE_LENGTH) or "(empty)"}</a>{names}'


def branch_start(number: int, title: str, fork: str) -> str:
    """Return the beginning of a branch.

    Args:
        number: The number of the branch.
        title: The title.
        fork: The anchor of the entry after which the branch begins.
    """
    line = (
        f'<p class="note">Continues after <a href="#{fork}">this message</a>. '
        '<a href="#branches">All branches</a></p>'
    )
    return f'<section id="b{number}"><h2>{one_line(title, LINE_LENGTH) or "(empty)"}</h2>{line}'
