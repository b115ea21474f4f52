"""Trees as text: box drawing, widths, limits, and nothing that a terminal obeys."""

import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from hubd.plexus import resolve
from hubd.plexus.hub import Hub
from hubd.plugins.arbor.box_drawing import (
    DEPTH,
    HANDLE_WIDTH,
    WIDTH,
    Line,
    draw,
    handle_line,
    text_line,
)
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.solar import Solar
from hubd.wire.handle import WireHandle
from tests.plugins.arbor.grower import Grower
from tests.support import call_events, call_items, hub_with

# What makes text run the other way, or ends doing so.
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, Arbor(), EchoPlugin(), Solar(), Grower()) as built:
        yield built


async def plant(hub: Hub) -> str:
    [created] = await call_events(hub, "arbor.tree_create")
    return str(created["tree_id"])


async def add(hub: Hub, tree_id: str, content: str, parent: str | None = None) -> str:
    """Add a text, or a handle if it is in brackets."""
    params: dict[str, Any] = {"tree_id": tree_id}
    if parent is not None:
        params["parent"] = parent
    if content.startswith("["):
        [node] = await call_events(
            hub, "arbor.node_create_external", handle=content[1:-1], **params
        )
    else:
        [node] = await call_events(hub, "arbor.node_create_text", content=content, **params)
    return str(node["node_id"])


async def render(hub: Hub, tree_id: str, **params: Any) -> str:
    [drawn] = await call_events(hub, "arbor.tree_render", tree_id=tree_id, **params)
    return str(drawn["render"])


# The format


async def test_a_tree_is_drawn_with_box_characters(hub: Hub) -> None:
    tree_id = await plant(hub)
    await add(hub, tree_id, "[cone@1.0.0::chat:msg-aaa:system:init]")
    question = await add(hub, tree_id, "[cone@1.0.0::chat:msg-bbb:user:q1]")
    await add(hub, tree_id, "[cone@1.0.0::chat:msg-ccc:assistant:a1]", question)
    assert await render(hub, tree_id) == (
        "└──\n"
        "    ├── [cone:msg-aaa:system:init]\n"
        "    └── [cone:msg-bbb:user:q1]\n"
        "        └── [cone:msg-ccc:assistant:a1]"
    )


async def test_a_branch_with_later_siblings_has_a_vertical_line(hub: Hub) -> None:
    tree_id = await plant(hub)
    first = await add(hub, tree_id, "first")
    below = await add(hub, tree_id, "below", first)
    await add(hub, tree_id, "second")
    await add(hub, tree_id, "deepest", below)
    await add(hub, tree_id, "beside", first)
    assert await render(hub, tree_id) == (
        "└──\n"
        "    ├── first\n"
        "    │   ├── below\n"
        "    │   │   └── deepest\n"
        "    │   └── beside\n"
        "    └── second"
    )


async def test_a_rendering_has_flat_nodes_too(hub: Hub) -> None:
    tree_id = await plant(hub)
    node = await add(hub, tree_id, "[echo@1.0.0::once:hi]")
    await call_events(hub, "arbor.node_label", tree_id=tree_id, node_id=node, label="greeting")
    grower = hub.root.children["grower"].activation
    assert isinstance(grower, Grower)
    grower.names = {node: ["one", "two"]}
    [drawn] = await call_events(hub, "arbor.tree_render", tree_id=tree_id, resolve=True)
    root, below = drawn["nodes"]
    assert root == {
        "id": root["id"],
        "short_id": root["id"][-4:],
        "parent": None,
        "depth": 0,
        "lane": "main",
        "summary": "",
        "more": 0,
        "created_at": root["created_at"],
    }
    assert below == {
        "id": node,
        "short_id": node[-4:],
        "parent": root["id"],
        "depth": 1,
        "lane": "main",
        "summary": "hi",
        "more": 0,
        "created_at": below["created_at"],
        "handle": "echo@1.0.0::once:hi",
        "label": "greeting",
        "marks": ["one", "two"],
        "kind": "output",
        "text": "hi",
    }
    assert drawn["more"] == 0


async def test_a_plugin_whose_marks_fail_spoils_no_drawing(hub: Hub) -> None:
    tree_id = await plant(hub)
    grower = hub.root.children["grower"].activation
    assert isinstance(grower, Grower)
    grower.names = None
    [drawn] = await call_events(hub, "arbor.tree_render", tree_id=tree_id)
    assert "marks" not in drawn["nodes"][0]
    assert "title" not in drawn


async def test_the_title_of_a_rendering_is_the_first_name(hub: Hub) -> None:
    tree_id = await plant(hub)
    nodes = [await add(hub, tree_id, text) for text in ("a", "b")]
    grower = hub.root.children["grower"].activation
    assert isinstance(grower, Grower)
    grower.names = {nodes[1]: ["began"], nodes[0]: ["forked"]}
    [drawn] = await call_events(hub, "arbor.tree_render", tree_id=tree_id)
    assert drawn["title"] == "began"


