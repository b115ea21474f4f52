"""Trees out as JSON lines and in again: exact, or not at all."""

import asyncio
import json
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.activation import Context
from hubd.activation.params import name_problem
from hubd.errors import Conflict
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.arbor.base import MAX_LABEL, MAX_METADATA, MAX_TEXT
from hubd.plugins.arbor.import_export import MAX_LINE, NODES_AT_ONCE, Import, Lines, lines_of
from hubd.plugins.arbor.plugin import Arbor
from hubd.storage.arbor import references
from hubd.storage.arbor.tree import MAX_HANDLE
from hubd.storage.database import Database
from tests.plugins.arbor.by_storage import Storage
from tests.plugins.arbor.forest import Content
from tests.support import Collector, call_error, call_events, examples, hub_with

Line = dict[str, Any]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, Arbor()) as built:
        yield built


def database(hub: Hub) -> Database:
    assert hub.database is not None
    return hub.database


async def plant(hub: Hub) -> list[Line]:
    """The export of a small tree, which is gone again."""
    system = Storage(database(hub))
    oak, root = await system.create("ann", {"name": "oak"})
    first = await system.append(oak, root, Content("text", "a\nb"), "main", False, "first")
    handle = Content("external", "cone@1.0.0::chat:msg-a:user:x")
    second = await system.append(oak, first, handle, "main", False, None)
    await system.append(oak, first, Content("text", ""), "events", False, None)
    await system.append(oak, second, Content("text", "end"), "main", True, None)
    lines = await system.export(oak)
    await system.delete(oak, "ann", False)
    await system.clean_up()
    return lines


def written(lines: list[Line]) -> str:
    return "\n".join(map(json.dumps, lines))


async def is_empty(hub: Hub) -> bool:
    """Nothing of any tree is there, nor will be purged, nor was ever known under an id."""
    db = database(hub)
    while await db.transaction(references.purge):
        pass
    tables = ("arbor_trees", "arbor_nodes", "arbor_owners", "arbor_purges")
    counts = [await db.fetch_rows(f"SELECT count(*) FROM {table}") for table in tables]
    imported = await db.fetch_rows("SELECT count(*) FROM arbor_history WHERE step = 'imported'")
    return [*counts, imported] == [[(0,)]] * 5


# There and back


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), below, max_size=3)
    ),
    max_leaves=5,
)
TEXT = st.text(st.characters(codec="utf-8"))
METADATA = st.none() | st.dictionaries(TEXT, JSON, max_size=3)
VISIBLE = st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp"])
NAME = st.text(VISIBLE, min_size=1).filter(lambda text: name_problem(text) is None)
NODE = st.tuples(st.integers(0, 50), TEXT, st.none() | NAME, METADATA, st.booleans())


@given(METADATA, st.lists(NODE, max_size=12), NAME)
@examples(6)
def test_texts_labels_and_metadata_survive_export_and_import(
    about: Line | None, nodes: list[tuple[int, str, str | None, Line | None, bool]], owner: str
) -> None:
    async def example(directory: Path) -> None:
        async with hub_with(directory, Arbor()) as hub:
            given = {} if about is None else {"metadata": about}
            [created] = await call_events(hub, "arbor.tree_create", owner_id=owner[:200], **given)
            existing = [created["root"]]
            for above, content, label, metadata, _ in nodes:
                params: Line = {"parent": existing[above % len(existing)], "content": content}
                params |= {} if label is None else {"label": label[:200]}
                params |= {} if metadata is None else {"metadata": metadata}
                [node] = await call_events(
                    hub, "arbor.node_create_text", tree_id=created["tree_id"], **params
                )
                existing.append(node["node_id"])
            lines = await call_events(hub, "arbor.tree_export", tree_id=created["tree_id"])
            assert [line["data"]["content"] for line in lines[1:]] == [node[1] for node in nodes]
            assert [line.get("label") for line in lines[1:]] == [
                node[2] and node[2][:200] for node in nodes
            ]
            assert [line.get("metadata") for line in lines[1:]] == [node[3] for node in nodes]
            await call_events(hub, "arbor.tree_delete", tree_id=created["tree_id"], force=True)
            await call_events(hub, "arbor.cleanup")
            [loaded] = await call_events(hub, "arbor.tree_import", data=written(lines))
            assert loaded["nodes"] == len(nodes)
            assert await call_events(hub, "arbor.tree_export", tree_id=created["tree_id"]) == lines

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(example(Path(directory)))


