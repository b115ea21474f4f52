"""Hostile texts and moments: people answer the call that they see, and no text runs."""

import subprocess
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.browser.terminal import Terminal
from tests.page.browser.windows import PHONE, Windows
from tests.support import Daemon

NAMES = ("__proto__", "constructor", "toString", "hasOwnProperty")
# The texts of the elements that show the input of a call.
SHOW_CALL = """async (input) => {
  const { callView } = await import("/page/approval/tool_call.js");
  const { h } = await import("/page/dom.js");
  return h("div", {}, callView(input)).textContent;
}"""
SUGGEST = """async ([tool, input]) => {
  const { suggestedPatterns } = await import("/page/approval/rule_patterns.js");
  return suggestedPatterns(tool, input);
}"""
# A form for parameters with the names of properties that every object has, filled from an address.
FORM = """async ([names, query]) => {
  const { SchemaForm } = await import("/page/schema_form.js");
  const text = { type: "string" };
  const properties = Object.fromEntries(names.map((name) => [name, text]));
  properties.inner = { type: "object", properties: { ...properties } };
  const method = { name: "m", params: { type: "object", properties, required: ["inner"] } };
  const form = new SchemaForm(method, {}, { query: new URLSearchParams(query) });
  const inputs = [...form.element.querySelectorAll("input")];
  const values = inputs.map(({ value }) => value).filter(Boolean);
  return { values, params: JSON.stringify(form.read().params), polluted: {}.polluted ?? null };
}"""
# Views that choose a part by a text of a plugin.
CHOOSE = """async (names) => {
  const { showResult } = await import("/page/results.js");
  const { questionForm } = await import("/page/results/question.js");
  const chat = { returns: {}, annotations: { render: "chat" } };
  const events = names.map((type) => ({ type, message: "a message" }));
  const shown = showResult({}, chat, events).querySelectorAll("li").length;
  const forms = names.map((type) => questionForm({ requestData: { type } }, () => {}));
  return [shown, forms.filter((form) => form.querySelector("textarea")).length];
}"""
# Resolves when a box is scrolled to its end.
REACH_END = """(box) => new Promise((resolve) => {
  const look = () => {
    const isEnd = box.scrollTop > 0 && box.scrollTop + box.clientHeight >= box.scrollHeight - 1;
    if (isEnd) resolve();
    else requestAnimationFrame(look);
  };
  look();
})"""
COMMANDS = """async (values) => {
  const { commandLine } = await import("/page/forms/command_line.js");
  const params = { type: "object", properties: { value: { type: "string" } } };
  const method = { name: "m", params };
  return values.map((value) => commandLine("n", method, { value }));
}"""
VISIBLE = """async (text) => {
  const { visible } = await import("/page/text.js");
  const { note } = await import("/page/notes.js");
  note(text);
  return [visible(text), document.querySelector(".note").textContent];
}"""


def run(windows: Windows, daemon: Daemon, script: str, argument: object) -> Any:
    """Run a script in the page."""
    return windows.open(daemon).evaluate(script, argument)


def test_no_field_of_a_call_is_left_out(daemon: Daemon, windows: Windows) -> None:
    decoy = {"file_path": "/harmless", "notebook_path": "/real", "new_source": "x"}
    assert "/real" in run(windows, daemon, SHOW_CALL, decoy)
    hidden = {"file_path": {"real": "/etc"}, "command": "ls", "__proto__x": 1, "constructor": "c"}
    shown = run(windows, daemon, SHOW_CALL, hidden)
    assert all(part in shown for part in ("/etc", "ls", "__proto__x", "constructor"))


def test_a_long_command_can_be_scrolled_to_its_end(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon, viewport=PHONE)
    terminal.begin("long", f"run: echo {'long ' * 300}", "say: Ready.")
    command = window.locator(".approval pre.call")
    command.hover()
    window.mouse.wheel(0, 10_000)
    command.evaluate(REACH_END)