async def test_a_handle_that_no_plugin_owns_is_stored_with_guidance(hub: Hub) -> None:
    tree_id = await plant(hub)
    for handle, code in (
        ("ecko@1.0.0::once:x", "activation_not_found"),
        ("echo@2.0.0::once:x", "version_unsupported"),
        ("echo@1.0.0::once:x", None),
    ):
        params = {"tree_id": tree_id, "handle": handle}
        items = await call_items(hub, "arbor.node_create_external", **params)
        assert items[-2]["content"]["content"] == handle
        guidance = [item for item in items if item["type"] == "guidance"]
        assert [item["error_type"] for item in guidance] == ([code] if code else [])
        if code == "activation_not_found":
            assert "Plugins with handles: arbor, echo, " in guidance[0]["suggestion"]


# One line a node


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("日" * 30, "日" * 30),
        ("日" * 31, "日" * 29 + "…"),
        ("x" + "日" * 30, "x" + "日" * 29 + "…"),
        ("🙂" * 31, "🙂" * 29 + "…"),
        ("e\u0301" * 60, "e\u0301" * 60),
        ("e\u0301" * 61, "e\u0301" * 59 + "…"),
        ("a\nb\r\nc\rd\x85e\u2028f\u2029g\vh\fi\x1cj\x1dk\x1el", "a↵b↵c↵d↵e↵f↵g↵h↵i↵j↵k↵l"),
        ("\n\n", "↵↵"),
        ("tab\there", "tab here"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", ""),
        ("\x00\x08\x1f", ""),
        ("\x7f\x80\x9b31m", ""),
        ("a\u202eb\u2066c\u200ed", "a‹U+202E›b‹U+2066›c‹U+200E›d"),
        ("x" * 100_000, "x" * 59 + "…"),
        ("\u0301" * 100_000, "\u0301" * (60 * 8) + "…"),
    ],
)
def test_a_text_is_one_clean_line_within_its_width(text: str, line: str) -> None:
    assert text_line(text) == line


@pytest.mark.parametrize(
    ("text", "width", "line"),
    [("ab", 1, "…"), ("a", 1, "a"), ("日", 1, "…"), ("日本", 3, "日…"), ("日本", 4, "日本")],
)
def test_the_width_can_be_one_column(text: str, width: int, line: str) -> None:
    assert text_line(text, width) == line


@pytest.mark.parametrize(
    ("handle", "line"),
    [
        ("cone@1.0.0::chat:msg-aaa:system:init", "[cone:msg-aaa:system:init]"),
        ("solar.earth@1.0.0::info:earth", "[solar.earth:earth]"),
        ("bare@1.0.0::nothing", "[bare]"),
        ("a@1::b:", "[a:]"),
        ("a@1::b:%1B[31m", "[a:%1B[31m]"),
        ("a@1::b:\u202ex\u2028y", "[a:‹U+202E›x↵y]"),
        ("a@1::b:" + "x" * 300, "[a:" + "x" * 197 + "…]"),
    ],
)
def test_a_handle_is_drawn_as_its_plugin_and_meta(handle: str, line: str) -> None:
    assert handle_line(handle) == line


def is_harmless(line: str) -> bool:
    """Return whether a line has no control characters, and none that reorder it.

    A left-to-right or right-to-left mark may be beside a Hebrew or Arabic letter.
    """
    return not any(
        unicodedata.category(char) in ("Cc", "Zl", "Zp")
        or unicodedata.bidirectional(char)
        in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        or (char in BIDI and char not in "\u200e\u200f")
        for char in line
    )


nasty = st.text(
    st.characters(codec="utf-8")
    | st.characters(codec="utf-8", categories=["Cc", "Cf", "Zl", "Zp", "Mn", "Me"])
    | st.sampled_from("日🙂\u200d\ufe0f\x1b\x9b\r\n" + BIDI)
)


@given(nasty, st.integers(1, 200))
@example("\u0301" * 9, 1)
def test_no_text_leaves_its_line(text: str, width: int) -> None:
    line = text_line(text, width)
    assert is_harmless(line)
    assert cell_len(line) <= width


@given(st.lists(nasty, max_size=3), st.sampled_from(["a", "a.b-c_d"]))
def test_no_handle_leaves_its_line(meta: list[str], plugin: str) -> None:
    line = handle_line(str(WireHandle(plugin, "1.0.0", "m", tuple(meta))))
    assert is_harmless(line)
    assert cell_len(line) <= HANDLE_WIDTH + 2
    assert line.startswith(f"[{plugin}")
    assert line.endswith("]")


