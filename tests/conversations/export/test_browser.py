"""An exported page in a real browser: no script of its content runs, and nothing is loaded.

A page of the test opens the exported one in a frame. It also runs a script and loads an image, so
the test sees that both would have been noticed.
"""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from html import unescape
from pathlib import Path

import pytest

from tests.conversations.export.hostile_conversation import ATTACKS, HOST, converse
from tests.plugins.claudecode.chat_support import world

CONTROL = "control.example"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# The time of the page, in milliseconds, which the browser skips. Redirects and timers run in it.
VIRTUAL_TIME = 10_000
PATIENCE_SECONDS = 120
OPENER = f"""<!DOCTYPE html><title>opener</title><pre id="seen"></pre>
<iframe id="page" src="page.html" width="500" height="2000"></iframe>
<img src="http://{CONTROL}/image.png">
<script>
const ran = [];
window.ran = (what) => ran.push(String(what));
const frame = document.getElementById("page");
window.onload = () => setTimeout(() => {{
  const page = frame.contentDocument;
  const count = (selector) => page.querySelectorAll(selector).length;
  document.getElementById("seen").textContent = JSON.stringify({{
    ran,
    address: String(frame.contentWindow.location.href),
    title: page.title,
    text: page.body.textContent,
    strangers: count("script, svg, iframe, object, video, base, form, link, meta[content*=url]"),
    images: count("img"),
    handlers: [...page.querySelectorAll("*")].flatMap((each) => each.getAttributeNames())
      .filter((name) => name.startsWith("on")),
    addresses: [...page.links].map((link) => link.protocol),
    opened: count("details[open]"),
    folded: count("details"),
    broken: [...page.querySelectorAll("a[href^='#']")].map((link) => link.getAttribute("href"))
      .filter((target) => !page.getElementById(target.slice(1))),
    wide: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    hidden: getComputedStyle(page.querySelector("article")).display,
    overflow: getComputedStyle(page.querySelector("article")).overflow,
  }});
}}, 1000);
</script>"""


def chromium() -> str:
    """Return the path of the browser; skip the test if there is none."""
    for name in PROGRAMS:
        if path := shutil.which(name):
            return path
    pytest.skip("NOT TESTED: chromium is not installed, no browser opened an exported page")


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[int, list[str]]]:
    """Yield the port of a proxy that refuses everything, and the requests that it was asked for."""
    requests: list[str] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            requests.append(head.partition(b"\r\n")[0].decode(errors="replace"))
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], requests


async def test_a_browser_runs_and_loads_nothing_of_a_hostile_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, environment = chromium(), dict(os.environ)
    async with world(tmp_path, monkeypatch, "offline") as here:
        await converse(here)
        parts = await here.call("claudecode.export", name="s", format="html")
    (tmp_path / "page.html").write_text("\n".join(part["text"] for part in parts))
    (tmp_path / "opener.html").write_text(OPENER)
    async with proxy() as (port, requests):
        browser = await asyncio.create_subprocess_exec(
            program,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--proxy-server=http://127.0.0.1:{port}",
            f"--virtual-time-budget={VIRTUAL_TIME}",
            "--dump-dom",
            (tmp_path / "opener.html").as_uri(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # The world has changed the variables.
            env=environment,
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                output, _ = await browser.communicate()
        finally:
            if browser.returncode is None:
                browser.kill()
                await browser.wait()
    dom = output.decode()
    report = dom.partition('<pre id="seen">')[2].partition("</pre>")[0]
    assert report, f"the browser shows another page: {dom[:500]}; requests: {requests}"
    seen = json.loads(unescape(report))

    assert any(CONTROL in request for request in requests)
    assert [request for request in requests if HOST in request] == []
    assert seen["ran"] == []
    assert seen["address"] == (tmp_path / "page.html").as_uri()
    assert seen["title"] == "s"
    assert (seen["strangers"], seen["images"], seen["handlers"]) == (0, 0, [])
    assert set(seen["addresses"]) <= {"file:", "http:", "https:"}
    # It is all there, and readable: tools and thinking are folded, and every link has a target.
    assert seen["text"].count("parent.ran('script')") >= 2
    assert all(attack.split("(")[0].split("\u202e")[0] in seen["text"] for attack in ATTACKS[-3:])
    assert (seen["opened"], seen["broken"], seen["wide"]) == (0, [], 0)
    assert seen["folded"] > len(ATTACKS)
    assert seen["hidden"] == "block"
    # Piles of accents do not cover other messages.
    assert seen["overflow"] == "clip"