async def test_a_copy_differs_only_in_its_ids(hub: Hub) -> None:
    lines = await plant(hub)
    await call_events(hub, "arbor.tree_import", data=written(lines))
    copies = []
    for _ in range(2):
        [imported] = await call_events(hub, "arbor.tree_import", data=written(lines), new_ids=True)
        copies.append(await call_events(hub, "arbor.tree_export", tree_id=imported["tree_id"]))
    seen: set[str] = set()
    for export in (lines, *copies):
        header, *nodes = export
        ids = {header["tree_id"], header["root"], *(node["id"] for node in nodes)}
        assert len(ids) == len(nodes) + 2
        assert ids.isdisjoint(seen)
        seen |= ids
        assert [node["id"] for node in nodes] == sorted(node["id"] for node in nodes)
        # Without the ids, by which number each parent has, all are the same.
        number = {header["root"]: 0, **{node["id"]: n for n, node in enumerate(nodes, 1)}}
        plain = [{**node, "id": None, "parent": number[node["parent"]]} for node in nodes]
        tree = {**header, "tree_id": None, "root": None}
        if export is lines:
            expected = (tree, plain)
        assert (tree, plain) == expected


async def test_an_import_reports_the_owner_of_the_tree(hub: Hub) -> None:
    lines = await plant(hub)
    [imported] = await call_events(hub, "arbor.tree_import", data=written(lines), owner_id="bob")
    assert imported == {
        "type": "tree_imported",
        "tree_id": lines[0]["tree_id"],
        "owner_id": "bob",
        "nodes": 4,
    }
    [refs] = await call_events(hub, "arbor.tree_get_refs", tree_id=imported["tree_id"])
    assert (refs["owners"], refs["state"]) == ({"bob": 1}, "active")


async def test_file_paths_are_relative_to_the_caller(hub: Hub, tmp_path: Path) -> None:
    lines = await plant(hub)
    (tmp_path / "oak.jsonl").write_text("\n\n" + written(lines).replace("\n", "\r\n") + "\n\n")
    caller = Collector(Context(cwd=str(tmp_path)))
    await Call(hub, "arbor.tree_import", {"file": "oak.jsonl"}, caller).run()
    assert [item["type"] for item in caller.items] == ["data", "done"], caller.items
    assert await call_events(hub, "arbor.tree_export", tree_id=lines[0]["tree_id"]) == lines


# Invalid exports


async def refused(hub: Hub, code: str, *named: str, **params: Any) -> None:
    error = await call_error(hub, "arbor.tree_import", **params)
    assert error["code"] == code, error
    for name in named:
        assert name in error["message"], error
    assert await is_empty(hub)


def without(name: str) -> Callable[[Line], Line]:
    return lambda line: {key: value for key, value in line.items() if key != name}


def having(**fields: Any) -> Callable[[Line], Line]:
    return lambda line: {**line, **fields}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("type"), ""),
        (having(type="node"), "type"),
        (without("root"), "root"),
        (having(format=2), "format 2 is not supported, only 1"),
        (having(format="1.5"), "format"),
        (having(tree_id="nope"), "'nope' is not an id"),
        (having(root="nope"), "'nope' is not an id"),
        (having(owner_id=""), "owner"),
        (having(owner_id="x" * 201), "owner"),
        (having(owner_id="a\nb"), "owner_id can't contain U+000A"),
        (having(metadata=[]), "metadata"),
        (having(metadata={"a": "x" * MAX_METADATA}), f"{MAX_METADATA} bytes"),
        (having(created_at=10**30), "created_at"),
        (having(created_at="yesterday"), "created_at"),
        (having(colour="red"), "colour"),
    ],
)
async def test_invalid_first_lines_are_rejected(
    hub: Hub, change: Callable[[Line], Line], said: str
) -> None:
    header, *nodes = await plant(hub)
    changed = change(header)
    if changed.keys() == header.keys() - {"type"}:
        changed["type"] = "leaf"
    await refused(hub, "invalid_params", "line 1:", said, data=written([changed, *nodes]))


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (having(type="tree"), "invalid_params", "type"),
        (without("id"), "invalid_params", "id"),
        (without("parent"), "invalid_params", "parent"),
        (having(parent=None), "invalid_params", "parent"),
        (having(parent=str(uuid4())), "invalid_params", "is not on an earlier line"),
        (having(parent="nope"), "invalid_params", "'nope' is not an id"),
        (having(id="nope"), "invalid_params", "'nope' is not an id"),
        (having(lane="sub"), "invalid_params", "lane"),
        (having(data={"type": "external", "handle": "nope"}), "invalid_params", "handle"),
        (having(data={"type": "picture"}), "invalid_params", "data"),
        (
            having(data={"type": "external", "handle": "a@1::b:" + "x" * MAX_HANDLE}),
            "invalid_params",
            "the handle is longer than",
        ),
        (
            having(data={"type": "text", "content": "x" * (MAX_TEXT + 1)}),
            "invalid_params",
            "the text is longer than",
        ),
        (having(label="x" * (MAX_LABEL + 1)), "invalid_params", "the label is longer than"),
        (having(label="a\u202eb"), "invalid_params", "label can't contain U+202E"),
        (having(metadata={"a": "x" * MAX_METADATA}), "invalid_params", f"{MAX_METADATA} bytes"),
        (having(metadata={"a": float("inf")}), "invalid_params", "too large for JSON"),
        (having(created_at=-(10**30)), "invalid_params", "created_at"),
    ],
)
async def test_invalid_node_lines_are_rejected(
    hub: Hub, change: Callable[[Line], Line], code: str, said: str
) -> None:
    lines = await plant(hub)
    for number in (1, 3, 4):
        changed = [*lines[:number], change(lines[number]), *lines[number + 1 :]]
        await refused(hub, code, f"line {number + 1}:", said, data=written(changed))


