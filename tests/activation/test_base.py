"""What makes a class an activation, and what it may use once it is attached to a hub."""

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from hubd.activation import Activation, Event, Handle, NotFound, Origin, method, resolver
from tests.support import hub_with

# The module of the classes that the tests make.
HERE = __name__


class NoteRef(Handle, method="add"):
    """Points at one note."""

    id: UUID


class Note(Event):
    ref: NoteRef
    text: str


class Notes(Activation, namespace="notes", version="1.0.0"):
    """Short notes that outlive the session.

    Each has a handle,
    and handles never change.
    """

    migrations = ("CREATE TABLE notes_note (id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT",)

    @method
    async def add(self, text: str) -> AsyncIterator[Note]:
        """Remember a note."""
        ref = NoteRef(id=uuid4())
        await self.db.execute("INSERT INTO notes_note (id, text) VALUES (?, ?)", ref.id.hex, text)
        yield Note(ref=ref, text=text)

    @method
    async def blank(self) -> AsyncIterator[Note]:
        """Remember nothing."""
        yield Note(ref=NoteRef(id=uuid4()), text="")

    @resolver
    async def note(self, ref: NoteRef) -> AsyncIterator[Note]:
        """Read one note back."""
        row = await self.db.fetch_one("SELECT text FROM notes_note WHERE id = ?", ref.id.hex)
        if row is None:
            raise NotFound(f"no note {ref.id}")
        yield Note(ref=ref, text=row["text"])


class Better(Notes, namespace="better", version="1.1.0"):
    """Notes with a way to drop them."""

    @method
    async def drop(self, ref: NoteRef) -> AsyncIterator[Note]:
        """Forget a note."""
        yield Note(ref=ref, text="")

    @method
    async def add(self, text: str) -> AsyncIterator[Note]:
        """Remember a better note."""
        yield Note(ref=NoteRef(id=uuid4()), text=text)


def declare(members: dict[str, Any] | None = None, **arguments: str) -> Any:
    """An activation class named Plugin, as importing its module would make it."""
    return type("Plugin", (Activation,), {"__doc__": "A plugin.", **(members or {})}, **arguments)


async def test_an_added_note_resolves_to_its_text(tmp_path: Path) -> None:
    notes = Notes()
    async with hub_with(tmp_path, notes):
        [added] = [event async for event in notes.add("buy milk")]
        [note] = [event async for event in notes.note(NoteRef.parse(str(added.ref)))]
    assert note.text == "buy milk"


def test_the_docstring_is_the_description_and_the_details() -> None:
    assert Notes.description == "Short notes that outlive the session."
    assert Notes.details == "Each has a handle,\nand handles never change."


def test_marked_functions_are_the_methods_and_resolvers_and_stay_functions() -> None:
    assert list(Notes.methods) == ["add", "blank"]
    assert Notes.methods["add"].function is Notes.__dict__["add"]
    assert list(Notes.resolvers) == ["add"]
    assert Notes.resolvers["add"].handle is NoteRef
    assert inspect.isasyncgenfunction(Notes.add)


def test_a_subclass_has_what_its_base_has_and_may_replace_it() -> None:
    assert sorted(Better.methods) == ["add", "blank", "drop"]
    assert Better.methods["blank"] is Notes.methods["blank"]
    assert Better.methods["add"].description == "Remember a better note."
    assert Notes.methods["add"].description == "Remember a note."
    assert list(Notes.methods) == ["add", "blank"]
    assert Better.resolvers["add"].function is Notes.__dict__["note"]


