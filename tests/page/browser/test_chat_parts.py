"""The parts of the session page, each by itself: Markdown, items of a chat, long lists."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.page.browser.windows import Windows
from tests.support import Daemon, few

DRAW = """async (text) => {
  const { markdown } = await import("/page/markdown.js");
  const box = document.createElement("div");
  box.append(markdown(text));
  return box.innerHTML;
}"""
FOLD = """async (steps) => {
  const { ChatItems } = await import("/page/chat/items.js");
  const chat = new ChatItems("chat", steps[0].from ?? 0);
  const whole = steps.map(({ record, live, older }) => {
    if (record) return chat.add(record);
    if (live) return chat.addLive(live, 0);
    return older ? chat.addOlder(older) ?? true : true;
  });
  return { items: chat.items.map(({ kind, text, depth, result, approval, seq }) =>
    ({ kind, text, depth, result, seq, approval: approval?.status })), whole, first: chat.first };
}"""


@pytest.fixture(scope="module")
def window(browser: Browser, daemon: Daemon) -> Iterator[Page]:
    """One window for all tests, because they only import modules."""
    windows = Windows(browser)
    yield windows.open(daemon)
    assert windows.end_test() == []


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("# A *b*", "<h3>A <em>b</em></h3>"),
        ("**a _b_** ~~c~~ `d`", "<strong>a <em>b</em></strong> <del>c</del> <code>d</code>"),
        ("snake_case_name 2 * 3 * 4", "<p>snake_case_name 2 * 3 * 4</p>"),
        ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("- [x] a", 'disabled="" checked="" aria-label="done"'),
        ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
        ("|a|b|\n|-|-:|\n|1|`x|y`|", '<td class="number"><code>x|y</code></td>'),
        ("```py\n<b>\n```", "<code><div>&lt;b&gt;</div></code>"),
        ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
        ("<b onclick=alert(1)>x</b>", "<p>&lt;b onclick=alert(1)&gt;x&lt;/b&gt;</p>"),
        ("a\u202eb", "<p>a⟨U+202E⟩b</p>"),
        ("\x1b[31m", "<p>⟨U+001B⟩[31m</p>"),
    ],
)
def test_markdown_is_drawn(window: Page, text: str, drawn: str) -> None:
    assert drawn in window.evaluate(DRAW, text)


@pytest.mark.parametrize(
    "text",
    [
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))",
        "[a](\x01javascript:alert(1))",
        "[a](java\tscript:alert(1))",
        "<javascript:alert(1)>",
        "[a](data:text/html,x)",
        "[a](file:///etc/passwd)",
        "[a](//evil.example)",
        "![a](data:image/svg+xml,x)",
        "[a](vbscript:x)",
    ],
)
def test_links_lead_only_to_the_web_and_to_mail(window: Page, text: str) -> None:
    html = window.evaluate(DRAW, text)
    assert "href" not in html
    assert "<img" not in html


def test_links_are_marked_and_show_another_address_than_their_text(window: Page) -> None:
    html = window.evaluate(DRAW, "[bank.example](https://evil.example/x)")
    assert 'rel="noreferrer noopener"' in html
    assert 'target="_blank"' in html
    assert " (evil.example)" in html
    assert "(" not in window.evaluate(DRAW, "[the bank](https://bank.example)")
    assert "(evil.example)" in window.evaluate(DRAW, "https://bank.example@evil.example")
    image = window.evaluate(DRAW, "![a cat](https://evil.example/x.png)")
    assert "<img" not in image
    assert "image: a cat" in image


HOSTILE = {
    "brackets": "[" * 250_000,
    "images": "![" * 60_000 + "[](b)" * 20_000,
    "emphasis": "*a " * 40_000 + "a*" * 40_000,
    "marks": "*_" * 120_000 + "x",
    "ticks": " ".join("`" * length for length in range(700)),
    "quotes": ">" * 250_000,
    "lists": "\n".join(" " * (2 * level) + "- x" for level in range(500)),
    "items": "- a\n" * 60_000,
    "table": "|a|b|\n|-|-|\n" + "|1|2|\n" * 40_000,
    "fences": "```\n" * 60_000,
    "spaces": ("# " + " " * 4000 + "x\n") * 60,
    "target": "[a](" + " " * 250_000,
    "targets": "[a](" * 60_000,
    "line": "x" * 10_000_000,
}


@pytest.mark.parametrize("text", few(list(HOSTILE.values()), 5), ids=HOSTILE)
def test_hostile_markdown_makes_few_elements(window: Page, text: str) -> None:
    """A text that took time or elements with its square would not end here."""
    count = window.evaluate(
        """async (text) => {
          const { markdown } = await import("/page/markdown.js");
          const box = document.createElement("div");
          box.append(markdown(text));
          let deepest = 0;
          for (const leaf of box.querySelectorAll(":not(:has(*))")) {
            let depth = 0;
            for (let node = leaf; node !== box; node = node.parentElement) depth += 1;
            deepest = Math.max(deepest, depth);
          }
          return [box.querySelectorAll("*").length, deepest];
        }""",
        text,
    )
    assert count[0] <= 20_001
    assert count[1] <= 60


def test_a_growing_text_is_drawn_as_the_whole_one(window: Page) -> None:
    text = (
        "# Title\n\nSome *words*\nand more.\n\n- a\n- b\n  1. c\n\n- d\n\n```py\nx = 1\n\n```\n\n"
        "> quote\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nTitle\n===\n\nEnd `code` **bold"
    )
    same, kept = window.evaluate(
        """async (text) => {
          const { markdown, MarkdownView } = await import("/page/markdown.js");
          const view = new MarkdownView();
          let first = null;
          let kept = true;
          for (let end = 1; end <= text.length; end += 1) {
            view.set(text.slice(0, end));
            if (end === 40) first = view.element.firstChild;
            if (end > 40 && view.element.firstChild !== first) kept = false;
          }
          const box = document.createElement("div");
          box.append(markdown(text));
          return [view.element.innerHTML === box.innerHTML, kept];
        }""",
        text,
    )
    assert same
    assert kept, "a complete block was drawn again"


def _record(seq: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"record": {"seq": seq, "timestamp": 0, "event": {"type": kind, **fields}}}


def _delta(offset: int, text: str, kind: str = "content") -> dict[str, Any]:
    block = {"block_index": 0, "message_id": "m", "offset": offset, "text": text}
    return {"live": {"type": f"{kind}_delta", **block}}


def test_text_that_comes_again_is_shown_once(window: Page) -> None:
    block = {"block_index": 0, "message_id": "m"}
    steps = [
        _delta(0, "a😀"),
        _delta(2, "b"),
        # As after a lost connection: the text so far, and then the rest. Offsets count characters.
        _delta(0, "a😀bc"),
        _delta(4, "d"),
    ]
    folded = window.evaluate(FOLD, steps)
    assert [item["text"] for item in folded["items"]] == ["a😀bcd"]
    durable = _record(0, "content", text="a😀bcde", **block)
    folded = window.evaluate(FOLD, [*steps, durable, durable, _delta(0, "a")])
    assert [item["text"] for item in folded["items"]] == ["a😀bcde"]


def test_missing_text_and_missing_events_are_noticed(window: Page) -> None:
    assert window.evaluate(FOLD, [_delta(0, "a"), _delta(2, "c")])["whole"] == [True, False]
    steps = [_record(0, "start", id="x"), _record(2, "user_message", prompt="hi")]
    assert window.evaluate(FOLD, steps)["whole"] == [True, False]


def test_a_block_without_durable_text_ends_with_its_chat(window: Page) -> None:
    steps = [_delta(0, "lost"), _record(0, "error", message="the hub stopped", code="interrupted")]
    folded = window.evaluate(FOLD, steps)
    assert [item["kind"] for item in folded["items"]] == ["error"]


def test_results_and_answers_find_their_call_in_an_older_page(window: Page) -> None:
    block = {"block_index": 0, "message_id": "m"}
    call = {"tool_use_id": "t", "tool_name": "Bash", "input": {"command": "ls"}}
    older = [
        _record(0, "tool_use", **call, **block),
        _record(1, "awaiting_approval", approval_id="a", **call),
    ]
    newer = [
        _record(2, "approval_resolved", approval_id="a", approved=False, status="denied"),
        _record(3, "tool_result", tool_use_id="t", output="no", is_error=True),
    ]
    folded = window.evaluate(FOLD, [{"from": 2}, *newer])
    assert [item["kind"] for item in folded["items"]] == ["result"]
    pages = {"older": [step["record"] for step in older]}
    folded = window.evaluate(FOLD, [{"from": 2}, *newer, pages])
    [item] = folded["items"]
    assert (item["kind"], item["approval"], item["result"]["output"]) == ("tool", "denied", "no")
    assert folded["first"] == 0


def test_subagents_are_nested_and_unknown_events_are_kept(window: Page) -> None:
    call = {"tool_use_id": "t", "tool_name": "Task", "input": {}}
    block = {"block_index": 0, "message_id": "m"}
    nested = {"block_index": 0, "message_id": "n", "parent_tool_use_id": "t"}
    steps = [
        _record(0, "tool_use", **call, **block),
        _record(1, "content", text="inside", **nested),
        _record(2, "novelty", some="thing"),
        _record(3, "passthrough", event_type="system/status", data={}),
    ]
    items = window.evaluate(FOLD, steps)["items"]
    assert [(item["kind"], item["depth"]) for item in items] == [
        ("tool", 0),
        ("content", 1),
        ("other", 0),
    ]


def test_a_long_list_draws_little_and_keeps_the_place_of_the_reader(window: Page) -> None:
    report = window.evaluate(
        """async () => {
          const { VirtualList } = await import("/page/virtual_list.js");
          const { h } = await import("/page/dom.js");
          const frame = () => new Promise((then) => requestAnimationFrame(() => setTimeout(then)));
          const box = h("div");
          box.style.height = "500px";
          document.getElementById("main").replaceChildren(box);
          const render = ({ id, lines }) =>
            h("div", {}, Array.from({ length: lines }, () => h("p", {}, `item ${id}`)));
          const make = (count, from) =>
            Array.from({ length: count }, (_, place) => from + place)
              .map((id) => ({ id, lines: 1 + (id ** 2 % 5) }));
          const list = new VirtualList(box, { render, key: ({ id }) => id });
          const drawn = () => [...box.querySelectorAll(".virtual-item")];
          const top = () => box.getBoundingClientRect().top;
          const first = () => {
            const holder = drawn().find((each) => each.getBoundingClientRect().bottom > top() + 1);
            const distance = Math.round(holder.getBoundingClientRect().top - top());
            return `${holder.innerText.split("\\n")[0]} at ${distance}`;
          };
          const report = {};
          list.setItems(make(100_000, 1000));
          await frame();
          report.atEnd = drawn().at(-1).innerText.includes("item 100999");
          box.scrollTop = 2_000_000;
          await frame();
          await frame();
          report.places = [first()];
          list.prepend(make(1000, 0));
          await frame();
          report.places.push(first());
          drawn()[0].firstChild.append(h("p", {}, "more"), h("p", {}, "and more"));
          await frame();
          report.places.push(first());
          list.append(make(10, 101_000));
          await frame();
          report.places.push(first());
          report.followsWhileReading = list.isAtEnd;
          const button = h("button", {}, "focus");
          drawn()[3].append(button);
          button.focus();
          list.scrollTo(500);
          await frame();
          report.keepsFocus = document.activeElement === button;
          report.scrolledTo = first();
          button.blur();
          list.scrollToEnd();
          for (let id = 200_000; id < 200_005; id += 1) {
            list.append(make(1, id));
            await frame();
          }
          drawn().at(-1).append(h("p", {}, "grows"));
          await frame();
          report.gapAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight;
          report.drawn = drawn().length;
          list.close();
          return report;
        }"""
    )
    assert report["atEnd"]
    assert len(set(report["places"])) == 1, report["places"]
    assert not report["followsWhileReading"]
    assert report["keepsFocus"]
    assert report["scrolledTo"] == "item 500 at 0"
    assert abs(report["gapAtEnd"]) <= 1
    assert report["drawn"] < 60
