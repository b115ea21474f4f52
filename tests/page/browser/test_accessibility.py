"""Every page works with a keyboard, a screen reader, a phone and weak eyes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.browser.terminal import Terminal
from tests.page.browser.windows import DESKTOP, Windows
from tests.support import Daemon, few

AUDIT = (Path(__file__).parent / "audit.js").read_text()
COUNT_STOPS = """() => [...document.querySelectorAll("*")].filter(
  (element) => element.tabIndex >= 0 && !element.disabled && element.checkVisibility()).length"""
# Roles that a screen reader announces by their names.
NAMED = {
    *("button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "image", "img"),
    *("navigation", "region", "dialog", "listbox", "feed", "article", "log", "DisclosureTriangle"),
}
PAGES = {
    "inbox": "article.approval",
    "sessions": ".sessions tr .name",
    "session/talk": ".chat-end",
    "session/asks": ".approval",
    "session/": ".new-session",
    "tree/?session=talk": ".turn",
    "search?q=words": ".hit",
    "plugins": ".namespace",
    "plugins/claudecode": ".methods",
    "plugins/bash/execute?command=ls": ".schema-form",
}
SCREENS: list[dict[str, Any]] = [
    # The narrowest phones, and pages that are enlarged to 400 percent on a desktop.
    {"viewport": {"width": 320, "height": 640}, "color_scheme": "light"},
    {"viewport": {"width": 800, "height": 800}, "color_scheme": "dark"},
]


@pytest.fixture(scope="module")
def terminal(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A person with a finished chat and one that waits for an approval."""
    person = Terminal(daemon, tmp_path_factory.mktemp("person"))
    person.chat("talk", "say: ## Some words\n\n- [x] `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    person.begin("asks", "run: echo \x1b[35mmagenta", "say: Ready.")
    yield person
    person.delete_sessions()


def unnamed(window: Page) -> list[str]:
    """Return the roles of elements without a name in the accessibility tree."""
    session = window.context.new_cdp_session(window)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [
        node["role"]["value"]
        for node in nodes
        if not node["ignored"]
        and node["role"]["value"] in NAMED
        and not node.get("name", {}).get("value", "").strip()
    ]


def show(window: Page, path: str) -> None:
    """Show a page and wait for its main part."""
    window.evaluate("path => { location.hash = `#/${path}`; }", path)
    name = path.split("/")[0].split("?")[0]
    window.wait_for_selector(f"main.page-{name} {PAGES[path]}")


@pytest.mark.parametrize("screen", few(SCREENS, 1), ids=["phone, light", "tablet, dark"])
def test_every_page_can_be_read_named_and_touched(
    daemon: Daemon, windows: Windows, terminal: Terminal, screen: dict[str, Any]
) -> None:
    window = windows.open(daemon, **screen)
    problems = {}
    for path in PAGES:
        show(window, path)
        # The bar has room for many approvals.
        window.locator(".badge").evaluate("badge => { badge.textContent = '100'; }")
        # A page puts the focus into itself, so that Tab and a screen reader continue there.
        inside = window.evaluate("document.querySelector('main').contains(document.activeElement)")
        focus = [] if inside else ["the focus is outside of the page"]
        problems[path] = [*window.evaluate(AUDIT), *unnamed(window), *focus]
    assert {path: entries for path, entries in problems.items() if entries} == {}


def test_tab_reaches_the_whole_page_and_leaves_it_again(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon, viewport=DESKTOP)
    for path in PAGES:
        show(window, path)
        stops = window.evaluate(COUNT_STOPS)
        window.evaluate("document.activeElement.blur(); document.querySelector('.skip').focus()")
        for _ in range(min(stops + 2, 60)):
            window.keyboard.press("Tab")
            # The browser's own parts follow the last element, and then the first one.
            if window.evaluate("document.activeElement.matches('.skip, body')"):
                break
            shown = "getComputedStyle(document.activeElement).outlineStyle"
            assert window.evaluate(shown) != "none", path
        else:
            assert stops > 50, f"Tab does not leave {path}"


def test_the_skip_link_leads_into_the_page_that_is_shown(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins")
    window.wait_for_selector(".namespace")
    window.locator(".skip").focus()
    window.keyboard.press("Enter")
    expect(window.get_by_role("heading", name="Plugins")).to_be_focused()
    assert window.url.endswith("#/plugins")


def test_a_new_approval_does_not_take_the_focus_from_the_bar(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon, "plugins")
    window.wait_for_selector(".namespace")
    link = window.locator("#pages a", has_text="Search")
    link.focus()
    terminal.begin("another", "run: ls", "say: Ready.")
    window.locator(".badge", has_text="2").wait_for()
    expect(link).to_be_focused()