@pytest.mark.parametrize("name", ["root", "id"])
async def test_repeated_ids_are_rejected(hub: Hub, name: str) -> None:
    lines = await plant(hub)
    lines[3]["id"] = lines[0]["root"] if name == "root" else lines[1]["id"]
    named = f"node {lines[3]['id']} exists already"
    for new_ids in (False, True):
        await refused(
            hub,
            "conflict",
            "line 4:",
            named if not new_ids else "exists already",
            data=written(lines),
            new_ids=new_ids,
        )


async def test_a_parent_after_its_child_is_rejected(hub: Hub) -> None:
    header, first, second, *rest = await plant(hub)
    data = written([header, second, first, *rest])
    await refused(hub, "invalid_params", "line 2:", "is not on an earlier line", data=data)


async def test_parents_and_ids_of_other_trees_are_rejected(hub: Hub) -> None:
    lines = await plant(hub)
    [other] = await call_events(hub, "arbor.tree_create")
    before = await call_events(hub, "arbor.tree_export", tree_id=other["tree_id"])
    for change, code in (
        ({"parent": other["root"]}, "invalid_params"),
        ({"id": other["root"]}, "conflict"),
    ):
        changed = [*lines[:2], {**lines[2], **change}, *lines[3:]]
        error = await call_error(hub, "arbor.tree_import", data=written(changed))
        assert (error["code"], error["message"][:7]) == (code, "line 3:")
        await call_events(hub, "arbor.cleanup")
        [listed] = await call_events(hub, "arbor.tree_list")
        assert [entry["tree_id"] for entry in listed["trees"]] == [other["tree_id"]]
    assert await call_events(hub, "arbor.tree_export", tree_id=other["tree_id"]) == before


async def test_importing_an_existing_tree_changes_nothing(hub: Hub) -> None:
    lines = await plant(hub)
    await call_events(hub, "arbor.tree_import", data=written(lines))
    error = await call_error(hub, "arbor.tree_import", data=written(lines[:2]))
    assert error["code"] == "conflict"
    assert lines[0]["tree_id"] in error["message"]
    assert await call_events(hub, "arbor.tree_export", tree_id=lines[0]["tree_id"]) == lines


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "line 1: not a valid tree of an export: Invalid JSON: EOF"),
        ("\n \n", "line 1:"),
        ("nope", "line 1:"),
        ("\n\nnope", "line 3:"),
        ("[]", "line 1:"),
        ('{"type":"tree"', "line 1:"),
        ("\x00", "line 1:"),
    ],
)
async def test_data_that_is_not_an_export_is_rejected(hub: Hub, data: str, said: str) -> None:
    await refused(hub, "invalid_params", said, data=data)


async def test_invalid_json_is_reported_with_its_line_number(hub: Hub) -> None:
    lines = written(await plant(hub)).split("\n")
    for number in range(2, len(lines) + 1):
        broken = [*lines[: number - 1], "\ufeff{", *lines[number - 1 :]]
        await refused(hub, "invalid_params", f"line {number}:", data="\n".join(broken))


async def test_a_truncated_file_is_rejected_or_imported_up_to_its_end(hub: Hub) -> None:
    """Where a line ends nothing is missing that a reader could know of."""
    text = written(await plant(hub))
    ends = {place for place, char in enumerate(text) if char == "\n"}
    for place in range(0, len(text), 7):
        if {place, place - 1} & ends:
            continue
        number = text[:place].count("\n") + 1
        await refused(hub, "invalid_params", f"line {number}:", data=text[:place])
    for place in ends:
        [imported] = await call_events(hub, "arbor.tree_import", data=text[:place], new_ids=True)
        assert imported["nodes"] == text[:place].count("\n")