def test_before_it_is_attached_an_activation_stands_at_its_namespace() -> None:
    assert Notes().path == "notes"
    assert Notes().origin == Origin("notes", "1.0.0")
    assert list(Notes().children()) == []


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("host", "Notes is not attached to a hub"),
        ("db", "Notes is not attached to a hub with a database"),
    ],
)
def test_an_unattached_activation_has_neither_host_nor_database(member: str, words: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        getattr(Notes(), member)
    assert str(caught.value) == words


async def test_an_attached_activation_knows_its_path_host_and_database(tmp_path: Path) -> None:
    class Parent(Activation, namespace="parent", version="2.0.0"):
        """Has one child."""

        def children(self) -> list[Activation]:
            return [child]

    child: Activation = declare(namespace="child", version="3.1.0")()
    async with hub_with(tmp_path, Parent()):
        assert child.path == "parent.child"
        assert child.origin == Origin("parent.child", "3.1.0")
        assert child.host is not None
        assert await child.db.fetch_all("SELECT 1 AS one")


async def test_the_default_lifespan_yields_once() -> None:
    assert [step async for step in Notes().lifespan()] == [None]


def test_the_namespace_may_be_left_to_the_instance() -> None:
    assert declare(version="1.0.0").namespace == ""


@pytest.mark.parametrize("version", ["1.0.0", "0.12.345", "1.0.0-rc.1"])
def test_a_semantic_version_is_accepted(version: str) -> None:
    assert declare(version=version).version == version


@pytest.mark.parametrize("version", ["", "1", "1.0", "v1.0.0", "1.0.0 ", "1.0.0\n", "1.0.0-"])
def test_anything_but_a_semantic_version_is_refused(version: str) -> None:
    with pytest.raises(TypeError) as caught:
        declare(namespace="plugin", version=version)
    assert str(caught.value) == f"{HERE}.Plugin: give a semantic version, such as version='1.0.0'"


@pytest.mark.parametrize("version", ["1.0.0+build", "١.٠.٠"])
def test_a_version_that_no_handle_could_carry_is_refused(version: str) -> None:
    with pytest.raises(TypeError, match="Plugin: give a semantic version"):
        declare(namespace="plugin", version=version)


@pytest.mark.parametrize("namespace", ["a.b", "1st", "_a", "a b", "a:b", "ä", "a\n"])
def test_a_namespace_is_one_word(namespace: str) -> None:
    with pytest.raises(TypeError) as caught:
        declare(namespace=namespace, version="1.0.0")
    assert str(caught.value) == (
        f"{HERE}.Plugin: namespace {namespace!r} must be one word: "
        "a letter, then letters, digits, '_' or '-'"
    )


def test_a_class_without_a_docstring_is_refused() -> None:
    with pytest.raises(TypeError) as caught:
        declare({"__doc__": None}, namespace="plugin", version="1.0.0")
    assert str(caught.value) == f"{HERE}.Plugin: write a docstring; its first line is the help"


@pytest.mark.parametrize("name", ["schema", "hash", "resolve_handle"])
def test_a_name_that_the_hub_answers_everywhere_is_refused(name: str) -> None:
    @method(name=name)
    async def taken(self: Activation) -> AsyncIterator[Note]:
        """Take a name that is not free."""
        yield Note(ref=NoteRef(id=uuid4()), text="")

    with pytest.raises(TypeError) as caught:
        declare({"taken": taken}, namespace="plugin", version="1.0.0")
    assert str(caught.value) == (
        f"{HERE}.Plugin.{name}: the hub answers '{name}' for every namespace; choose another name"
    )


def test_a_function_that_would_hide_part_of_the_base_class_is_refused() -> None:
    @method(name="host_name")
    async def host(self: Activation) -> AsyncIterator[Note]:
        """Hide the host."""
        yield Note(ref=NoteRef(id=uuid4()), text="")

    with pytest.raises(TypeError) as caught:
        declare({"host": host}, namespace="plugin", version="1.0.0")
    assert str(caught.value) == (
        f"{HERE}.Plugin.host hides what every activation has; "
        "call the function otherwise and give @method(name=…)"
    )


def test_two_resolvers_for_one_type_are_refused() -> None:
    async def read(self: Activation, ref: NoteRef) -> AsyncIterator[Note]:
        yield Note(ref=ref, text="")

    members = {"one": resolver(read), "other": resolver(read)}
    with pytest.raises(TypeError) as caught:
        declare(members, namespace="plugin", version="1.0.0")
    assert str(caught.value) == f"{HERE}.Plugin: two resolvers for handles of type add"


def test_two_methods_of_one_name_are_refused() -> None:
    async def first(self: Activation) -> AsyncIterator[Note]:
        """Say one thing."""
        yield Note(ref=NoteRef(id=uuid4()), text="")

    async def second(self: Activation) -> AsyncIterator[Note]:
        """Say another."""
        yield Note(ref=NoteRef(id=uuid4()), text="")

    members = {"first": method(name="say")(first), "second": method(name="say")(second)}
    with pytest.raises(TypeError, match="Plugin: two methods named 'say'"):
        declare(members, namespace="plugin", version="1.0.0")
