"""The plugins in a real browser: lists, forms, results, questions and handles of any plugin."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.page.browser.windows import PHONE, Windows
from tests.support import PATIENCE_SECONDS, Daemon, environment

expect.set_options(timeout=PATIENCE_SECONDS * 1000)

FILL_TEMPLATE = """async ([template, fields]) => {
  const { fillTemplate } = await import("/page/results/columns.js");
  return fillTemplate(template, fields);
}"""
SHOW_CHAT = """async (events) => {
  const { showResult } = await import("/page/results.js");
  const items = showResult({}, { returns: {}, annotations: { render: "chat" } }, events);
  document.getElementById("main").replaceChildren(items);
  return [...items.querySelectorAll(".messages > li")].map((item) => item.innerText.trim());
}"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with plugins that the page knows nothing about."""
    plugins = [
        "tests.sample_plugins.shapes:Shapes",
        "tests.sample_plugins.galaxy:Galaxy",
        "tests.sample_plugins.notes:Notes",
    ]
    options = [word for plugin in plugins for word in ("--plugin", plugin)]
    with Daemon(tmp_path_factory.mktemp("home"), "--mcp-port", "0", *options) as running:
        yield running


def result(window: Page) -> object:
    """Return the events of the call as the folded JSON has them."""
    window.click("details.json > summary")
    expect(window.locator("details.json pre")).not_to_be_empty()
    return json.loads(window.inner_text("details.json pre"))


def test_namespaces_are_listed_by_their_use_and_can_be_filtered(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon, "plugins")
    names = window.locator(".namespaces > .namespace > p a")
    expect(names.first).to_have_text("claudecode")
    assert names.all_inner_texts()[-1] == "plexus"
    window.fill("#namespace-filter", "luna")
    expect(window.get_by_role("link", name="solar.earth.luna", exact=True)).to_be_visible()
    window.fill("#namespace-filter", "picture of nothing")
    expect(window.locator(".empty")).to_be_visible()
    window.fill("#namespace-filter", "hostile")
    window.get_by_role("link", name="hostile").click()
    expect(window.locator("h1")).to_have_text("hostile")


def test_a_namespace_shows_its_methods_in_order_and_its_handles(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon, "plugins/shapes")
    methods = window.locator(".methods a")
    expect(methods).to_have_text(["draw", "table", "tick", "ask", "erase", "hostile"])
    expect(window.locator("main")).to_contain_text("shapes@1.0.0::picture:ID")


