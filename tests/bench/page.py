"""The web page in Chromium: bytes and time until it can be used, frames and memory of chats.

`python -m tests.bench.page [EVENTS]`, by default a chat of 100,000 events. The time is compared
with that of the same document from the same server without its scripts.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.page.browser.large_trees import OPEN_FOLDS, chain
from tests.page.browser.terminal import Terminal
from tests.page.browser.windows import ARGUMENTS, DESKTOP, Windows, address, chromium
from tests.support import Daemon, events_of

EVENTS = 100_000
ROUNDS = 15
FILLER = "tests.page.browser.filler_plugin:Filler"
# A chat that streams: paragraphs of Markdown, 100 pieces of text a second.
STREAM_SECONDS = 10
STREAMED = [
    f"slow: {STREAM_SECONDS}",
    *["repeat: 25 some **words** of `code` and a [link](https://example.org),"] * 40,
]
# Measured in the middle of the chat: five seconds at 60 frames a second.
STREAM_FRAMES = 300
WATCH_FRAMES = """(count) => new Promise((resolve) => {
  const times = [];
  let isChanged = false;
  let changed = 0;
  const observer = new MutationObserver(() => (isChanged = true));
  observer.observe(document.querySelector(".chat"),
    { subtree: true, childList: true, characterData: true });
  let last = performance.now();
  function step(now) {
    times.push(now - last);
    last = now;
    if (isChanged) changed += 1;
    isChanged = false;
    if (times.length <= count) requestAnimationFrame(step);
    else resolve([times.slice(1), changed]);
  }
  requestAnimationFrame(step);
})"""
FRAMES = """([selector, pixels]) => new Promise((resolve) => {
  const scroller = document.querySelector(selector);
  const times = [];
  let last = performance.now();
  function step(now) {
    times.push(now - last);
    last = now;
    scroller.scrollTop += pixels;
    if (times.length < 120) requestAnimationFrame(step);
    else resolve(times.slice(1));
  }
  requestAnimationFrame(step);
})"""


@contextmanager
def running_daemon() -> Iterator[Daemon]:
    """Run a daemon with the plugin that fills chats."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Daemon(Path(folder) / "home", "--mcp-port", "0", "--plugin", FILLER) as daemon,
    ):
        yield daemon


def transferred(browser: Browser, daemon: Daemon) -> tuple[int, int]:
    """Return the number of requests and bytes of the bodies until the inbox can be used."""
    windows = Windows(browser)
    window = windows.blank()
    sizes: list[int] = []
    window.on("response", lambda response: sizes.append(len(response.body())))
    window.goto(address(daemon))
    usable(window)
    windows.end_test()
    return len(sizes), sum(sizes)


def usable(window: Page) -> None:
    """Wait until the inbox is drawn and the hub answers."""
    window.wait_for_selector("h1:has-text('Inbox')")
    window.wait_for_selector("#connection[data-state=open]", state="attached")


def milliseconds_to_use(browser: Browser, daemon: Daemon) -> dict[str, list[float]]:
    """Return the times of the page and of the bare document, taking turns."""
    times: dict[str, list[float]] = {"page": [], "bare": []}
    for _ in range(ROUNDS + 1):
        for name in times:
            context = browser.new_context(java_script_enabled=name == "page", viewport=DESKTOP)
            window, url = context.new_page(), address(daemon)
            began = perf_counter()
            window.goto(url)
            if name == "page":
                usable(window)
            times[name].append((perf_counter() - began) * 1000)
            context.close()
    # The first round starts processes of the browser.
    return {name: values[1:] for name, values in times.items()}


def streaming_chat(browser: Browser, daemon: Daemon) -> dict[str, float]:
    """Return figures of a window that shows a chat while its text arrives."""
    windows = Windows(browser)
    window = windows.open(daemon, "session/streaming")
    window.get_by_label("Model").fill("offline")
    window.get_by_label("Prompt").fill("\n".join(STREAMED))
    window.get_by_role("button", name="Start").click()
    window.wait_for_selector(".chat-content strong")
    frames, changed = window.evaluate(WATCH_FRAMES, STREAM_FRAMES)
    assert window.locator(".chat-end").count() == 0, (
        "the chat ended before its frames were measured"
    )
    window.wait_for_selector(".chat-end")
    windows.end_test()
    return {
        "median frame while a chat streams, ms": statistics.median(frames),
        f"slowest frame of {STREAM_FRAMES}, ms": max(frames),
        "frames in which the text changed": changed,
    }


