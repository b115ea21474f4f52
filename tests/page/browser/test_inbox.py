"""The inbox: approvals are shown, answered by keyboard, and disappear when answered elsewhere."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.fakes.messages_api import FakeMessagesApi
from tests.page.browser.terminal import Terminal
from tests.page.browser.windows import PHONE, Windows
from tests.support import Daemon, McpDaemon

HOSTILE = "<img src=x onerror='window.injected=1'><script>window.injected=1</script>"
# Shows the following text from right to left.
OVERRIDE = "\u202e"

# Compares random texts, and returns those that the difference does not rebuild.
COMPARE_RANDOM_TEXTS = """async () => {
  const { lineDiff, linesOf } = await import("/page/diff.js");
  let seed = 7;
  const random = (limit) => (seed = (seed * 48271) % 2147483647) % limit;
  const text = () => {
    const lines = Array.from({ length: random(12) }, () => "abc"[random(3)]);
    return lines.join("\\n") + (lines.length && random(2) ? "\\n" : "");
  };
  // The text of the lines without those of a kind. The line before a note has no newline.
  const rebuilt = (lines, kind, isEnded) => {
    const isNote = (line) => line?.kind === "note";
    const parts = lines.map((line, index) => ({ ...line, isEnded: !isNote(lines[index + 1]) }));
    const kept = parts.filter((line) => line.kind !== kind && !isNote(line));
    const ends = kept.map((line, index) => line.isEnded && (index < kept.length - 1 || isEnded));
    return kept.map((line, index) => line.text + (ends[index] ? "\\n" : "")).join("");
  };
  const failures = [];
  for (let round = 0; round < 3000; round += 1) {
    const [before, after] = [text(), text()];
    const lines = lineDiff(before, after, 99);
    // Without a note, the ends of both texts are the same, except that of an empty one.
    const isNoted = lines.some(({ kind }) => kind === "note");
    const isEnded = isNoted || (before || after).endsWith("\\n");
    const isFolded = lines.length === 1 && lines[0].kind === "skip";
    const isRight = isFolded
      ? before === after && lines[0].count === linesOf(before).length
      : rebuilt(lines, "add", isEnded) === before && rebuilt(lines, "remove", isEnded) === after;
    if (!isRight) failures.push([before, after, lines]);
  }
  const line = (mark) => (_, number) => `${number}${number % 2 ? mark : ""}`;
  const many = (mark) => Array.from({ length: 20000 }, line(mark)).join("\\n");
  const added = lineDiff(many("a"), many("b")).filter(({ kind }) => kind === "add");
  if (added.length < 10000) failures.push("large");
  return failures;
}"""

# Returns the classes of the lines that are shown for a call that writes the file `a`.
SHOW_CALL = """async (question) => {
  const { callView } = await import("/page/approval/tool_call.js");
  const parts = callView({ file_path: "a", content: "x" }, question).filter(Boolean);
  return parts.flatMap((part) => [...part.querySelectorAll("div")].map((line) => line.className));
}"""

# Returns the lines of the difference of two texts.
SHOW_DIFFERENCE = """async ([before, after]) => {
  const { diffView } = await import("/page/diff_view.js");
  return [...diffView(before, after).children].map((line) => line.textContent);
}"""

# Records the notifications that the browser shows, as if the page were in the background.
RECORD_NOTIFICATIONS = """() => {
  Object.defineProperty(document, "hidden", { get: () => true });
  window.shown = [];
  window.Notification = class extends Notification {
    constructor(title, options) {
      super(title, options);
      window.shown.push([title, options.body]);
    }
  };
}"""


# The replies of a hub in an order that a real one gives rarely: the second read of the approvals
# ends before the first one, and then the approval is announced, twice.
REORDER_REPLIES = """async (approval) => {
  const { watchApprovals } = await import("/page/approvals.js");
  const hub = new EventTarget();
  const reads = [];
  hub.one = () => new Promise((resolve) => reads.push(resolve));
  hub.respond = async () => {};
  hub.stream = (method, params, handlers) => (hub.announce = handlers.event);
  const approvals = watchApprovals(hub);
  const changes = [];
  approvals.addEventListener("change", () => changes.push(approvals.pending.length));
  hub.dispatchEvent(new Event("open"));
  hub.dispatchEvent(new Event("open"));
  reads[1]({ approvals: [approval] });
  reads[0]({ approvals: [] });
  await new Promise((resolve) => setTimeout(resolve));
  hub.announce({ type: "asked", approval });
  hub.announce({ type: "asked", approval });
  return [changes, window.shown.length];
}"""


def card(window: Page, text: str) -> Locator:
    return window.locator(".approval").filter(has_text=text)


def focus(window: Page, text: str) -> Locator:
    """Wait for the card with a text, and move to it with the keyboard."""
    wanted = card(window, text)
    wanted.wait_for()
    for key in ["k"] * 5 + ["j"] * 10:
        if wanted.evaluate("card => card === document.activeElement"):
            # Its keys work a moment after the focus moved there by itself.
            expect(wanted).not_to_have_attribute("data-arriving", "")
            return wanted
        window.keyboard.press(key)
    raise AssertionError(f"the keyboard does not reach {text}")


def results(terminal: Terminal, name: str) -> list[dict[str, Any]]:
    """Return the results of the tools of a session's newest chat."""
    return [event for event in terminal.wait_for(name) if event["type"] == "tool_result"]


