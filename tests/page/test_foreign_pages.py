"""Pages of other origins can do nothing with the hub, in a real browser."""

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.page.support import key_of, port_of
from tests.support import PATIENCE_SECONDS, Daemon

pytest.importorskip("playwright", reason="NOT TESTED: playwright is not installed")

from playwright.sync_api import Browser, Page, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

CONNECT = """(host) => new Promise((resolve) => {
  const socket = new WebSocket(`ws://${host}/ws`);
  socket.onopen = () => resolve("open");
  socket.onerror = () => resolve("refused");
})"""
READ = """(host) => Promise.all(["cors", "no-cors"].map((mode) =>
  fetch(`http://${host}/`, { mode }).then((answer) => answer.type, () => "refused")))"""
LOAD = """(host) => new Promise((resolve) => {
  const script = document.createElement("script");
  script.src = `http://${host}/page/index.html`;
  script.onload = () => resolve("loaded");
  script.onerror = () => resolve("refused");
  document.body.append(script);
})"""
FRAME = """(host) => new Promise((resolve) => {
  const frame = document.createElement("iframe");
  frame.onload = () => resolve();
  frame.src = `http://${host}/`;
  document.body.append(frame);
})"""
# A script in the page itself, as if text of a model became part of it.
INJECT = """() => {
  const script = document.createElement("script");
  const image = "<img src=x: onerror='window.injected = 1'>";
  const attempts = [
    () => document.body.insertAdjacentHTML("beforeend", image),
    () => (document.body.innerHTML += "<b>text</b>"),
    () => document.body.setAttribute("onclick", "window.injected = 1"),
    () => (script.textContent = "window.injected = 1"),
    () => trustedTypes.createPolicy("own", { createHTML: (text) => text }),
  ];
  return attempts.filter((attempt) => {
    try {
      attempt();
      return true;
    } catch {
      return false;
    }
  }).map(String);
}"""
# A script as a node needs no text that is parsed.
APPEND = """() => new Promise((resolve) => {
  document.addEventListener("securitypolicyviolation", (event) => resolve(event.violatedDirective));
  const script = document.createElement("script");
  script.append("window.injected = 1");
  document.body.append(script);
})"""


class _Foreign(BaseHTTPRequestHandler):
    """A site on another port of this machine."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>foreign</title><link rel=icon href='data:,'>")

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("foreign") / "home") as running:
        yield running


@pytest.fixture(scope="module")
def foreign_port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Foreign) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None:
        pytest.skip("NOT TESTED: chromium is not installed")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def window(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_on_another_port_can_do_nothing(
    daemon: Daemon, window: Page, foreign_port: int, name: str
) -> None:
    window.goto(f"http://{name}:{foreign_port}/")
    host = f"{name}:{port_of(daemon)}"
    assert window.evaluate(CONNECT, host) == "refused"
    assert window.evaluate(READ, host) == ["refused", "refused"]
    assert window.evaluate(LOAD, host) == "refused"
    window.evaluate(FRAME, host)
    assert [frame.url for frame in window.frames[1:]] == ["chrome-error://chromewebdata/"]


def test_a_page_that_opens_the_hub_in_a_window_has_no_access_to_it(
    daemon: Daemon, window: Page, foreign_port: int
) -> None:
    window.goto(f"http://127.0.0.1:{foreign_port}/")
    with window.expect_popup() as opened:
        window.evaluate(
            "(url) => { window.other = open(url); }", f"http://127.0.0.1:{port_of(daemon)}/"
        )
    opened.value.wait_for_load_state()
    assert opened.value.evaluate("window.opener") is None
    assert window.evaluate("window.other.closed") is True


def test_a_page_of_another_daemon_cannot_connect(
    daemon: Daemon, window: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Daemon(tmp_path_factory.mktemp("another") / "home") as another:
        window.goto(f"http://127.0.0.1:{port_of(another)}/")
        # The policy of that page forbids it, before the hub could refuse.
        assert window.evaluate(CONNECT, f"127.0.0.1:{port_of(daemon)}") == "refused"
        assert window.evaluate(CONNECT, f"127.0.0.1:{port_of(another)}") == "open"


def test_injected_scripts_do_not_run_in_the_page(daemon: Daemon, window: Page) -> None:
    window.goto(f"http://127.0.0.1:{port_of(daemon)}/")
    assert window.evaluate(INJECT) == []
    assert window.evaluate(APPEND).startswith(("script-src", "require-trusted-types-for"))
    assert window.evaluate("window.injected") is None


def test_storage_of_the_page_is_not_shared_with_other_ports(
    daemon: Daemon, window: Page, foreign_port: int
) -> None:
    window.goto(f"http://127.0.0.1:{port_of(daemon)}/")
    window.evaluate("(key) => sessionStorage.setItem('key', key)", key_of(daemon))
    assert window.context.cookies() == []
    window.goto(f"http://127.0.0.1:{foreign_port}/")
    assert window.evaluate("sessionStorage.length") == 0