def test_a_long_command_warns_that_its_end_is_below(daemon: Daemon, windows: Windows) -> None:
    command = "echo ok" + "\n" * 200 + "rm -rf ~"
    assert "201 lines" in run(windows, daemon, SHOW_CALL, {"command": command})
    assert "scroll" not in run(windows, daemon, SHOW_CALL, {"command": "echo ok\nls"})


@pytest.mark.parametrize(
    ("tool", "value"),
    [
        ("mcp__x__y", {"query": "harmless\n*"}),
        ("Write", {"file_path": "/tmp/a\n*\n/b"}),
        ("Write", {"file_path": "notes"}),
        ("Read", {"file_path": "/passwd"}),
        ("WebFetch", {"url": "not an address\n*"}),
    ],
)
def test_a_call_cannot_suggest_a_pattern_that_allows_everything(
    daemon: Daemon, windows: Windows, tool: str, value: dict[str, str]
) -> None:
    patterns = run(windows, daemon, SUGGEST, [tool, value])
    assert len(patterns) == 1
    lines = patterns[0].split("\n")
    assert len(lines) == 1
    assert lines[0].strip("*/") != ""


def test_names_of_an_objects_own_properties_are_plain_names(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon)
    empty = window.evaluate(FORM, [NAMES, ""])
    assert empty == {"values": [], "params": '{"inner":{}}', "polluted": None}
    filled = window.evaluate(FORM, [NAMES, '__proto__=a&constructor=b&inner={"__proto__":"c"}'])
    assert filled["values"] == ["c", "a", "b"]
    assert filled["polluted"] is None
    assert window.evaluate(CHOOSE, NAMES) == [len(NAMES), len(NAMES)]


def test_the_copied_command_has_one_value_in_a_real_shell(daemon: Daemon, windows: Windows) -> None:
    values = [
        "'; touch /tmp/broken; '",
        "$(id) `id` ${HOME} !! !x \\",
        "a\nb\t\x1b[31m\r'\\'",
        "-rf ~ *",
        "\u202e'\u200b$'\\''",
        "=ls ~root {a,b} #c",
    ]
    for command, value in zip(run(windows, daemon, COMMANDS, values), values, strict=True):
        script = f'synapse() {{ printf "%s\\0" "$@"; }}; {command}'
        output = subprocess.run(
            ["bash", "-c", script], capture_output=True, check=True, timeout=10
        ).stdout
        words = output.decode().split("\0")[:-1]
        assert words in (["n", "m", "--value", value], ["n", "m", f"--value={value}"])


def test_hidden_characters_are_visible_everywhere(daemon: Daemon, windows: Windows) -> None:
    text = "a\u202eb\u2066c\u200bd\u00ade\u2800f\U000e0041g"
    for shown in run(windows, daemon, VISIBLE, text):
        assert shown == "a⟨U+202E⟩b⟨U+2066⟩c⟨U+200B⟩d⟨U+00AD⟩e⟨U+2800⟩f⟨U+E0041⟩g"


def test_a_form_tells_the_hidden_characters_that_an_address_fills_in(
    daemon: Daemon, windows: Windows
) -> None:
    hostile = "ls \u202etxt.exe"
    window = windows.open(daemon)
    query = f'command={hostile}&env={{"A\u200b":"B\u2066"}}'
    window.evaluate("query => { location.hash = `#/plugins/bash/execute?${query}`; }", query)
    warnings = window.locator(".warn:visible")
    expected = ["ls ⟨U+202E⟩txt.exe", "B⟨U+2066⟩", "A⟨U+200B⟩"]
    expect(warnings).to_have_text([f"⚠ Hidden characters: {text}" for text in expected])
    window.get_by_role("button", name="Raw JSON").click()
    expect(warnings).to_contain_text(["ls ⟨U+202E⟩txt.exe"])
    window.get_by_role("button", name="Raw JSON").click()
    window.locator("[data-field=command] textarea").fill("ls 👍️")
    expect(warnings).to_have_count(2)
    window.evaluate("query => { location.hash = `#/search?q=${query}`; }", hostile)
    expect(warnings).to_have_text(["⚠ Hidden characters: ls ⟨U+202E⟩txt.exe"])


