"""The page of a session: chats as they are written, older ones, prompts, hostile texts."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from hubd.wire import client as wire_client
from tests.page.browser.windows import PHONE, Windows
from tests.support import PATIENCE_SECONDS, Daemon

expect.set_options(timeout=PATIENCE_SECONDS * 1000)
FILLER = "tests.page.browser.filler_plugin:Filler"
NUMBERS = re.compile(r"n(\d+)\b")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that can fill chats with events."""
    home = tmp_path_factory.mktemp("home")
    with Daemon(home, "--mcp-port", "0", "--plugin", FILLER) as running:
        yield running


def _call(daemon: Daemon, method: str, **params: Any) -> list[dict[str, Any]]:
    """Return the events of a call over the Unix socket."""
    items = [
        *wire_client.call(
            daemon.paths.socket,
            "plexus.call",
            {"method": method, "params": params},
            timeout_seconds=PATIENCE_SECONDS,
        )
    ]
    assert [item for item in items if item["type"] == "error"] == [], items
    return [item["content"] for item in items if item["type"] == "data"]


def _chat(daemon: Daemon, name: str, *lines: str, **options: Any) -> str:
    """Start a chat of the offline agent and return the id of its stream."""
    prompt = "\n".join(lines)
    options = {"model": "offline", "name": name, "prompt": prompt, **options}
    stream_id: str = _call(daemon, "claudecode.chat_async", **options)[0]["stream_id"]
    return stream_id


def _send(window: Page, *lines: str) -> None:
    window.get_by_role("textbox", name="Prompt").fill("\n".join(lines))
    window.keyboard.press("Enter")


def test_a_new_session_streams_its_answer_into_two_windows(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon, "session/")
    window.get_by_label("Name").fill("streamed")
    window.get_by_label("Model").fill("offline")
    window.get_by_label("Prompt").fill("think: let me see\nslow: 3\nrepeat: 30 a **word**,")
    window.get_by_label("Working directory").fill("/not/a/directory")
    window.keyboard.press("Control+Enter")
    problem = window.locator(".new-session .problem")
    expect(problem).to_have_text("/not/a/directory is not a directory\nChoose another working_dir")
    assert window.locator(".note").count() == 0
    window.get_by_label("Working directory").fill("")
    window.get_by_label("Prompt").press("Control+Enter")
    # While it is written, the text is Markdown already.
    expect(window.locator(".chat-content strong").first).to_have_text("word")
    expect(window.get_by_role("button", name="Interrupt")).to_be_visible()
    other = windows.open(daemon, "session/streamed")
    for shown in (window, other):
        expect(shown.locator(".chat-end")).to_contain_text("in /")
        assert shown.locator(".chat-content strong").count() == 30
        assert shown.locator(".chat-prompt").count() == 1
        expect(shown.get_by_role("button", name="Interrupt")).to_be_hidden()
        expect(shown.locator(".session-head")).to_contain_text("complete")

    # The next prompt reaches both, too.
    _send(window, "say: again")
    expect(other.locator(".chat-prompt")).to_have_count(2)
    expect(other.get_by_text("again", exact=True)).to_be_visible()


def test_prompts_queue_up_and_are_cancelled_and_interrupted(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon, "session/queued")
    window.get_by_label("Model").fill("offline")
    window.get_by_label("Prompt").fill("hang:")
    window.get_by_role("button", name="Start").click()
    interrupt = window.get_by_role("button", name="Interrupt")
    expect(interrupt).to_be_visible()
    _send(window, "say: second")
    _send(window, "say: third")
    queue = window.get_by_label("Queued chats").get_by_role("listitem")
    expect(queue).to_have_text([re.compile("next.*second"), re.compile("number 2.*third")])
    window.get_by_label("Cancel the queued chat: say: second").click()
    expect(queue).to_have_text([re.compile("next.*third")])
    interrupt.click()
    expect(window.get_by_text("third", exact=True)).to_be_visible()
    expect(queue).to_have_count(0)
    endings = window.locator(".chat-end")
    expect(endings.filter(has_text="Cancelled")).to_have_count(2)
    expect(endings.filter(has_text="in /")).to_have_count(1)


