"""The list of sessions, and the tree of a conversation: fork, move the head, compare."""

from playwright.sync_api import Page, expect

from tests.page.browser.terminal import Terminal
from tests.page.browser.windows import PHONE, Windows
from tests.support import Daemon

HOSTILE = "<img src=x onerror='window.injected=1'>\u202e"
# Adds the numbers of the folded turns to the number of those that are drawn.
COUNT_TURNS = """() => {
  const folds = [...document.querySelectorAll(".fold")];
  const folded = folds.map((fold) => Number(/(\\d+) turn/.exec(fold.textContent)[1]));
  return folded.reduce((sum, number) => sum + number, document.querySelectorAll(".turn").length);
}"""


def forked(terminal: Terminal) -> str:
    """Make a conversation with two branches, `left` and `right`, and return its tree's id."""
    terminal.chat("left", "say: Common answer.")
    terminal.one("claudecode.fork", name="left", new_name="right")
    terminal.chat("left", "say: First line.", "say: Left line.")
    terminal.chat("right", "say: First line.", "say: Right line.")
    return str(terminal.head("left")["tree_id"])


def names(window: Page) -> list[str]:
    return window.locator(".sessions tbody .name").all_inner_texts()


def test_sessions_are_listed_live_filtered_and_deleted(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon, "sessions")
    window.get_by_text("There are no sessions yet").wait_for()
    terminal.chat("fix", "say: Ready.")
    window.get_by_role("link", name="fix", exact=True).wait_for()
    expect(window.locator(".status-complete")).to_have_text("complete")

    # The row with the focus keeps it while others arrive above it.
    window.get_by_role("link", name="Tree of fix").focus()
    terminal.begin("waiting", "run: touch it")
    expect(window.locator(".status-awaiting_permission")).to_have_text("approval")
    expect(window.get_by_role("link", name="Tree of fix")).to_be_focused()

    window.get_by_label("Filter the sessions").fill("touch")
    expect(window.locator(".sessions tbody tr")).to_have_count(1)
    assert names(window) == ["waiting"]
    window.get_by_label("Filter the sessions").fill("")
    window.get_by_label("Order").select_option("name")
    assert names(window) == ["fix", "waiting"]

    window.get_by_role("button", name="Delete fix").focus()
    window.keyboard.press("Enter")
    window.get_by_role("dialog").get_by_role("button", name="Keep").click()
    window.get_by_role("button", name="Delete fix").click()
    window.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(window.get_by_role("link", name="fix", exact=True)).to_have_count(0)
    assert [each["name"] for each in terminal.one("claudecode.list")["sessions"]] == ["waiting"]


def test_many_sessions_are_shown_in_parts(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    for number in range(130):
        terminal.one("claudecode.create", name=f"s{number}")
    window = windows.open(daemon, "sessions")
    window.get_by_text("130 sessions").wait_for()
    expect(window.locator(".sessions tbody tr")).to_have_count(100)
    window.get_by_role("button", name="Show 30 of 30 more").click()
    expect(window.locator(".sessions tbody tr")).to_have_count(130)


def test_a_tree_is_read_and_forked_by_keyboard(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    tree = forked(terminal)
    window = windows.open(daemon, f"tree/{tree}?session=left")
    window.get_by_text("3 turns, 2 branches").wait_for()
    # The head of the session is the stop of Tab.
    stop = window.locator(".stop[tabindex='0']")
    expect(stop).to_contain_text("Left line.")
    stop.focus()
    window.keyboard.press("ArrowRight")
    expect(window.locator(":focus")).to_contain_text("Right line.")
    window.keyboard.press("ArrowUp")
    expect(window.locator(":focus")).to_contain_text("Common answer.")
    window.keyboard.press("Enter")
    turn = window.locator(".turn", has=window.locator(":focus"))
    turn.locator(".part-answer").get_by_text("Common answer.").wait_for()
    turn.get_by_role("button", name="Fork here").click()
    window.keyboard.type("third")
    window.keyboard.press("Enter")
    window.wait_for_url("**/#/session/third")
    [message] = [
        each
        for each in terminal.all("claudecode.get_conversation", name="third")
        if each["role"] == "assistant"
    ]
    assert message["content"] == [{"type": "text", "text": "Common answer."}]


def test_a_head_is_moved_and_two_branches_are_compared(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    tree = forked(terminal)
    right = terminal.head("right")
    window = windows.open(daemon, f"tree/{tree}?session=left")
    turn = window.locator(".turn", has_text="← right")
    turn.locator(".turn-head").click()
    turn.get_by_role("button", name="Compare with").click()
    window.get_by_text("Choose the turn to compare with").wait_for()
    window.locator(".turn", has_text="← left").locator(".turn-head").click()
    window.get_by_text("1 turn in common, up to “say: Common answer.”").wait_for()
    left, right_side = window.locator("section .side-by-side > div").all()
    one, other = left.bounding_box(), right_side.bounding_box()
    assert one is not None
    assert other is not None
    assert (one["y"], one["width"]) == (other["y"], other["width"])
    window.get_by_text("Difference of the answers: − first, + second").wait_for()
    expect(window.locator(".diff-remove")).to_have_text("−removed: Right line.")
    expect(window.locator(".diff-add")).to_have_text("+added: Left line.")

    window.get_by_role("link", name="Back to the tree").click()
    turn.locator(".turn-head").click()
    turn.get_by_role("button", name="Move head here").click()
    turn.get_by_role("button", name="Move the head here").click()
    window.locator(".turn", has_text="← left").filter(has_text="← right").wait_for()
    assert terminal.head("left") == right


def test_every_turn_of_a_large_tree_is_drawn_or_counted(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    created = terminal.one("arbor.tree_create", owner_id="test")
    parents = [created["root"]]

    def add(parent: str) -> str:
        params = {"tree_id": created["tree_id"], "parent": parent, "content": HOSTILE}
        return str(terminal.one("arbor.node_create_text", **params)["node_id"])

    # A long run, a wide fork, and forks inside of each other.
    for _ in range(40):
        parents.append(add(parents[-1]))
    for _ in range(20):
        add(parents[-1])
    for _ in range(20):
        add(parents[-1])
        parents.append(add(parents[-1]))
    nodes = 1 + 40 + 20 + 40
    window = windows.open(daemon, f"tree/{created['tree_id']}", viewport=PHONE)
    window.locator(".fold").first.wait_for()
    assert window.evaluate(COUNT_TURNS) == nodes
    while window.locator(".fold").count():
        window.locator(".fold").first.click()
        assert window.evaluate(COUNT_TURNS) == nodes
    assert window.locator(".turn").count() == nodes
    assert window.evaluate("document.querySelector('main').scrollWidth") <= PHONE["width"]
    assert window.evaluate("window.injected") is None
    assert "\u202e" not in window.inner_text("main")