@given(st.lists(st.tuples(nasty, st.integers(0, 100)), max_size=20), st.integers(1, 80))
def test_a_drawing_has_one_line_within_the_width_for_each_node(
    nodes: list[tuple[str, int]], width: int
) -> None:
    lines = [Line(b"0", None, "")]
    depths = [0]
    for number, (text, above) in enumerate(nodes, 1):
        parent = lines[above % len(lines)]
        lines.append(Line(str(number).encode(), parent.id, text_line(text, width)))
        depths.append(depths[above % number] + 1)
    drawn = draw(lines).split("\n")
    assert len(drawn) == len(lines)
    assert is_harmless("".join(drawn))
    indents = []
    for line in drawn:
        indents.append(len(line) - len(line.lstrip("│ ")))
        assert cell_len(line) <= indents[-1] + 4 + width
    assert sorted(indents) == sorted(4 * depth for depth in depths)


async def test_a_rendering_has_no_control_characters_except_newlines(hub: Hub) -> None:
    tree_id = await plant(hub)
    evil = "".join(map(chr, range(0xA0))) + BIDI + "\u2028\u2029"
    for start in range(0, len(evil), 20):
        await add(hub, tree_id, evil[start : start + 20])
    handle = WireHandle("grower", "1.0.0", "thing", ("", evil[1:]))
    await add(hub, tree_id, f"[{handle}]")
    for resolved in (False, True):
        [drawn] = await call_events(
            hub, "arbor.tree_render", tree_id=tree_id, resolve=resolved, width=1000
        )
        assert is_harmless(drawn["render"].replace("\n", ""))
        assert all(is_harmless(node["summary"]) for node in drawn["nodes"])
        assert len(drawn["render"].split("\n")) == len(drawn["nodes"])


# Limits


async def test_deeper_nodes_are_counted_at_their_last_drawn_ancestor(hub: Hub) -> None:
    tree_id = await plant(hub)
    first = await add(hub, tree_id, "first")
    await add(hub, tree_id, "second")
    third = await add(hub, tree_id, "third")
    for parent, count in ((first, 3), (third, 2)):
        await call_events(hub, "grower.grow", tree_id=tree_id, parent=parent, count=count)
    assert await render(hub, tree_id, depth=1) == (
        "└──\n"
        "    ├── first\n"
        "    │   └── … 3 more\n"
        "    ├── second\n"
        "    └── third\n"
        "        └── … 2 more"
    )
    [drawn] = await call_events(hub, "arbor.tree_render", tree_id=tree_id, depth=1)
    assert drawn["more"] == 5
    assert await render(hub, tree_id, depth=0) == "└──\n    └── … 8 more"


async def test_nodes_beyond_the_limit_are_counted_at_their_nearest_drawn_ancestor(
    hub: Hub,
) -> None:
    tree_id = await plant(hub)
    first = await add(hub, tree_id, "first")
    await call_events(hub, "grower.grow", tree_id=tree_id, parent=first, content="c", count=4)
    await add(hub, tree_id, "second")
    expected = "└──\n    ├── first\n    │   └── c\n    │       └── … 3 more\n    └── … 1 more"
    assert await render(hub, tree_id, limit=3) == expected
    # Both limits at once: each node counts once.
    assert await render(hub, tree_id, limit=3, depth=2) == expected
    assert await render(hub, tree_id, limit=1) == "└──\n    └── … 6 more"
    [drawn] = await call_events(hub, "arbor.tree_render", tree_id=tree_id, limit=3)
    assert [(node["summary"], node["more"]) for node in drawn["nodes"]] == [
        ("", 1),
        ("first", 0),
        ("c", 3),
    ]
    assert drawn["more"] == 4


async def test_the_flat_nodes_can_be_deeper_than_the_text(hub: Hub) -> None:
    tree_id = await plant(hub)
    await call_events(hub, "grower.grow", tree_id=tree_id, content="c", count=DEPTH + 30)
    [drawn] = await call_events(hub, "arbor.tree_render", tree_id=tree_id, depth=DEPTH + 20)
    assert [node["depth"] for node in drawn["nodes"]] == list(range(DEPTH + 21))
    assert drawn["more"] == drawn["nodes"][-1]["more"] == 10
    lines = drawn["render"].split("\n")
    assert len(lines) == DEPTH + 2
    assert lines[-1].strip() == "└── … 30 more"


async def test_the_flat_nodes_are_depth_first_with_the_oldest_child_first(hub: Hub) -> None:
    tree_id = await plant(hub)
    first = await add(hub, tree_id, "first")
    await add(hub, tree_id, "second")
    below = await add(hub, tree_id, "below", first)
    await add(hub, tree_id, "third")
    await add(hub, tree_id, "deepest", below)
    await add(hub, tree_id, "beside", first)
    [drawn] = await call_events(hub, "arbor.tree_render", tree_id=tree_id)
    assert [node["summary"] for node in drawn["nodes"]] == [
        "",
        "first",
        "below",
        "deepest",
        "beside",
        "second",
        "third",
    ]


