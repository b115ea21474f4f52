"""Fixtures for tests of the page in a real browser, with the blocking API of Playwright."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.page.browser.terminal import Terminal
from tests.page.browser.windows import ARGUMENTS, Windows, chromium, free_port
from tests.support import Daemon


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, shared by the tests of a file."""
    # For each file, because an event loop of Playwright runs in this thread until its end, and
    # tests of other files need another one.
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with the built-in plugins, shared by the tests of a file."""
    with Daemon(tmp_path_factory.mktemp("home"), "--mcp-port", "0") as running:
        yield running


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon of one test, which has the same port after a restart."""
    with Daemon(tmp_path / "home", "--mcp-port", str(free_port())) as running:
        yield running


@pytest.fixture(scope="module")
def all_windows(browser: Browser) -> Windows:
    """The windows of all tests of a file."""
    return Windows(browser)


@pytest.fixture
def windows(all_windows: Windows) -> Iterator[Windows]:
    """Opens windows of the page. At the end none of them may have reported a problem."""
    yield all_windows
    assert all_windows.end_test() == []


@pytest.fixture
def terminal(daemon: Daemon, tmp_path: Path) -> Iterator[Terminal]:
    """A person at a terminal. At the end there are no sessions and no rules."""
    person = Terminal(daemon, tmp_path)
    yield person
    person.delete_sessions()
    for rule in person.one("loopback.rules_list")["rules"]:
        person.one("loopback.rules_remove", rule_id=rule["id"])