def test_a_tool_call_is_approved_where_it_is_shown(daemon: Daemon, windows: Windows) -> None:
    _chat(daemon, "asked", "run: printf '\\033[31mred\\033[0m\\n'; seq 20", "run: exit 3")
    window = windows.open(daemon, "session/asked")
    first = window.locator(".chat-tool").filter(has_text="seq 20")
    first.get_by_role("button", name="Allow", exact=True).click()
    expect(first.locator(".ansi-red")).to_have_text("red")
    expect(first.locator(".chat-result summary")).to_have_text("… 17 more lines")
    first.locator(".chat-result summary").click()
    expect(first.locator(".chat-result .long-text")).to_contain_text("20")
    second = window.locator(".chat-tool").filter(has_text="exit 3")
    second.get_by_role("button", name="Deny").click()
    second.get_by_label("Message to the agent").fill("not now")
    window.keyboard.press("Enter")
    expect(second).to_contain_text("Denied by a person: not now")
    expect(second.locator(".chat-result")).to_be_empty()
    expect(window.locator(".chat-end")).to_be_visible()


def test_the_focus_stays_at_a_call_that_was_answered(daemon: Daemon, windows: Windows) -> None:
    _chat(daemon, "by_keys", "run: echo 1 > by_keys", "say: Ready.")
    window = windows.open(daemon, "session/by_keys")
    window.locator(".chat-tool .approval").focus()
    window.keyboard.press("y")
    expect(window.locator(".approval")).to_have_count(0)
    expect(window.locator(".chat-tool summary").first).to_be_focused()


def test_a_person_answers_in_place_of_the_agent_that_is_asked(
    daemon: Daemon, windows: Windows
) -> None:
    start = "synapse claudecode chat_async --name child --model offline --approver parent"
    _chat(
        daemon,
        "parent",
        f"run: {sys.executable} -m {start} --prompt 'run: echo from the child'",
        allowed_tools=["Bash(*-m synapse*)"],
        grants=["claudecode.chat_async"],
    )
    window = windows.open(daemon, "session/parent")
    expect(window.locator(".chat-end")).to_be_visible()
    window.evaluate("location.hash = '#/session/child'")
    window.get_by_role("button", name="Answer it here").click()
    expect(window.locator(".chat-tool .approval")).to_contain_text(
        "the agent that started the session"
    )
    window.keyboard.press("y")
    expect(window.locator(".chat-result")).to_contain_text("from the child")


def test_the_page_survives_a_killed_daemon_without_gap_or_repeat(
    restartable: Daemon, windows: Windows
) -> None:
    words = [f"say: n{number} and" for number in range(40)]
    _chat(restartable, "killed", "slow: 20", *words)
    window = windows.open(restartable, "session/killed")
    expect(window.locator(".chat-content").filter(has_text="n2 and")).to_be_visible()
    windows.may_lose_connections = True
    restartable.kill()
    expect(window.locator("#connection")).to_contain_text("does not answer")
    expect(window.get_by_role("button", name="Send")).to_be_disabled()
    expect(window.get_by_role("textbox", name="Prompt")).to_be_focused()
    window.keyboard.type("written meanwhile")
    window.keyboard.press("Enter")
    restartable.start()
    expect(window.locator(".chat-end")).to_contain_text("Interrupted")
    numbers = [int(n) for n in NUMBERS.findall(_answers(window))]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= 3

    # The text is still there, and was not sent.
    prompt = window.get_by_role("textbox", name="Prompt")
    expect(prompt).to_have_value("written meanwhile")
    expect(prompt).to_be_focused()
    assert window.locator(".chat-prompt").count() == 1
    _send(window, "say: it works again")
    expect(window.get_by_text("it works again", exact=True)).to_be_visible()
    assert [int(n) for n in NUMBERS.findall(_answers(window))] == numbers
    fresh = windows.open(restartable, "session/killed")
    expect(fresh.locator(".chat-end").filter(has_text="Interrupted")).to_be_visible()
    assert [int(n) for n in NUMBERS.findall(_answers(fresh))] == numbers


def _answers(window: Page) -> str:
    return "\n".join(window.locator(".chat-content").all_inner_texts())


HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script>",
    "[click](javascript:alert(3)) [data](data:text/html,<script>alert(4)</script>)",
    "![pixel](https://tracker.example/pixel.png) <https://e.example/'onclick='alert(5)>",
    "abc\u202edcba \u200b\u2066hidden\u2069 &#x202e;",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred",
    "`<b>` **<i>** [<u>](https://<s>.example)",
)