async def test_an_invalid_line_after_many_valid_ones_leaves_nothing(hub: Hub) -> None:
    """The good ones were written in transactions before."""
    header, first, *_ = await plant(hub)
    header["tree_id"] = str(uuid4())
    nodes = [
        {**first, "id": str(uuid4()), "parent": header["root"]} for _ in range(2 * NODES_AT_ONCE)
    ]
    data = written([header, *nodes]) + "\nnope"
    await refused(hub, "invalid_params", f"line {2 * NODES_AT_ONCE + 2}:", data=data)
    error = await call_error(hub, "arbor.tree_get_refs", tree_id=header["tree_id"])
    assert error["code"] == "not_found"
    # Its ids are free again.
    [imported] = await call_events(hub, "arbor.tree_import", data=written([header, *nodes]))
    assert imported["nodes"] == 2 * NODES_AT_ONCE


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("missing.jsonl", "not_found", "missing.jsonl is not a file"),
        (".", "not_found", "is not a file"),
        ("pipe", "not_found", "pipe is not a file"),
        ("/dev/zero", "not_found", "/dev/zero is not a file"),
        ("nul\0.jsonl", "not_found", "is not a file"),
        ("~unknown-user-name/x", "not_found", "~unknown-user-name/x"),
        ("long.jsonl", "invalid_params", f"line 2 is longer than {MAX_LINE} bytes"),
        ("binary.jsonl", "invalid_params", "line 1:"),
    ],
)
async def test_unreadable_files_are_rejected(
    hub: Hub, tmp_path: Path, name: str, code: str, said: str
) -> None:
    header, *_ = await plant(hub)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long.jsonl").write_text(json.dumps(header) + "\n" + "x" * (MAX_LINE + 1))
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    caller = Collector(Context(cwd=str(tmp_path)))
    await Call(hub, "arbor.tree_import", {"file": name}, caller).run()
    error = caller.items[-2]
    assert error["code"] == code, error
    assert said in error["message"], error
    assert await is_empty(hub)


# Cancelled


class Gate:
    """Lines that block at one of them until they are released, read in another thread."""

    def __init__(self, lines: list[Line], stop: int) -> None:
        self._lines = lines
        self._stop = stop
        self.reached = asyncio.Event()
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def lines(self) -> Lines:
        try:
            for number, entry in enumerate(lines_of(written(self._lines))):
                if number == self._stop:
                    self._loop.call_soon_threadsafe(self.reached.set)
                    self._open.wait()
                yield entry
        finally:
            self.closed = True


@pytest.mark.parametrize("stop", [0, 1, NODES_AT_ONCE + 1])
async def test_an_import_cancelled_while_reading_leaves_nothing(hub: Hub, stop: int) -> None:
    header, first, *_ = await plant(hub)
    nodes = [{**first, "id": str(uuid4()), "parent": header["root"]} for _ in range(600)]
    gate = Gate([header, *nodes], stop)
    work = Import(database(hub), owner=None, new_ids=False, now=0)
    task = asyncio.create_task(work.run(gate.lines()))
    await gate.reached.wait()
    task.cancel()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.closed
    assert await is_empty(hub)
    # It can be imported now.
    again = Import(database(hub), owner=None, new_ids=False, now=0)
    _, count = await again.run(lines_of(written([header, *nodes])))
    assert count == 600


async def test_a_cancelled_import_leaves_nothing_or_is_complete(hub: Hub) -> None:
    lines = await plant(hub)
    for turns in range(10_000):
        work = Import(database(hub), owner=None, new_ids=False, now=0)
        task = asyncio.create_task(work.run(lines_of(written(lines))))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        [page] = await call_events(hub, "arbor.tree_list")
        if page["trees"]:
            break
        assert await is_empty(hub)
    events = await call_events(hub, "arbor.tree_export", tree_id=lines[0]["tree_id"])
    assert events == lines


async def test_of_two_imports_of_one_tree_the_first_wins(
    hub: Hub,
) -> None:
    header, first, *_ = await plant(hub)
    nodes = [{**first, "id": str(uuid4()), "parent": header["root"]} for _ in range(600)]
    gate = Gate([header, *nodes], NODES_AT_ONCE + 1)
    work = Import(database(hub), owner=None, new_ids=False, now=0)
    task = asyncio.create_task(work.run(gate.lines()))
    await gate.reached.wait()
    try:
        other = Import(database(hub), owner=None, new_ids=False, now=0)
        with pytest.raises(Conflict, match=header["tree_id"]):
            await other.run(lines_of(written([header])))
    finally:
        gate.open()
    _, count = await task
    assert count == 600
    lines = await call_events(hub, "arbor.tree_export", tree_id=header["tree_id"])
    assert len(lines) == 601
