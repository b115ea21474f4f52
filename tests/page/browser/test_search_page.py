"""Search in a real browser: filters in the address, marked words, and the keyboard."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from hubd.wire import client as wire_client
from tests.page.browser.windows import PHONE, Windows
from tests.support import PATIENCE_SECONDS, Daemon

expect.set_options(timeout=PATIENCE_SECONDS * 1000)

# Letters outside of the basic plane come first, because places are counted in characters.
QUESTION = "🎉🎉 Where is the zebra? <img src=x onerror=window.broken=1> \u202eexe"


def call(daemon: Daemon, method: str, **params: object) -> None:
    """Call a method, and fail if it fails."""
    items = wire_client.call(daemon.paths.socket, method, params, timeout_seconds=PATIENCE_SECONDS)
    assert [item for item in items if item["type"] == "error"] == []


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with texts of several kinds."""
    with Daemon(tmp_path_factory.mktemp("home"), "--mcp-port", "0") as running:
        call(running, "cone.create", name="keeper", model_id="offline")
        call(running, "cone.chat", identifier="keeper", prompt=QUESTION)
        call(running, "bash.execute", command="echo zebra in the output")
        yield running


def hits(window: Page, number: int) -> None:
    """Wait for this many hits."""
    expect(window.locator(".hits li")).to_have_count(number)


def test_hits_have_marked_words_and_filters_stay_in_the_address(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon, "search?q=zebra")
    hits(window, 3)
    expect(window.locator("mark").first).to_have_text("zebra")
    assert set(window.locator("mark").all_inner_texts()) == {"zebra"}
    window.click("summary:has-text('Filters')")
    window.get_by_label("role").fill("user")
    hits(window, 1)
    assert "role=user" in window.url
    window.get_by_label("kind").select_option("output")
    hits(window, 0)
    expect(window.get_by_role("status").filter(has_text="No text")).to_be_visible()
    window.get_by_label("role").fill("")
    hits(window, 1)
    window.reload()
    hits(window, 1)
    expect(window.locator("[data-field=kind] option:checked")).to_have_text("output")
    window.get_by_label("kind").select_option("")
    window.get_by_label("since").fill("not a time")
    expect(window.get_by_role("alert").filter(has_text="since")).to_be_visible()


def test_search_works_by_keyboard(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins")
    expect(window.locator(".namespace").first).to_be_visible()
    window.locator("h1").click()
    window.keyboard.press("/")
    expect(window.get_by_role("searchbox")).to_be_focused()
    window.keyboard.type('"is the zebra"')
    hits(window, 2)
    window.keyboard.press("ArrowDown")
    window.keyboard.press("ArrowDown")
    expect(window.locator("a.hit").nth(1)).to_be_focused()
    # The slash keeps the words of the search.
    window.keyboard.press("/")
    expect(window.get_by_role("searchbox")).to_have_value('"is the zebra"')
    window.keyboard.press("ArrowDown")
    expect(window.locator("a.hit").first).to_be_focused()
    window.keyboard.press("Enter")
    expect(window.locator("h1")).to_have_text("Handle")
    expect(window.locator("main")).to_contain_text("Where is the zebra?")
    window.go_back()
    hits(window, 2)


def test_texts_never_become_part_of_the_page_and_fit_a_phone(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon, "search?q=zebra&role=user", viewport=PHONE)
    hits(window, 1)
    expect(window.locator("a.hit")).to_contain_text("<img src=x")
    expect(window.locator("a.hit")).to_contain_text("⟨U+202E⟩")
    assert window.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.locator("a.hit").click()
    expect(window.locator("article")).to_contain_text("<img src=x")
    assert window.evaluate("window.broken") is None
    assert window.locator("main img").count() == 0
