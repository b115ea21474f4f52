"""The stores of plugins, and heads, keep no state outside of their transactions."""

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

import hubd.conversations
from hubd.conversations import attachments
from hubd.conversations.heads import NewHead
from hubd.mustache.template import Template
from hubd.plugins.bash import store as bash
from hubd.plugins.bash.tables import MIGRATIONS as BASH_MIGRATIONS
from hubd.plugins.cone import store as cone
from hubd.plugins.cone.tables import MIGRATIONS as CONE_MIGRATIONS
from hubd.plugins.file import store as file
from hubd.plugins.file.store import SnapshotRow
from hubd.plugins.file.tables import MIGRATIONS as FILE_MIGRATIONS
from hubd.plugins.loopback import rule_store
from hubd.plugins.loopback.rules.rule import NewRule, Rule
from hubd.plugins.loopback.tables import MIGRATIONS as LOOPBACK_MIGRATIONS
from hubd.plugins.mustache import store as mustache
from hubd.plugins.web import store as web
from hubd.plugins.web.tables import MIGRATIONS as WEB_MIGRATIONS
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.blobs.rows import Blob
from hubd.storage.database import Tx
from hubd.wire.handle import parse
from tests.storage.rerun import NOW, assert_keeps_no_state, database, transaction_functions

COLUMNS = cone.Columns("model", None)
CONTENT = Blob(b"d" * 32, 1, b"x")
SNAPSHOT = SnapshotRow(
    1, b"f" * 16, "/a/b.txt", 1, CONTENT.digest, "text/plain", 1, 0o644, NOW, 0, NOW
)


class World(NamedTuple):
    """The rows with which each function runs."""

    cone: cone.ConeRow
    node: Place
    rule: Rule


def register(tx: Tx, name: str) -> object:
    text = "Hello {{name}}"
    return mustache.register(tx, name, text, "", Template.parse(text), replace=True, now=NOW)


def add_fetch(tx: Tx, fetch_id: bytes) -> None:
    digest, readable = b"d" * 32, b"r" * 32
    url, mime_type = "https://example.org/", "text/html"
    fetch = web.Fetch(
        *(
            0,
            fetch_id,
            url,
            url,
            0,
            200,
            mime_type,
            "utf-8",
            None,
            4,
            False,
            digest,
            readable,
            NOW,
            5,
        )
    )
    web.add(tx, fetch, Blob(digest, 4, b"page"), Blob(readable, 4, b"text"))


def add_message(tx: Tx, world: World) -> bytes:
    return cone.add_message(tx, world.cone.tree, role="user", name="ann", content="hi", now=NOW)


OUTPUT = bash.Recorded(Blob(b"d" * 32, 2, b"hi"), 0)


def begin(tx: Tx, execution_id: bytes) -> None:
    bash.begin(tx, execution_id, command="ls", cwd="/", shell="sh", now=NOW)


def finish(tx: Tx, execution_id: bytes) -> None:
    bash.finish(
        tx,
        execution_id,
        status="complete",
        exit_code=0,
        duration_ms=1,
        stdout=OUTPUT,
        stderr=bash.Recorded(None, 3),
        now=NOW,
    )