def test_hostile_texts_stay_text(daemon: Daemon, windows: Windows, tmp_path: Path) -> None:
    """The fixture reports each violation of the policy and each request to another server."""
    name = "<img src=x onerror=alert(0)>"
    (tmp_path / "hostile.txt").write_text("\n".join(HOSTILE) + "x" * 1_000_000)
    lines = [f"say: {text}" for text in HOSTILE] + [f"think: {text}" for text in HOSTILE]
    _chat(daemon, name, *lines, f"read: {tmp_path}/hostile.txt", allowed_tools=["Read"])
    window = windows.open(daemon)
    window.evaluate("name => { location.hash = `#/session/${encodeURIComponent(name)}` }", name)
    expect(window.locator(".chat-end")).to_be_visible()
    expect(window.locator("h1")).to_have_text(name)
    elements = "main :is(img, script, iframe, b, i, u, s, style)"
    assert window.locator(elements).count() == 0
    links = window.locator(".chat a").evaluate_all("all => all.map(({ rel, href }) => [rel, href])")
    assert links
    assert {rel for rel, _ in links} == {"noreferrer noopener"}
    assert all(href.startswith("https://") for _, href in links)
    window.evaluate("document.querySelectorAll('details').forEach((all) => { all.open = true })")
    expect(window.locator(".long-text div").first).to_be_attached()
    text = window.inner_text(".chat")
    assert window.locator(elements).count() == 0
    assert "⟨U+202E⟩" in text
    assert not set("\u202e\u200b\u2066\x1b") & set(text)


def test_a_chat_of_100_000_events_draws_few_elements(daemon: Daemon, windows: Windows) -> None:
    stream = _chat(daemon, "long", "hang:")
    _call(daemon, "filler.fill", stream_id=stream, count=100_000)
    window = windows.open(daemon, "session/long")
    # Only the newest page is loaded, and its newest event is shown.
    expect(window.locator(".chat")).to_contain_text("100000")
    _call(daemon, "filler.fill", stream_id=stream, count=3, text="the newest words")
    expect(window.locator(".chat").get_by_text("the newest words")).to_be_visible()
    assert _elements(window) < 600
    window.locator(".chat").focus()
    for _ in range(5):
        window.keyboard.press("Home")
        window.keyboard.press("PageUp")
    expect(window.get_by_role("button", name="Newest")).to_be_visible()
    # A reader of older events is left there when new ones come.
    _call(daemon, "filler.fill", stream_id=stream, count=3, text="even newer words")
    expect(window.locator(".chat").get_by_text("even newer words")).to_have_count(0)
    window.keyboard.press("End")
    expect(window.locator(".chat").get_by_text("even newer words")).to_be_visible()
    assert _elements(window) < 600


def _elements(window: Page) -> int:
    count: int = window.evaluate("document.querySelectorAll('*').length")
    return count


def test_a_fork_shows_the_turns_before_it(daemon: Daemon, windows: Windows) -> None:
    _follow(daemon, _chat(daemon, "origin", "say: from the origin"))
    _call(daemon, "claudecode.fork", name="origin", new_name="branch")
    window = windows.open(daemon, "session/branch")
    # In a session without chats, the turns are open.
    expect(window.get_by_text("from the origin", exact=True)).to_be_visible()
    _send(window, "say: from the branch")
    expect(window.get_by_text("from the branch", exact=True)).to_be_visible()
    window.reload()
    expect(window.get_by_text("from the branch", exact=True)).to_be_visible()
    expect(window.get_by_text("from the origin", exact=True)).to_have_count(0)
    window.get_by_role("button", name="Earlier turns").click()
    expect(window.get_by_text("from the origin", exact=True)).to_be_visible()


def _follow(daemon: Daemon, stream: str) -> None:
    _call(daemon, "claudecode.follow", stream_id=stream)


def test_a_session_fits_a_phone(daemon: Daemon, windows: Windows) -> None:
    wide = "| " + " | ".join("column" for _ in range(12)) + " |"
    code = "x" * 500
    _follow(daemon, _chat(daemon, "phone", f"say: {wide}", f"say: `{code}`", "big: 5000"))
    window = windows.open(daemon, "session/phone", viewport=PHONE, has_touch=True)
    expect(window.locator(".chat-end")).to_be_visible()
    width = window.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
