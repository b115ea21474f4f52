"""Trees of 10,000 nodes: each turn is drawn or counted, and the head of the session is shown."""

import pytest
from playwright.sync_api import Page, expect

from tests.page.browser.large_trees import (
    BETWEEN_FORKS,
    FORKS,
    NODES,
    OPEN_FOLDS,
    TURNS,
    answers,
    chain,
    chain_node,
    conversation,
)
from tests.page.browser.terminal import Terminal
from tests.page.browser.windows import Windows
from tests.support import Daemon

# The root and the other branch of each fork are drawn as turns, too.
DRAWN = 1 + TURNS + FORKS
# The most elements of a large tree before a fold is opened.
MOST_ELEMENTS = 2000
# The most turns that are laid out: those of the lists near the visible part.
MOST_LAID_OUT = 400
# Adds the numbers of the folded turns to the number of those that are drawn.
COUNT_TURNS = """() => {
  const folds = [...document.querySelectorAll(".fold")].map(({ textContent }) => textContent);
  const folded = folds.map((text) => Number(/([\\d,]+) turn/.exec(text)[1].replace(",", "")));
  return folded.reduce((sum, number) => sum + number, document.querySelectorAll(".turn").length);
}"""
COUNT_ELEMENTS = "document.querySelectorAll('*').length"
# The browser skips the contents of lists that are far from the visible part.
COUNT_LAID_OUT = """() => [...document.querySelectorAll(".turns > li")]
  .filter((item) => item.checkVisibility({ contentVisibilityAuto: true })).length"""


def expect_all_counted(window: Page, turns: int) -> None:
    """Check that each turn is drawn or counted, with few elements."""
    assert window.evaluate(COUNT_TURNS) == turns
    assert window.evaluate(COUNT_ELEMENTS) < MOST_ELEMENTS


def test_the_head_of_a_large_conversation_is_shown(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    tree_id = conversation(terminal)
    window = windows.open(daemon, f"tree/{tree_id}?session=long")
    window.get_by_text(f"{TURNS:,} turns, {FORKS + 1} branches").wait_for()
    head = window.locator(".turn", has_text="← long")
    stop = window.locator(".stop[tabindex='0']")
    # At the end, behind more forks than are drawn side by side.
    expect(head).to_be_in_viewport()
    expect(stop).to_contain_text(f"Ask {TURNS - 1}.")
    expect_all_counted(window, DRAWN)

    # The keyboard goes from there to the start of the tree, over the folded parts.
    stop.focus()
    for _ in range(130):
        window.keyboard.press("ArrowUp")
    expect(window.locator(":focus")).to_contain_text("Start")
    window.get_by_role("button", name="Go to the head").click()
    expect(head.locator(".stop")).to_be_focused()
    expect(head).to_be_in_viewport()


@pytest.mark.soak
def test_the_head_in_the_folded_middle_and_beyond_the_drawn_nodes_is_found(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    tree_id = conversation(terminal)
    window = windows.open(daemon, f"tree/{tree_id}?session=long")
    window.get_by_text(f"{TURNS:,} turns, {FORKS + 1} branches").wait_for()
    head = window.locator(".turn", has_text="← long")
    stop = window.locator(".stop[tabindex='0']")

    # In the folded middle of a run, between two forks.
    place = BETWEEN_FORKS * 20 + 10
    terminal.one("claudecode.set_head", name="long", node_id=answers(terminal)[place])
    window.get_by_role("button", name="Read again").click()
    expect(stop).to_contain_text(f"Ask {place}.")
    expect(head).to_be_in_viewport()
    expect_all_counted(window, DRAWN)

    # All turns at once, and back to the head.
    window.evaluate(OPEN_FOLDS)
    assert window.locator(".turn").count() == DRAWN
    window.locator(".stop").first.focus()
    expect(head).not_to_be_in_viewport()
    window.get_by_role("button", name="Go to the head").click()
    expect(head.locator(".stop")).to_be_focused()
    expect(head).to_be_in_viewport()

    # With one more node than is drawn, the page names the place where the newest turns are.
    params = {"tree_id": tree_id, "parent": answers(terminal)[-1], "content": "The newest."}
    newest = terminal.one("arbor.node_create_text", **params)["node_id"]
    terminal.one("claudecode.set_head", name="long", node_id=newest)
    window.get_by_role("button", name="Read again").click()
    window.get_by_text("The head of long is among the newer nodes, which are not shown").wait_for()
    expect(window.get_by_role("button", name="Go to the head")).to_be_hidden()
    window.get_by_role("link", name="The page of the session").click()
    window.wait_for_url("**/#/session/long")


def test_the_branch_of_the_head_is_drawn_among_many(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    terminal.one("claudecode.create", name="wide")
    start = terminal.head("wide")
    for number in range(12):
        params = {"tree_id": start["tree_id"], "parent": start["node_id"]}
        terminal.one("arbor.node_create_text", **params, content=f"Text {number}.")
    nodes = terminal.one("arbor.tree_render", tree_id=start["tree_id"])["nodes"]
    terminal.one("claudecode.set_head", name="wide", node_id=nodes[-1]["id"])
    window = windows.open(daemon, f"tree/{start['tree_id']}?session=wide")
    expect(window.locator(".turn", has_text="← wide")).to_be_in_viewport()
    assert window.evaluate(COUNT_TURNS) == 13


def test_all_turns_of_the_longest_run_are_shown_on_demand(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    tree_id = chain(terminal)
    window = windows.open(daemon, f"tree/{tree_id}")
    fold = window.locator(".fold")
    fold.wait_for()
    expect_all_counted(window, NODES)

    # The keyboard opens a part, and continues at its first turn.
    window.locator(".stop[tabindex='0']").focus()
    for _ in range(4):
        window.keyboard.press("ArrowDown")
    expect(fold).to_be_focused()
    window.keyboard.press("Enter")
    expect(window.locator(":focus")).to_contain_text("Text 4.")
    assert window.evaluate(COUNT_TURNS) == NODES

    window.evaluate(OPEN_FOLDS)
    assert window.locator(".turn").count() == NODES
    middle = window.locator(f"[data-id='{chain_node(NODES // 2)}']")
    middle.scroll_into_view_if_needed()
    expect(middle).to_be_in_viewport()
    expect(middle).to_contain_text(f"Text {NODES // 2}.")
    assert 0 < window.evaluate(COUNT_LAID_OUT) < MOST_LAID_OUT
    middle.locator(".stop").focus()
    window.keyboard.press("ArrowDown")
    expect(window.locator(":focus")).to_contain_text(f"Text {NODES // 2 + 1}.")
    middle.hover()
    window.mouse.wheel(0, 5000)
    expect(middle).not_to_be_in_viewport()
    assert window.evaluate(COUNT_LAID_OUT) < MOST_LAID_OUT