def test_approvals_are_allowed_denied_and_edited_by_keyboard(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon)
    window.get_by_text("Nothing waits for you").wait_for()
    terminal.begin("allowed", "run: echo 1 > allowed", "say: Ready.")
    terminal.begin("denied", "run: echo 1 > denied", "say: Ready.")
    terminal.begin("edited", "run: echo 1 > edited", "say: Ready.")
    card(window, "echo 1 > edited").wait_for()
    expect(window).to_have_title("(3) Inbox · hubd")

    focus(window, "echo 1 > allowed").press("y")
    terminal.wait_for("allowed")
    assert (terminal.cwd / "allowed").exists()
    expect(card(window, "echo 1 > allowed")).to_have_count(0)

    focus(window, "echo 1 > denied").press("n")
    window.keyboard.type("Use the other file.")
    window.keyboard.press("Enter")
    [result] = results(terminal, "denied")
    assert "Use the other file." in str(result)
    assert not (terminal.cwd / "denied").exists()

    focus(window, "echo 1 > edited").press("e")
    window.keyboard.press("Control+A")
    window.keyboard.type("echo 2 > changed")
    window.keyboard.press("Control+Enter")
    terminal.wait_for("edited")
    assert (terminal.cwd / "changed").read_text() == "2\n"

    window.get_by_text("Answered", exact=True).click()
    past = window.locator(".past tbody")
    past.get_by_text("Allowed by a person with another input").wait_for()
    past.get_by_text("Denied by a person: Use the other file.").wait_for()


def test_a_hidden_page_notifies_once_of_each_new_approval(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon, permissions=["notifications"])
    window.get_by_text("Nothing waits for you").wait_for()
    window.evaluate(RECORD_NOTIFICATIONS)
    terminal.begin("first", "run: echo 1 > first")
    card(window, "echo 1 > first").wait_for()
    terminal.begin("second", "run: echo 1 > \u202esecond")
    card(window, "second").first.wait_for()
    assert window.evaluate("window.shown") == [
        ["Bash waits for an approval", "first: echo 1 > first"],
        ["Bash waits for an approval", "second: echo 1 > ‹U+202E›second"],
    ]


def test_each_approval_is_notified_once_in_any_order_of_replies(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon, permissions=["notifications"])
    window.evaluate(RECORD_NOTIFICATIONS)
    approval = {"id": "a", "tool_name": "Bash", "summary": "ls", "created_at": 0}
    assert window.evaluate(REORDER_REPLIES, approval) == [[1], 1]


