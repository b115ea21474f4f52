"""Getting into the page: one-time codes, keys, and what other windows can do."""

from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.page.browser.windows import Windows, address
from tests.support import Daemon


def test_a_code_signs_in_once_and_leaves_no_trace(daemon: Daemon, windows: Windows) -> None:
    url = address(daemon)
    window = windows.blank()
    window.goto(url)
    # The page is shown before it has its key.
    window.wait_for_selector("#connection[data-state=open]", state="attached")
    window.wait_for_selector("h1:has-text('Inbox')")
    assert "code" not in window.url
    window.go_back()
    assert "code" not in window.url
    window.goto(url.partition("#")[0])
    window.wait_for_selector("h1:has-text('Inbox')")

    other = windows.blank()
    other.goto(url)
    other.wait_for_selector("h1:has-text('Signed out')")

    # The tab that is signed in may find the used address among the visited pages.
    window.goto("about:blank")
    window.goto(url)
    window.wait_for_selector("#connection[data-state=open]", state="attached")
    window.wait_for_selector("h1:has-text('Inbox')")
    assert "code" not in window.url


def test_a_tab_without_a_key_is_told_how_to_sign_in(daemon: Daemon, windows: Windows) -> None:
    window = windows.blank()
    window.goto(address(daemon).partition("#")[0])
    window.wait_for_selector("h1:has-text('Signed out')")
    assert "hubd open" in window.inner_text("main")


def test_a_signed_out_tab_is_signed_in_by_a_new_address(daemon: Daemon, windows: Windows) -> None:
    window = windows.blank()
    window.goto(address(daemon).partition("#")[0])
    window.wait_for_selector("h1:has-text('Signed out')")
    # Only the fragment changes, so the browser does not load the document again.
    window.evaluate("url => { location.href = url; }", address(daemon))
    window.wait_for_selector("h1:has-text('Inbox')")
    assert "code" not in window.url
    window.evaluate("location.hash = '#/sessions'")
    # A tab that is signed in does not need the code, and a wrong one does not sign it out.
    window.evaluate("location.hash = '#code=wrong'")
    window.wait_for_selector("h1:has-text('Inbox')")
    assert "code" not in window.url
    assert window.get_attribute("#connection", "data-state") == "open"


def test_an_address_keeps_the_question_marks_of_its_values(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon, "plugins/echo/once?message=a?b?")
    expect(window.get_by_label("message")).to_have_value("a?b?")


def test_a_key_of_another_daemon_is_refused(daemon: Daemon, windows: Windows) -> None:
    window = windows.blank()
    window.goto(address(daemon).partition("#")[0])
    window.evaluate("sessionStorage.setItem('hubd.key', 'key.of.another')")
    window.reload()
    window.wait_for_selector("h1:has-text('Signed out')")
    assert window.evaluate("sessionStorage.getItem('hubd.key')") is None


def test_the_page_finds_a_restarted_daemon_by_itself(restartable: Daemon, windows: Windows) -> None:
    window = windows.open(restartable)
    window.wait_for_selector("h1:has-text('Inbox')")
    windows.may_lose_connections = True
    restartable.kill()
    window.wait_for_selector("#connection[data-state=lost]")
    restartable.start()
    window.wait_for_selector("#connection[data-state=open]", state="attached")
    window.evaluate("location.hash = '#/sessions'")
    window.wait_for_selector("h1:has-text('Sessions')")


def test_a_page_that_was_chosen_without_a_hub_is_shown_with_it(
    restartable: Daemon, windows: Windows
) -> None:
    window = windows.open(restartable)
    window.wait_for_selector("h1:has-text('Inbox')")
    windows.may_lose_connections = True
    restartable.kill()
    window.wait_for_selector("#connection[data-state=lost]")
    window.evaluate("location.hash = '#/plugins'")
    window.get_by_text("This page is loaded when the hub answers").wait_for()
    # The browser reports each file that it can't load.
    windows.problems = [each for each in windows.problems if "ERR_CONNECTION" not in each]
    restartable.start()
    window.get_by_role("link", name="claudecode").wait_for()


def test_a_hub_without_authentication_needs_no_code(tmp_path: Path, windows: Windows) -> None:
    # The window outlives this daemon.
    windows.may_lose_connections = True
    with Daemon(tmp_path / "home", "--mcp-port", "0", "--no-auth") as open_to_all:
        window = windows.blank()
        window.goto(address(open_to_all).partition("#")[0])
        window.wait_for_selector("h1:has-text('Inbox')")
        window.wait_for_selector("#connection[data-state=open]", state="attached")


def test_the_document_names_all_modules_of_the_first_page(daemon: Daemon, windows: Windows) -> None:
    window = windows.blank()
    requested: set[str] = set()
    window.on("request", lambda request: requested.add(urlsplit(request.url).path))
    window.goto(address(daemon))
    window.wait_for_selector("h1:has-text('Inbox')")
    names = "[...document.querySelectorAll('[rel=modulepreload], script')]"
    listed = window.evaluate(f"{names}.map((each) => each.getAttribute('href') ?? each.src)")
    listed_paths = {urlsplit(address).path for address in listed}
    assert {path for path in requested if path.endswith(".js")} == listed_paths