def long_chat(browser: Browser, daemon: Daemon, count: int) -> dict[str, float]:
    """Return figures of a window that shows a chat of this many events."""
    home = Path(daemon.paths.socket).parent
    prompt = "slow: 100000"
    [started] = events_of(
        home, "claudecode.chat_async", name="long", model="offline", prompt=prompt
    )
    stream = started["stream_id"]
    events_of(home, "filler.fill", stream_id=stream, count=count)
    events_of(home, "claudecode.cancel", stream_id=stream)
    windows = Windows(browser)
    window = windows.open(daemon)
    empty = heap(window)
    began = perf_counter()
    window.evaluate("location.hash = '#/session/long'")
    window.wait_for_selector(".virtual-item")
    figures = {"milliseconds to the newest events": (perf_counter() - began) * 1000}
    frames: list[float] = window.evaluate(FRAMES, [".chat", -120])
    figures["median frame while scrolling, ms"] = statistics.median(frames)
    figures["slowest frame of 120, ms"] = max(frames)
    figures["MiB of JavaScript before"] = empty / 2**20
    figures["MiB of JavaScript with the chat"] = heap(window) / 2**20
    figures["elements"] = window.evaluate("document.querySelectorAll('*').length")
    windows.end_test()
    return figures


def long_tree(browser: Browser, daemon: Daemon) -> dict[str, float]:
    """Return figures of a window that shows all turns of a tree of 10,000 nodes."""
    windows = Windows(browser)
    with tempfile.TemporaryDirectory() as folder:
        tree_id = chain(Terminal(daemon, Path(folder)))
    window = windows.open(daemon)
    began = perf_counter()
    window.evaluate("id => { location.hash = `#/tree/${id}`; }", tree_id)
    window.wait_for_selector(".fold")
    figures = {"milliseconds to the first turns": (perf_counter() - began) * 1000}
    figures["elements at first"] = window.evaluate("document.querySelectorAll('*').length")
    window.evaluate(OPEN_FOLDS)
    window.evaluate("document.querySelector('main').scrollTop = 0")
    frames: list[float] = window.evaluate(FRAMES, ["main", 120])
    figures["median frame while scrolling, ms"] = statistics.median(frames)
    figures["slowest frame of 120, ms"] = max(frames)
    windows.end_test()
    return figures


def heap(window: Page) -> float:
    """Return the bytes of live objects."""
    session = window.context.new_cdp_session(window)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "JSHeapUsedSize"))


def main() -> None:
    """Print all figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    with running_daemon() as daemon, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        requests, size = transferred(browser, daemon)
        print(f"until the inbox can be used: {requests} requests, {size / 1024:.0f} KiB")
        times = milliseconds_to_use(browser, daemon)
        for name, values in times.items():
            low, middle, high = statistics.quantiles(values, n=4)
            print(f"{name}: {middle:.0f} ms ({low:.0f}–{high:.0f})")
        ratios = [page / bare for page, bare in zip(times["page"], times["bare"], strict=True)]
        print(f"page / bare: {statistics.median(ratios):.2f}")
        print(f"a chat that streams for {STREAM_SECONDS} s:")
        for title, value in streaming_chat(browser, daemon).items():
            print(f"  {title}: {value:,.1f}")
        print(f"a chat of {count:,} events:")
        for title, value in long_chat(browser, daemon, count).items():
            print(f"  {title}: {value:,.1f}")
        print("a tree of 10,000 turns, all shown:")
        for title, value in long_tree(browser, daemon).items():
            print(f"  {title}: {value:,.1f}")
        browser.close()


if __name__ == "__main__":
    main()