@pytest.mark.parametrize("tool", ["Write", "Edit"])
def test_a_file_name_is_shown_in_one_line_with_all_its_characters(
    daemon: Daemon, windows: Windows, tool: str
) -> None:
    name = "/tmp/a\n/etc/passwd\t\r\nb"
    texts = {"Write": {"content": "x"}, "Edit": {"old_string": "x", "new_string": "y"}}
    shown = run(windows, daemon, SHOW_CALL, {"file_path": name, **texts[tool]})
    line = "/tmp/a⟨U+000A⟩/etc/passwd⟨U+0009⟩⟨U+000D⟩⟨U+000A⟩b"
    assert shown.startswith(line)


def test_a_hostile_file_name_is_text_in_the_inbox_and_in_the_session(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    # Slashes separate attributes as spaces do, and `write:` ends a name at a space.
    image = "<img/src=x/onerror=window.injected=1>"
    terminal.begin("named", f"write: {image}\u202egpj.\\n/etc/passwd text", "say: Ready.")
    window = windows.open(daemon)
    path = window.locator(".approval .path")
    for page in ("inbox", "session/named"):
        window.evaluate("page => { location.hash = `#/${page}`; }", page)
        window.wait_for_selector(f"main.page-{page.split('/')[0]}")
        expect(path).to_have_text(f"{image}⟨U+202E⟩gpj.⟨U+000A⟩/etc/passwd")
        assert path.evaluate("path => path.children.length") == 0
        window.get_by_text("Whole input").click()
        expect(window.locator(".approval details pre")).to_contain_text(image)
        assert "\u202e" not in window.inner_text("main")
        assert window.locator("main img").count() == 0
    headline = window.locator(".chat-tool summary").first
    expect(headline).to_contain_text(f"{image}⟨U+202E⟩gpj. ↵ /etc/passwd")
    headline.click()
    expect(window.locator(".chat-input .path")).to_contain_text(image)
    assert window.locator("main img").count() == 0
    assert window.evaluate("window.injected") is None


def card(window: Page, text: str) -> Any:
    return window.locator(".approval", has_text=text)


def test_the_second_click_of_a_double_click_answers_nothing(
    daemon: Daemon, windows: Windows, terminal: Terminal
) -> None:
    window = windows.open(daemon)
    terminal.begin("below", "run: echo 1 > below", "say: Ready.")
    card(window, "echo 1 > below").wait_for()
    terminal.begin("above", "run: echo 1 > above", "say: Ready.")
    first = card(window, "echo 1 > above")
    first.wait_for()
    # The new card has pushed the other one down, so a click that was meant for it does nothing.
    place = first.get_by_role("button", name="Allow", exact=True).bounding_box()
    assert place is not None
    x, y = place["x"] + 5, place["y"] + 5
    window.mouse.click(x, y)
    window.get_by_text("this click did nothing").wait_for()
    window.wait_for_selector(".approvals:not([data-moving])")
    window.mouse.click(x, y)
    expect(first).to_have_count(0)
    # The other card is now where the first one was.
    window.mouse.click(x, y)
    terminal.wait_for("above")
    assert (terminal.cwd / "above").exists()
    assert len(terminal.one("loopback.pending")["approvals"]) == 1
    assert not (terminal.cwd / "below").exists()


def test_an_address_with_a_parameter_code_does_not_sign_out(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon, "search?q=x&code=y")
    window.wait_for_selector("main.page-search")
    window.reload()
    window.wait_for_selector("#connection[data-state=open]", state="attached")
    window.wait_for_selector("main.page-search")