async def test_the_width_limits_the_texts(hub: Hub) -> None:
    tree_id = await plant(hub)
    await add(hub, tree_id, "日本語のテキスト")
    assert await render(hub, tree_id, width=7) == "└──\n    └── 日本語…"
    assert await render(hub, tree_id, width=1000) == "└──\n    └── 日本語のテキスト"


async def test_selected_lanes_are_drawn(hub: Hub) -> None:
    tree_id = await plant(hub)
    turn = await add(hub, tree_id, "turn")
    await call_events(
        hub,
        "grower.grow",
        tree_id=tree_id,
        parent=turn,
        content="event",
        lane="events",
        count=2,
    )
    await add(hub, tree_id, "answer", turn)
    assert await render(hub, tree_id) == "└──\n    └── turn\n        └── answer"
    both = await render(hub, tree_id, lanes=["main", "events"])
    assert both == (
        "└──\n    └── turn\n        ├── event\n        │   └── event\n        └── answer"
    )
    # Without the lane of their parent they hang at the root.
    assert await render(hub, tree_id, lanes=["events"]) == "└──\n    └── event\n        └── event"


# What handles point at


async def test_resolved_handles_show_their_summary_or_the_reason_of_the_failure(
    hub: Hub,
) -> None:
    tree_id = await plant(hub)
    for content in (
        "[echo@1.0.0::once:hello%0Aworld]",
        "[solar.earth.luna@1.0.0::info:luna]",
        "[grower@1.0.0::thing:gone:it]",
        "[grower@1.0.0::thing:raises:it]",
        "[nobody@1.0.0::thing:x]",
        "[echo@2.0.0::once:hi]",
        "[echo@1.0.0::twice:hi]",
        "a text",
    ):
        await add(hub, tree_id, content)
    lines = (await render(hub, tree_id, resolve=True, width=200)).split("\n    ")
    assert [line[4:] for line in lines[1:]] == [
        "hello world",
        "Luna, moon",
        "[unresolved: grower:gone:it: no thing it]",
        "[unresolved: grower:raises:it: ValueError: a resolver's mistake: it]",
        "[unresolved: nobody:x: no plugin 'nobody' owns this handle]",
        "[unresolved: echo:hi: echo@2.0.0::once:hi is of major version 2, and echo is 1.0.0]",
        "[unresolved: echo:hi: echo has no handles 'twice']",
        "a text",
    ]


async def test_long_reasons_are_cut(hub: Hub) -> None:
    tree_id = await plant(hub)
    await add(hub, tree_id, f"[grower@1.0.0::thing:raises:{'x' * 500}]")
    [_, line] = (await render(hub, tree_id, resolve=True)).split("\n")
    reason = line.removeprefix("    └── [unresolved: ").removesuffix("]")
    assert reason == "grower:raises:" + "x" * (WIDTH - 15) + "…"


async def test_an_empty_summary_shows_the_handle(hub: Hub) -> None:
    tree_id = await plant(hub)
    await add(hub, tree_id, "[echo@1.0.0::once:]")
    assert await render(hub, tree_id, resolve=True) == "└──\n    └── [echo:]"


async def test_many_handles_are_resolved_in_batches_and_drawn_in_order(hub: Hub) -> None:
    grower = hub.find(["grower"]).activation
    assert isinstance(grower, Grower)
    tree_id = await plant(hub)
    for number in range(2 * resolve.CONCURRENT):
        await add(hub, tree_id, f"[grower@1.0.0::thing:now:{number}]")
    drawn = await render(hub, tree_id, resolve=True)
    assert [line[8:] for line in drawn.split("\n")[1:]] == [
        str(number) for number in range(2 * resolve.CONCURRENT)
    ]
    assert grower.most <= resolve.CONCURRENT


async def test_a_plugin_that_never_answers_affects_only_its_own_lines(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "RESOLVE_TIMEOUT_SECONDS", 0.01)
    grower = hub.find(["grower"]).activation
    assert isinstance(grower, Grower)
    tree_id = await plant(hub)
    await add(hub, tree_id, "[grower@1.0.0::thing:slow:x]")
    await add(hub, tree_id, "[echo@1.0.0::once:hi]")
    drawn = (await render(hub, tree_id, resolve=True, width=200)).split("\n")
    assert drawn[1].startswith(
        "    ├── [unresolved: grower:slow:x: grower@1.0.0::thing:slow:x took"
    )
    assert drawn[2] == "    └── hi"
    assert (grower.ended, grower.running) == (1, 0)