CASES: dict[str, Callable[[Tx, World], object]] = {
    "plugins.mustache.store.register": lambda tx, _: [
        register(tx, "new"),
        register(tx, "greeting"),
    ],
    "plugins.file.store.add": lambda tx, _: list(
        map(partial(file.add, tx), [SNAPSHOT._replace(id=b"g" * 16)], [CONTENT])
    ),
    "plugins.file.store.delete": lambda tx, _: file.delete(tx, SNAPSHOT.key),
    "plugins.mustache.store.delete": lambda tx, _: mustache.delete(tx, "greeting"),
    "plugins.web.store.add": lambda tx, _: add_fetch(tx, b"n" * 16),
    "plugins.web.store.delete": lambda tx, _: web.delete(tx, (b"w" * 16).hex()),
    "plugins.bash.store.begin": lambda tx, _: begin(tx, b"n" * 16),
    "plugins.bash.store.forget": lambda tx, _: bash.forget(tx, b"r" * 16),
    "plugins.bash.store.finish": lambda tx, _: finish(tx, b"r" * 16),
    "plugins.bash.store.interrupt": lambda tx, _: bash.interrupt(tx, NOW),
    "plugins.bash.store.delete": lambda tx, _: [bash.delete(tx, key) for key in (1, 2, 3)],
    "plugins.bash.store.remove_old": lambda tx, _: bash.remove_old(tx, NOW + 1),
    "plugins.loopback.rule_store.add": lambda tx, _: [
        rule_store.add(tx, NewRule("deny", "Bash", "rm *"), NOW),
        rule_store.add(tx, NewRule("deny", "Bash", "rm *"), NOW + 100),
    ],
    "plugins.loopback.rule_store.remove": lambda tx, w: rule_store.remove(tx, w.rule.id.hex()),
    "plugins.loopback.rule_store.usable": lambda tx, _: rule_store.usable(tx, NOW),
    "plugins.loopback.rule_store.use": lambda tx, w: [
        rule_store.use(tx, w.rule.id, NOW) for _ in range(3)
    ],
    "plugins.cone.store.set_system_message": lambda tx, w: cone.set_system_message(
        tx, w.cone.key, b"m" * 16
    ),
    "plugins.cone.store.add_message": add_message,
    "plugins.cone.store.ConeTable.find": lambda tx, w: cone.TABLE.find(tx, w.cone.name),
    "plugins.cone.store.ConeTable.is_taken": lambda tx, w: cone.TABLE.is_taken(tx, w.cone.name),
    "plugins.cone.store.ConeTable.insert": lambda tx, w: cone.TABLE.insert(
        tx, NewHead(b"c" * 16, "new", w.node, NOW), COLUMNS
    ),
    "plugins.cone.store.ConeTable.set_head": lambda tx, w: cone.TABLE.set_head(
        tx, w.cone.key, w.node.key, NOW
    ),
    "plugins.cone.store.ConeTable.delete": lambda tx, w: cone.TABLE.delete(tx, w.cone.key),
    "plugins.cone.store.ConeTable.is_busy": lambda tx, w: cone.TABLE.is_busy(tx, w.cone),
    "conversations.heads.Heads.find": lambda tx, w: cone.HEADS.find(tx, w.cone.name),
    "conversations.heads.Heads.reread": lambda tx, w: cone.HEADS.reread(tx, w.cone),
    "conversations.heads.Heads.create": lambda tx, _: cone.HEADS.create(tx, "new", COLUMNS, NOW),
    "conversations.heads.Heads.fork": lambda tx, w: cone.HEADS.fork(
        tx, w.cone, "fork", COLUMNS, NOW
    ),
    "conversations.heads.Heads.move": lambda tx, w: cone.HEADS.move(
        tx, w.cone, ids.text(w.node.id), NOW
    ),
    "conversations.heads.Heads.delete": lambda tx, w: cone.HEADS.delete(tx, w.cone, NOW),
    "conversations.attachments.put": lambda tx, w: attachments.put(
        tx, w.node, [parse("echo@1.0.0::once:hi")] * 2, NOW, side=True
    ),
    "conversations.heads.Heads.check_idle": lambda tx, w: cone.HEADS.check_idle(tx, w.cone),
}


@pytest.fixture(scope="module")
def base() -> sqlite3.Connection:
    tables = (*CONE_MIGRATIONS, *FILE_MIGRATIONS, *LOOPBACK_MIGRATIONS, *mustache.MIGRATIONS)
    return database(*BASH_MIGRATIONS, *tables, *WEB_MIGRATIONS)


@pytest.fixture(scope="module")
def world(base: sqlite3.Connection) -> World:
    tx = Tx(base)
    register(tx, "greeting")
    file.add(tx, SNAPSHOT, CONTENT)
    add_fetch(tx, b"w" * 16)
    begin(tx, b"c" * 16)
    finish(tx, b"c" * 16)
    begin(tx, b"r" * 16)
    row = cone.HEADS.create(tx, "assistant", COLUMNS, NOW)
    root = tree.place(tx, tree.find(tx, ids.text(row.tree_id)), None)
    node = tree.append(tx, root, tree.text("a message"), NOW)
    rule = rule_store.add(tx, NewRule("allow", "Bash", "git *", uses_left=2), NOW)
    return World(row, node, rule)


def test_every_function_of_these_stores_is_listed() -> None:
    modules = [hubd.conversations, bash, cone, file, rule_store, mustache, web]
    assert transaction_functions(modules) == {f"hubd.{name}" for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_a_second_run_after_a_rollback_is_like_the_first(
    name: str,
    base: sqlite3.Connection,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert_keeps_no_state(base, lambda tx: CASES[name](tx, world), monkeypatch, caplog)