def test_the_first_answer_of_two_windows_wins(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    first, second = windows.open(daemon), windows.open(daemon)
    terminal.begin("one", "run: echo 1 >> ran", "say: Ready.")
    terminal.begin("two", "run: echo 2 >> ran", "say: Ready.")
    focus(second, "echo 1 >> ran")
    focus(first, "echo 1 >> ran").press("y")
    expect(card(second, "echo 1 >> ran")).to_have_count(0)
    second.locator(".note", has_text="Allowed by a person elsewhere").wait_for()
    # The focus is at the card that is left, and its keys work.
    expect(card(second, "echo 2 >> ran")).to_be_focused()
    focus(second, "echo 2 >> ran").press("n")
    second.keyboard.type("Not now.")
    second.keyboard.press("Enter")
    terminal.wait_for("two")
    assert (terminal.cwd / "ran").read_text().split() == ["1"]
    expect(first.locator(".approval")).to_have_count(0)
    denied = first.locator(".note", has_text="Denied by a person elsewhere: Not now.")
    denied.click()
    expect(denied).to_have_count(0)

    terminal.begin("three", "run: echo 3 >> ran", "say: Ready.")
    card(first, "echo 3 >> ran").wait_for()
    terminal.one("claudecode.cancel", name="three")
    first.locator(".note", has_text="Withdrawn").wait_for()
    first.get_by_text("Nothing waits for you").wait_for()


def test_a_pattern_is_tried_stored_and_allows_the_next_call(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon)
    terminal.begin("first", "run: wc -l README && touch done", "say: Ready.")
    focus(window, "wc -l README").press("a")
    window.get_by_label("Every call that matches a pattern").check()
    patterns = window.get_by_label("Patterns, one a line")
    expect(patterns).to_have_value("wc *\ntouch *")
    window.get_by_text("These patterns allow this call").wait_for()
    patterns.fill("wc *")
    window.get_by_text("These patterns don't allow this call").wait_for()
    window.get_by_text("No allow rule matches `touch done`").wait_for()
    window.get_by_role("button", name="Allow always").click()
    assert terminal.one("loopback.rules_list")["rules"] == []
    patterns.fill("wc *\ntouch *")
    window.get_by_text("These patterns allow this call").wait_for()
    window.get_by_role("button", name="Allow always").click()
    terminal.wait_for("first")
    rules = terminal.one("loopback.rules_list")["rules"]
    assert {rule["pattern"] for rule in rules} == {"wc *", "touch *"}
    assert {rule["scope"] for rule in rules} == {f"dir:{terminal.cwd}"}
    terminal.chat("second", "run: touch other", "say: Ready.")
    assert (terminal.cwd / "other").exists()

    # A command that can't be split fits no pattern.
    terminal.begin("third", "run: touch more > list", "say: Ready.")
    focus(window, "touch more").press("a")
    window.wait_for_selector(".approvals:not([data-moving])")
    window.get_by_label("Every call that matches a pattern").check()
    window.get_by_text("No pattern fits this call").wait_for()
    window.get_by_text("it has a redirection").wait_for()


def test_a_card_explains_why_an_answer_is_refused(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon)
    terminal.begin("s", "run: touch forbidden", "say: Ready.")
    shown = focus(window, "touch forbidden")
    terminal.one("loopback.rules_add", effect="deny", tool="Bash", pattern="touch *")
    shown.press("y")
    shown.get_by_role("alert").get_by_text("denies this call").wait_for()
    expect(shown).to_have_count(1)


def test_questions_of_an_agent_are_answered_with_options_or_own_words(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon)
    terminal.begin("asker", "ask: Which colour? | Red | Blue", "say: Ready.")
    shown = focus(window, "Which colour?")
    shown.press("y")
    shown.get_by_text("Choose or write an answer").wait_for()
    shown.get_by_label("Blue").check()
    shown.get_by_role("button", name="Answer", exact=True).click()
    [result] = results(terminal, "asker")
    assert "Blue" in str(result)


def test_a_file_is_compared_with_its_present_content(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    (terminal.cwd / "notes").write_text("one\ntwo\nthree\n")
    window = windows.open(daemon)
    terminal.begin("writer", r"write: notes one\n2\nthree\n", "say: Ready.")
    shown = card(window, "notes")
    expect(shown.locator(".diff-remove").first).to_have_text("−removed: two")
    expect(shown.locator(".diff-add").first).to_have_text("+added: 2")
    lines = shown.locator(".diff").first.locator(".diff-same")
    expect(lines).to_have_text([" one", " three"])


def test_a_change_of_only_the_last_newline_is_shown(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    (terminal.cwd / "notes").write_text("one\ntwo\n")
    window = windows.open(daemon)
    terminal.begin("writer", r"write: notes one\ntwo", "say: Ready.")
    shown = card(window, "notes").locator(".diff").first
    expect(shown.locator(".diff-same")).to_have_text([" one"])
    expect(shown.locator(".diff-remove")).to_have_text(["−removed: two"])
    expect(shown.locator(".diff-add")).to_have_text(["+added: two"])
    expect(shown.locator(".diff-note").last).to_have_text(r" \ No newline at end of file")


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a\n", "a", ["−removed: a", "+added: a", r" \ No newline at end of text"]),
        ("a", "a\n", ["−removed: a", r" \ No newline at end of text", "+added: a"]),
        ("a", "b", ["−removed: a", "+added: b"]),
    ],
)
def test_an_edit_shows_which_text_has_no_newline_at_its_end(
    daemon: Daemon, windows: Windows, before: str, after: str, lines: list[str]
) -> None:
    window = windows.open(daemon)
    assert window.evaluate(SHOW_DIFFERENCE, [before, after]) == lines


def test_hostile_texts_stay_texts_at_phone_width(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon, viewport=PHONE)
    command = f"echo '{HOSTILE.replace(chr(39), '')}' {OVERRIDE}txt.exe {'long' * 200}"
    terminal.begin(HOSTILE, f"run: {command}", "say: Ready.")
    terminal.begin("writer", f"write: {HOSTILE} {HOSTILE}{OVERRIDE}", "say: Ready.")
    terminal.begin("asker", f"ask: {HOSTILE}? | {HOSTILE}{OVERRIDE} | b", "say: Ready.")
    for shown in ("⟨U+202E⟩txt.exe", "wants to write", "asks"):
        card(window, shown).wait_for()
    assert OVERRIDE not in window.inner_text("main")
    window.wait_for_selector(".approvals:not([data-moving])")
    window.get_by_role("button", name="Always allow").first.click()
    window.get_by_label("Every call that matches a pattern").check()
    window.evaluate("location.hash = '#/sessions'")
    window.locator(".sessions tr", has_text=HOSTILE).first.wait_for()
    for page in ("inbox", "sessions"):
        window.evaluate("page => { location.hash = `#/${page}`; }", page)
        window.wait_for_selector(f"main.page-{page} :text('writer')")
        assert window.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert window.evaluate("document.querySelector('main').scrollWidth") <= PHONE["width"]
        assert window.locator("main img, main script").count() == 0
    assert window.evaluate("window.injected") is None


def test_a_difference_of_any_texts_rebuilds_both(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon)
    failures = window.evaluate(COMPARE_RANDOM_TEXTS)
    assert failures == []


def test_a_name_with_line_breaks_is_not_shown_as_changes(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon)
    changes = "  @@ -1 +1 @@\n  -y\n  +x"
    true_question = f"Write wants to write (/):\n  a\n{changes}"
    assert "diff-remove" in window.evaluate(SHOW_CALL, true_question)
    imitation = f"Write wants to write in session s\n  b\n{changes}\n (/):\n  a\n  +x"
    assert window.evaluate(SHOW_CALL, imitation) == ["diff-add"]


@contextmanager
def messages_api() -> Iterator[FakeMessagesApi]:
    """Run a Messages API in a thread, because Playwright's blocking API has this one's loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    api = FakeMessagesApi()
    try:
        asyncio.run_coroutine_threadsafe(api.__aenter__(), loop).result()
        yield api
        asyncio.run_coroutine_threadsafe(api.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.claude
def test_an_approval_of_the_real_claude_is_answered(windows: Windows, tmp_path: Path) -> None:
    # The window outlives this daemon.
    windows.may_lose_connections = True
    with messages_api() as api, McpDaemon(tmp_path / "home", "--mcp-port", "0") as daemon:
        terminal = Terminal(daemon, tmp_path, api.url)
        window = windows.open(daemon)
        terminal.begin("real", "RUN_BASH[echo x >> ran] SAY[Ready.]", model="claude-fake-1")
        focus(window, "echo x >> ran").press("y")
        terminal.wait_for("real")
        assert (terminal.cwd / "ran").read_text() == "x\n"
