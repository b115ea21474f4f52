"""Windows of a real browser that show the page of a daemon, and the problems that they report."""

import shutil
import socket
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from hubd.wire import client as wire_client
from tests.support import PATIENCE_SECONDS, Daemon

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",  # which root can't have
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # All windows share a process.
    "--disable-site-isolation-trials",
    "--process-per-site",
    "--renderer-process-limit=1",
]
PHONE: ViewportSize = {"width": 390, "height": 844}
DESKTOP: ViewportSize = {"width": 1200, "height": 800}
# Reports violations of the page's policy.
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
"""
# Chromium writes this when a WebSocket can't connect, such as after a test has killed the daemon.
LOST = "WebSocket connection to"


def chromium() -> str:
    """Return the path of the browser; skip the test if there is none."""
    for name in PROGRAMS:
        if path := shutil.which(name):
            return path
    pytest.skip("NOT TESTED: chromium is not installed, no browser opened the web page")


def free_port() -> int:
    """Return a port that nothing uses at the moment."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def address(daemon: Daemon) -> str:
    """Return a new address of the page, with a code that works once."""
    items = wire_client.call(daemon.paths.socket, "_page", {}, timeout_seconds=PATIENCE_SECONDS)
    url: str = next(item["content"]["url"] for item in items if item["type"] == "data")
    return url


class Windows:
    """Opens windows for the tests of a file.

    A window that was signed in is used again by a later test with the same options, because a new
    one takes a second of processor time. It keeps its key and nothing else.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        # Windows in use, each with the key under which it can be used again; None for a blank one.
        self._used: list[tuple[Page, str | None]] = []
        # Signed-in windows that are not in use, by daemon and options.
        self._free: dict[str, list[Page]] = {}
        # Errors in the console, exceptions, forbidden actions and requests to other servers.
        self.problems: list[str] = []
        # Whether the test stops a daemon, so that windows can't connect for a while.
        self.may_lose_connections = False

    def open(self, daemon: Daemon, path: str = "", **options: Any) -> Page:
        """Return a window that is signed in and shows a page such as `inbox`.

        Args:
            daemon: The daemon.
            path: The page; the inbox by default.
            options: Options of Playwright's context, such as `viewport`.
        """
        key = f"{daemon.record['mcp_url']} {options}"
        free = self._free.setdefault(key, [])
        if free:
            page = free.pop()
            page.goto(daemon.record["mcp_url"].removesuffix("mcp"))
        else:
            page = self._new(options)
            page.goto(address(daemon))
        self._used.append((page, key))
        page.wait_for_selector("#connection[data-state=open]", state="attached")
        if path:
            page.evaluate("path => { location.hash = `#/${path}`; }", path)
        return page

    def blank(self, **options: Any) -> Page:
        """Return an empty window with a separate storage."""
        page = self._new(options)
        self._used.append((page, None))
        return page

    def _new(self, options: dict[str, Any]) -> Page:
        context = self._browser.new_context(**{"viewport": DESKTOP, **options})
        context.set_default_timeout(PATIENCE_SECONDS * 1000)
        context.add_init_script(REPORT_VIOLATIONS)
        page = context.new_page()
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        page.on("request", lambda request: self._note_request(request.url))
        return page

    def end_test(self) -> list[str]:
        """Empty the windows of a test or close them; return the problems that they reported."""
        for page, key in self._used:
            if key is None or page.is_closed() or len(page.context.pages) > 1:
                page.context.close()
            else:
                page.goto("about:blank")
                self._free[key].append(page)
        self._used.clear()
        self.may_lose_connections = False
        problems, self.problems = self.problems, []
        return problems

    def _note(self, kind: str, text: str) -> None:
        is_lost = text.startswith(LOST) and self.may_lose_connections
        if kind == "error" and not is_lost:
            self.problems.append(f"console: {text}")

    def _note_request(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "data:", "blob:", "about:")):
            self.problems.append(f"request: {url}")