def test_a_plugin_that_is_added_and_removed_shows_up(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/galaxy/add?name=sun")
    other = windows.open(daemon, "plugins")
    expect(other.get_by_role("link", name="galaxy", exact=True)).to_be_visible()
    window.get_by_role("button", name="Run").click()
    expect(window.locator(".result")).to_contain_text("galaxy.sun")
    other.locator("[data-namespace=galaxy] summary").click()
    expect(other.get_by_role("link", name="galaxy.sun", exact=True)).to_be_visible()

    window.evaluate("location.hash = '#/plugins/galaxy/remove?name=sun'")
    expect(window.locator("h1")).to_have_text("remove")
    window.get_by_role("button", name="Run").click()
    window.get_by_role("button", name="Continue").click()
    expect(window.locator(".result")).to_contain_text("galaxy.sun")
    expect(other.get_by_role("link", name="galaxy.sun", exact=True)).to_have_count(0)


def test_a_form_of_any_shape_calls_the_method(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/shapes/draw?name=from+the+address")
    expect(window.get_by_label("name")).to_have_value("from the address")
    expect(window.locator(".method-call")).to_have_count(0)
    window.click("summary:has-text('optional parameters')")
    window.get_by_label("size").fill("7")
    window.get_by_label("colour").select_option("green")
    for tag in ("first", "second", "third"):
        window.get_by_role("button", name="Add entry to tags").click()
        window.keyboard.type(tag)
    window.get_by_role("button", name="Remove entry 2").click()
    window.get_by_role("button", name="Add address").click()
    window.get_by_label("street").fill("Mill Lane")
    window.get_by_label("number").fill("12")
    window.get_by_role("button", name="Add inner").click()
    window.get_by_label("street").nth(1).fill("Back Yard")
    window.get_by_role("button", name="Add form").click()
    window.get_by_label("Kind of form").select_option("square")
    window.get_by_label("side").fill("5")
    window.get_by_role("button", name="Add pair to weights").click()
    window.get_by_label("Key 1 of weights").fill("oak")
    window.get_by_label("value of weights").fill("1.5")
    window.get_by_label("is filled").select_option("no")
    window.get_by_label("is visible").uncheck()
    window.get_by_role("button", name="Run").click()
    expect(window.locator(".call-status")).to_contain_text("1 event")
    params = {
        "name": "from the address",
        "size": 7,
        "colour": "green",
        "tags": ["first", "third"],
        "address": {
            "street": "Mill Lane",
            "number": 12,
            "inner": {"street": "Back Yard", "number": None, "inner": None},
        },
        "form": {"shape": "square", "side": 5, "labels": []},
        "weights": {"oak": 1.5},
        "is_filled": False,
        "is_visible": False,
    }
    assert result(window) == {"type": "received", "params": params}

    # The command of the terminal does the same.
    command = window.inner_text(".command pre")
    variables = environment(HUBD_HOME=str(daemon.home))
    script = f'synapse() {{ {sys.executable} -m synapse "$@"; }}; {command} --json'
    output = subprocess.run(["bash", "-c", script], env=variables, capture_output=True, check=True)
    assert json.loads(output.stdout) == {"type": "received", "params": params}


def test_problems_are_shown_at_their_fields(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/shapes/draw?size=11")
    window.get_by_role("button", name="Run").click()
    expect(window.locator("[data-field=name] .param-problem")).to_have_text("is required")
    expect(window.get_by_label("name")).to_be_focused()
    window.get_by_label("name").fill("x")
    window.get_by_role("button", name="Run").click()
    expect(window.locator("[data-field=size] .param-problem")).to_have_text("must be 10 or less")
    expect(window.get_by_label("size")).to_be_focused()
    assert window.locator(".method-call").count() == 0

    # The hub checks more than the page does, and names the field.
    window.evaluate("location.hash = '#/plugins/claudecode/get_block?blob_id=!'")
    expect(window.locator("h1")).to_have_text("get_block")
    window.get_by_role("button", name="Run").click()
    expect(window.locator("[data-field=blob_id] .param-problem")).not_to_be_empty()
    expect(window.get_by_label("blob id")).to_have_attribute("aria-invalid", "true")


def test_all_parameters_can_be_written_as_json(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/shapes/draw?name=x")
    window.get_by_role("button", name="Raw JSON").click()
    text = window.get_by_label("Parameters as JSON")
    assert json.loads(text.input_value()) == {"name": "x"}
    text.fill('{"name": "x", "form": {"shape": "circle"}}')
    window.get_by_role("button", name="Run").click()
    expect(window.locator("form .problem")).to_have_text("form.radius is missing")
    text.fill('{"name": "x", "form": {"shape": "circle", "radius": 2}}')
    window.get_by_role("button", name="Raw JSON").click()
    expect(window.get_by_label("radius")).to_have_value("2")


def test_a_stream_is_shown_live_until_it_is_cancelled(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/shapes/tick?text=tock")
    window.get_by_role("button", name="Run").click()
    expect(window.locator("tbody tr").nth(2)).to_contain_text("tock")
    expect(window.locator(".progress")).to_contain_text("tick")
    window.get_by_role("button", name="Cancel").click()
    expect(window.locator(".call-status")).to_contain_text("Cancelled after")
    expect(window.get_by_role("button", name="Cancel")).to_be_hidden()


def test_questions_are_answered_by_keyboard(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/shapes/ask")
    window.get_by_role("button", name="Run").focus()
    window.keyboard.press("Enter")
    # The key that ran the method does not answer.
    expect(window.get_by_role("group", name="Sure?")).to_be_focused()
    window.keyboard.press("Enter")
    window.keyboard.press("Tab")
    expect(window.get_by_role("button", name="Yes")).to_be_focused()
    window.keyboard.press("Enter")
    expect(window.get_by_label("Name?").get_by_role("textbox")).to_be_focused()
    window.keyboard.type("Ann")
    window.keyboard.press("Enter")
    expect(window.get_by_role("group", name="Colours?")).to_be_focused()
    window.keyboard.press("Tab")
    window.keyboard.press("Space")
    window.keyboard.press("Tab")
    window.keyboard.press("Space")
    window.get_by_role("button", name="Answer").press("Enter")
    expect(window.get_by_label("Answer as JSON")).to_be_focused()
    window.keyboard.type("{")
    window.get_by_role("button", name="Answer").press("Enter")
    expect(window.locator(".question .param-problem")).to_contain_text("must be JSON")
    window.get_by_label("Answer as JSON").fill('{"a": 1}')
    window.get_by_role("button", name="Answer").press("Enter")
    expect(window.locator(".call-status")).to_contain_text("4 events")
    lines = ["sure: True", "name: Ann", "colours: r, g", "data: {'a': 1}"]
    expect(window.locator(".lines li")).to_contain_text(lines)


def test_a_chat_is_shown_as_one_live_replayed_and_as_messages(
    daemon: Daemon, windows: Windows
) -> None:
    prompt = "think: let me see\\nrun: seq 3\\nsay: **Ready.**"
    query = f'name=shown&model=offline&prompt={prompt}&allowed_tools=["Bash"]'
    window = windows.open(daemon)
    for method in (f"chat?{query}", "follow?name=shown", "get_conversation?name=shown"):
        page = f"plugins/claudecode/{method}".replace("\\n", "%0A")
        window.evaluate("page => { location.hash = `#/${page}`; }", page)
        expect(window.locator("h1")).to_have_text(method.split("?")[0])
        window.get_by_role("button", name="Run").click()
        expect(window.locator(".call-status")).to_contain_text("✓")
        shown = window.locator(".messages > li")
        expect(shown.locator(".chat-prompt")).to_have_count(1)
        expect(shown.locator(".chat-thinking")).to_have_count(1)
        expect(shown.locator(".chat-tool")).to_contain_text("Bash seq 3")
        expect(shown.locator(".chat-tool .chat-result")).to_contain_text("1\n2\n3")
        expect(shown.locator(".chat-content strong")).to_have_text("Ready.")
        # The end of a chat is not part of its messages.
        count = 4 if method.startswith("get_") else 5
        expect(shown).to_have_count(count)


def test_a_chat_of_any_plugin_is_shown_by_the_types_of_its_events(
    daemon: Daemon, windows: Windows
) -> None:
    window = windows.open(daemon)
    pieces = [{"type": "chat_content", "content": text} for text in ("a", "b")]
    offsets = [
        {"type": "answer_delta", "text": text, "offset": offset}
        for text, offset in (("c😀", 0), ("😀d", 1), ("e", 0))
    ]
    calls = [
        {"type": "tool_call", "tool_use_id": "t", "tool_name": "Look", "input": {"path": "x"}},
        {"type": "text", "text": "meanwhile"},
        {"type": "tool_call_result", "tool_use_id": "t", "output": "seen"},
        {"type": "tool_result", "tool_use_id": "other", "output": {"a": 1}},
    ]
    ends = [
        {"type": "passthrough", "data": 1},
        {"type": "moved", "node_id": "1"},
        {"type": "cleared", "room": "blue"},
        {"type": "chat_complete", "usage": None},
        {"type": "error", "message": "no more", "code": "x"},
        {"role": "user", "content": "again?"},
        "words",
    ]
    assert window.evaluate(SHOW_CHAT, [*pieces, *offsets, *calls, *ends]) == [
        *("a", "b", "c😀d", "e"),
        *("● Look x\nseen", "meanwhile", '{"a":1}'),
        *("cleared", "✓ done", "✗ no more", "again?", "words"),
    ]


def test_a_withdrawn_question_disappears(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/shapes/ask?wait=0.1")
    window.get_by_role("button", name="Run").click()
    expect(window.locator(".guidance")).to_contain_text("needs no answer any more")
    expect(window.locator(".call-status")).to_contain_text("timeout")
    expect(window.locator(".question")).to_have_count(0)


def test_values_are_offered_and_the_command_is_copied(daemon: Daemon, windows: Windows) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    window = windows.open(daemon, "plugins/shapes/erase", permissions=permissions)
    window.get_by_label("name").focus()
    options = window.locator("datalist option")
    expect(options).to_have_count(3)
    assert options.first.get_attribute("value") == "drawing 0"
    window.get_by_label("name").fill("it's \u202e")
    window.get_by_role("button", name="Copy").click()
    expect(window.locator("#notes")).to_contain_text("Copied")
    copied = window.evaluate("navigator.clipboard.readText()")
    assert copied == "synapse shapes erase --name $'it\\'s \\342\\200\\256'"


def test_a_destructive_method_asks_first(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/shapes/erase?name=old")
    window.get_by_role("button", name="Run").click()
    dialog = window.get_by_role("dialog")
    expect(dialog).to_contain_text("cannot be undone")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    window.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert window.locator(".method-call").count() == 0
    window.get_by_role("button", name="Run").click()
    dialog.get_by_role("button", name="Continue").click()
    expect(window.locator(".result")).to_contain_text("erased old")


def test_a_long_table_unfolds_and_its_handles_resolve(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/shapes/table?rows=1000")
    expect(window.get_by_label("rows")).to_have_value("1000")
    window.keyboard.press("Control+Enter")
    expect(window.locator("thead th").first).to_have_text("name")
    assert window.locator("tbody tr").count() == 200
    window.get_by_role("button", name="Show 200 more of 800").click()
    assert window.locator("tbody tr").count() == 400
    second = window.locator("tbody tr").nth(1)
    expect(second).to_contain_text("1.0 KiB")
    assert second.locator("time").get_attribute("title")
    second.get_by_role("link").click()
    expect(window.locator("h1")).to_have_text("Handle")
    expect(window.get_by_role("img", name="dot.png")).to_be_visible()
    assert window.evaluate("document.querySelector('img').naturalWidth") == 1


def test_a_declared_column_has_the_length_of_its_template(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon)
    fields = {"id": "d9e90d13-9489", "tool": "Bash", "places": {"count": 3}}
    filled = window.evaluate(FILL_TEMPLATE, ["{tool} {id:.8} {places.count:.8}", fields])
    assert filled == "Bash d9e90d13 3"


def test_a_handle_with_spaces_is_a_link_that_resolves(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/echo/once?message=hello: 100 %25")
    window.get_by_label("message").press("Control+Enter")
    window.locator(".result").get_by_role("link", name="echo::once:hello").click()
    expect(window.locator("h1")).to_have_text("Handle")
    expect(window.locator(".resolved")).to_contain_text("hello: 100 %")


def test_bytes_that_are_no_picture_are_only_saved(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/handle/shapes%401.0.0%3A%3Apicture%3A0")
    link = window.locator("a[download]")
    expect(link).to_contain_text("11 B")
    with window.expect_download() as saved:
        link.click()
    assert "/" not in saved.value.suggested_filename
    assert saved.value.path().read_bytes() == b"<h1>hi</h1>"
    assert window.locator("main img").count() == 0


def test_a_handle_without_data_has_the_reason(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/handle/nothing%401.0.0%3A%3Aget%3A1")
    expect(window.get_by_role("alert")).to_contain_text("nothing")


def test_texts_never_become_part_of_the_page(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins/shapes/hostile")
    expect(window.locator(".lead")).to_contain_text("<b>texts</b>")
    window.get_by_role("button", name="Run").click()
    expect(window.locator("tbody tr")).to_have_count(2)
    expect(window.locator("tbody tr").first).to_contain_text("<script>")
    expect(window.locator("tbody tr").first).to_contain_text("⟨U+202E⟩txt.exe")
    hostile = "<img src=x onerror=broken=1>'; touch x #\u202e"
    window.get_by_label("text").fill(hostile)
    assert "\u202e" not in window.inner_text(".command pre")
    window.get_by_role("button", name="Run").click()
    expect(window.locator("tbody tr").first).to_contain_text("<img src=x onerror=broken=1>")
    address = "plugins/<img src=x onerror=broken=1>/<b>x</b>?text=<script>broken=1</script>"
    window.evaluate("address => { location.hash = `#/${address}`; }", address)
    expect(window.get_by_role("alert")).to_be_visible()
    assert window.evaluate("window.broken") is None
    assert window.locator("main img, main script, main b").count() == 0


def test_forms_and_tables_fit_a_phone(daemon: Daemon, windows: Windows) -> None:
    window = windows.open(daemon, "plugins", viewport=PHONE, has_touch=True)
    fits = "document.documentElement.scrollWidth <= innerWidth"
    expect(window.locator(".namespace").first).to_be_visible()
    assert window.evaluate(fits)
    window.evaluate("location.hash = '#/plugins/shapes/table'")
    window.get_by_role("button", name="Run").tap()
    expect(window.locator("tbody tr")).to_have_count(3)
    assert window.evaluate(fits)
    box = window.get_by_role("button", name="Run").bounding_box()
    assert box is not None
    assert box["height"] >= 44
    # A text keeps some words a line, and its table scrolls.
    window.evaluate("location.hash = '#/plugins/plexus/activations'")
    window.get_by_role("button", name="Run").tap()
    text = window.locator(".result td", has_text="Return messages").first.bounding_box()
    assert text is not None
    assert text["width"] >= 200
    assert window.evaluate(fits)
    for page in (f"echo/once?message={'long' * 60}", f"{'long' * 30}", f"handle/{'x' * 300}"):
        window.evaluate("page => { location.hash = `#/plugins/${page}`; }", page)
        expect(window.locator("h1")).to_be_focused()
        assert window.evaluate(fits)
        assert window.evaluate("document.querySelector('main').scrollWidth <= innerWidth")
    window.evaluate("location.hash = '#/plugins/claudecode/chat'")
    expect(window.get_by_label("prompt").first).to_be_visible()
    window.click("summary:has-text('optional parameters')")
    assert window.evaluate(fits)
