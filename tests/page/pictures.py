"""Pictures of every page, light and dark, desktop and phone, to look at.

`python -m tests.page.pictures FOLDER [--readme]`; with `--readme`, the two pictures of the README
are written to `docs/images/` too.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.page.browser.windows import ARGUMENTS, DESKTOP, PHONE, Windows, chromium
from tests.support import Daemon, events_of

IMAGES: Final = Path(__file__).parent.parent.parent / "docs" / "images"
SIZES: Final = {"desktop": DESKTOP, "phone": PHONE}
# The pictures of the README, and the pages that they show.
README: Final = {"page-inbox": "inbox", "page-tree": "tree"}
# The offline agent repeats it.
MARKDOWN: Final = """\
The test fails because of `add`:

```python
def add(a, b):
    return a + b + 1
```

- [x] find the cause
- [ ] mend it

| file | line |
|---|---|
| add.py | 2 |"""


def chat(home: Path, name: str, prompt: str, **more: Any) -> list[dict[str, Any]]:
    """Chat with the offline agent, which may run commands, and return the events."""
    options = {"model": "offline", "allowed_tools": ["Bash"], **more}
    return events_of(home, "claudecode.chat", name=name, prompt=prompt, **options)


def converse(home: Path) -> str:
    """Have conversations with forks and approvals; return the id of a tree."""
    chat(home, "fix", "think: The test compares 5 with 4.\nrun: echo 'FAILED test_add: 5 == 4'")
    chat(home, "fix", "say: The bug is in `add`: it adds one too many.")
    chat(home, "review", MARKDOWN)
    events_of(home, "claudecode.fork", name="fix", new_name="british")
    events_of(home, "claudecode.fork", name="fix", new_name="short")
    chat(home, "fix", "say: I mended `add` and ran all 12 tests again.")
    chat(home, "british", 'say: Changed "color" to "colour" in four files.')
    chat(home, "short", "say: Removed the changelog entry again.")
    for name, prompt in (
        ("release", "run: git push --force origin main"),
        ("notes", r"write: NOTES.md # Notes\n\nThe bug is in `add`.\n"),
        ("clean", "run: rm -rf build dist"),
    ):
        started = {"model": "offline", "name": name, "prompt": prompt}
        events_of(home, "claudecode.chat_async", **started)
    events_of(home, "loopback.wait_for_approval", timeout_secs=20)
    [found] = events_of(home, "claudecode.get_tree", name="fix")
    tree: str = found["tree_id"]
    return tree


def pages(tree: str) -> dict[str, str]:
    """Return the address of each page by the name of its pictures."""
    return {
        "inbox": "inbox",
        "sessions": "sessions",
        "session": "session/review",
        "tools": "session/fix",
        "asking": "session/release",
        "new-session": "session/",
        "tree": f"tree/{tree}?session=fix",
        "search": "search?q=add",
        "plugins": "plugins",
        "namespace": "plugins/claudecode",
        "method": "plugins/bash/execute?command=ls",
    }


def settle(window: Page) -> None:
    """Wait until nothing is loaded any more and the last frame is drawn."""
    window.wait_for_load_state("networkidle")
    window.wait_for_timeout(700)


def photograph(browser: Browser, daemon: Daemon, addresses: dict[str, str], folder: Path) -> None:
    """Write all pictures."""
    for scheme in ("light", "dark"):
        for size, viewport in SIZES.items():
            windows = Windows(browser)
            window = windows.open(daemon, viewport=viewport, color_scheme=scheme)
            for name, path in addresses.items():
                window.evaluate("path => { location.hash = `#/${path}`; }", path)
                settle(window)
                window.screenshot(path=folder / f"{name}-{size}-{scheme}.png")
            if problems := windows.end_test():
                raise SystemExit("\n".join(problems))


def main() -> None:
    """Write the pictures into the folder of the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as directory,
        Daemon(Path(directory) / "home", "--mcp-port", "0") as daemon,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        tree = converse(Path(daemon.paths.socket).parent)
        photograph(browser, daemon, pages(tree), folder)
        browser.close()
    if "--readme" in sys.argv:
        for image, page in README.items():
            (IMAGES / f"{image}.png").write_bytes(
                (folder / f"{page}-desktop-light.png").read_bytes()
            )


if __name__ == "__main__":
    main()
