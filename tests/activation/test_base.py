"""Activation classes: their declaration, their checks at import, and their attributes."""

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from hubd.activation import (
    API_VERSION,
    Activation,
    Event,
    Handle,
    NotFound,
    Origin,
    method,
    resolver,
)
from hubd.activation.api_version import check_api_version
from hubd.errors import VersionUnsupported
from hubd.plexus.hub import Node
from hubd.wire.schema import PluginSchema
from tests.support import hub_with

# The module of the classes in these tests.
HERE = __name__


class NoteRef(Handle, method="add"):
    """A note."""

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
        """Store a note."""
        ref = NoteRef(id=uuid4())
        await self.db.execute("INSERT INTO notes_note (id, text) VALUES (?, ?)", ref.id.hex, text)
        yield Note(ref=ref, text=text)

    @method
    async def blank(self) -> AsyncIterator[Note]:
        """Store an empty note."""
        yield Note(ref=NoteRef(id=uuid4()), text="")

    @resolver
    async def note(self, ref: NoteRef) -> AsyncIterator[Note]:
        """Read the note that a handle points at."""
        row = await self.db.fetch_one("SELECT text FROM notes_note WHERE id = ?", ref.id.hex)
        if row is None:
            raise NotFound(f"no note {ref.id}")
        yield Note(ref=ref, text=row["text"])


class Better(Notes, namespace="better", version="1.1.0"):
    """Notes that can be deleted."""

    @method
    async def drop(self, ref: NoteRef) -> AsyncIterator[Note]:
        """Delete a note."""
        yield Note(ref=ref, text="")

    @method
    async def add(self, text: str) -> AsyncIterator[Note]:
        """Store a better note."""
        yield Note(ref=NoteRef(id=uuid4()), text=text)


def declare(members: dict[str, Any] | None = None, **arguments: str) -> Any:
    """Return an activation class named Plugin."""
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


def test_a_subclass_inherits_and_may_replace_methods() -> None:
    assert sorted(Better.methods) == ["add", "blank", "drop"]
    assert Better.methods["blank"] is Notes.methods["blank"]
    assert Better.methods["add"].description == "Store a better note."
    assert Notes.methods["add"].description == "Store a note."
    assert list(Notes.methods) == ["add", "blank"]
    assert Better.resolvers["add"].function is Notes.__dict__["note"]


class Reading(Activation):
    @method
    async def show(self) -> Note:
        """Show the newest note."""
        return Note(ref=NoteRef(id=uuid4()), text="")

    @method
    async def count(self) -> Note:
        """Count the notes."""
        return Note(ref=NoteRef(id=uuid4()), text="1")


class Writing(Activation):
    @method
    async def write(self) -> Note:
        """Write a note."""
        return Note(ref=NoteRef(id=uuid4()), text="")


class Composed(Reading, Writing, namespace="composed", version="1.0.0"):
    """Notes that are read and written."""

    @method
    async def drop(self) -> Note:
        """Delete a note."""
        return Note(ref=NoteRef(id=uuid4()), text="")

    @method
    async def show(self) -> Note:
        """Show a note in full."""
        return Note(ref=NoteRef(id=uuid4()), text="")


def test_methods_are_listed_by_base_then_by_class_and_replaced_ones_keep_their_place() -> None:
    assert list(Composed.methods) == ["show", "count", "write", "drop"]
    assert Composed.methods["show"].description == "Show a note in full."
    node = Node(Composed(), "composed", None)
    assert [entry["name"] for entry in node.schema["methods"]] == list(Composed.methods)


def test_the_order_of_bases_changes_the_list_and_not_the_hash() -> None:
    def schema(*bases: type[Activation]) -> PluginSchema:
        members = {"__doc__": "A plugin."}
        plugin: Any = type("Plugin", bases, members, namespace="plugin", version="1.0.0")
        return Node(plugin(), "plugin", None).schema

    one, other = schema(Reading, Writing), schema(Writing, Reading)
    assert [entry["name"] for entry in other["methods"]] == ["write", "show", "count"]
    assert one["hash"] == other["hash"]


def test_the_method_resolution_order_chooses_between_methods_of_one_name() -> None:
    class Replacing(Reading):
        @method
        async def count(self) -> Note:
            """Count the unread notes."""
            return Note(ref=NoteRef(id=uuid4()), text="")

    class Plain(Reading):
        pass

    class Both(Plain, Replacing, namespace="both", version="1.0.0"):
        """Counts as its second base does, because the first one only inherits."""

    assert Both.methods["count"].description == "Count the unread notes."
    assert list(Both.methods) == ["show", "count"]


async def test_a_mixin_cannot_be_attached(tmp_path: Path) -> None:
    mixin = Reading()
    mixin.namespace = "reading"
    with pytest.raises(TypeError, match=r"Reading: give a semantic version, such as version="):
        async with hub_with(tmp_path, mixin):
            pass


def test_the_path_of_an_unattached_activation_is_its_namespace() -> None:
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


def test_an_instance_may_set_its_namespace() -> None:
    assert declare(version="1.0.0").namespace == ""


@pytest.mark.parametrize("version", ["1.0.0", "0.12.345", "1.0.0-rc.1"])
def test_a_semantic_version_is_accepted(version: str) -> None:
    assert declare(version=version).version == version


@pytest.mark.parametrize("version", ["", "1", "1.0", "v1.0.0", "1.0.0 ", "1.0.0\n", "1.0.0-"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(TypeError) as caught:
        declare(namespace="plugin", version=version)
    assert str(caught.value) == f"{HERE}.Plugin: give a semantic version, such as version='1.0.0'"


@pytest.mark.parametrize("version", ["1.0.0+build", "١.٠.٠"])
def test_a_version_with_characters_outside_of_handles_is_refused(version: str) -> None:
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
def test_names_of_universal_methods_are_refused(name: str) -> None:
    @method(name=name)
    async def taken(self: Activation) -> AsyncIterator[Note]:
        """Have the name of a universal method."""
        yield Note(ref=NoteRef(id=uuid4()), text="")

    with pytest.raises(TypeError) as caught:
        declare({"taken": taken}, namespace="plugin", version="1.0.0")
    assert str(caught.value) == (
        f"{HERE}.Plugin.{name}: the hub answers '{name}' for every namespace; choose another name"
    )


def test_a_method_cannot_replace_a_member_of_activation() -> None:
    @method(name="host_name")
    async def host(self: Activation) -> AsyncIterator[Note]:
        """Replace the host."""
        yield Note(ref=NoteRef(id=uuid4()), text="")

    with pytest.raises(TypeError) as caught:
        declare({"host": host}, namespace="plugin", version="1.0.0")
    assert str(caught.value) == (
        f"{HERE}.Plugin.host replaces a member of every activation; "
        "rename the function and write @method(name='host_name')"
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
        """Return a note."""
        yield Note(ref=NoteRef(id=uuid4()), text="")

    async def second(self: Activation) -> AsyncIterator[Note]:
        """Return another note."""
        yield Note(ref=NoteRef(id=uuid4()), text="")

    members = {"first": method(name="say")(first), "second": method(name="say")(second)}
    with pytest.raises(TypeError, match="Plugin: two methods named 'say'"):
        declare(members, namespace="plugin", version="1.0.0")


def test_a_method_that_is_replaced_without_its_decorator_is_refused() -> None:
    async def add(self: Activation, text: str) -> Note:
        return Note(ref=NoteRef(id=uuid4()), text=text)

    with pytest.raises(TypeError) as caught:
        type("Plugin", (Notes,), {"__doc__": "A plugin.", "add": add})
    assert str(caught.value) == (
        f"{HERE}.Plugin.add replaces a method of a base class; write its decorator "
        "(@method or @resolver) again"
    )


def test_a_misspelt_class_argument_is_refused() -> None:
    with pytest.raises(TypeError) as caught:
        declare(namspace="plugin", version="1.0.0")
    assert str(caught.value) == (
        f"{HERE}.Plugin: there is no argument 'namspace'. Did you mean namespace?"
    )


@pytest.mark.parametrize(
    ("migrations", "problem"),
    [
        ("CREATE TABLE a", 'migrations is a text, not a tuple; write a comma after it: ("CREATE'),
        (("CREATE TABLE a", 3), "migration 2 must be a text of SQL"),
        ({"CREATE TABLE a"}, "migrations must be a tuple of SQL texts"),
    ],
)
def test_migrations_must_be_a_tuple_of_texts(migrations: object, problem: str) -> None:
    with pytest.raises(TypeError) as caught:
        declare({"migrations": migrations}, namespace="plugin", version="1.0.0")
    assert str(caught.value).startswith(f"{HERE}.Plugin: {problem}")


async def _coroutine(self: Activation) -> None:
    pass


async def _generator(self: Activation) -> AsyncIterator[None]:
    yield


async def _with_parameter(self: Activation, hub: str) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    ("lifespan", "problem"),
    [
        (_coroutine, "must be an async generator; add a `yield` between the start and the clean"),
        (lambda self: None, "must be an async generator; write `async def lifespan(self) -> As"),
        (asynccontextmanager(_generator), "must be an async generator; remove its decorator"),
        (_with_parameter, "takes only `self`; write `async def lifespan(self) -> AsyncIterator"),
    ],
)
def test_a_lifespan_must_be_an_async_generator_without_parameters(
    lifespan: object, problem: str
) -> None:
    with pytest.raises(TypeError) as caught:
        declare({"lifespan": lifespan}, namespace="plugin", version="1.0.0")
    assert str(caught.value).startswith(f"{HERE}.Plugin.lifespan {problem}")


def test_a_plugin_may_require_a_version_of_the_api() -> None:
    assert declare(namespace="plugin", version="1.0.0", requires_api=API_VERSION).version == "1.0.0"
    with pytest.raises(VersionUnsupported) as caught:
        declare(namespace="plugin", version="1.0.0", requires_api="99.0")
    assert caught.value.message == (
        f"{HERE}.Plugin requires version 99.0 of the plugin API, and this hubd has {API_VERSION}"
    )


@pytest.mark.parametrize(
    ("required", "offered", "suggestion"),
    [
        ("1.2", "1.2", None),
        ("1.2", "1.10", None),
        ("1.3", "1.2", "Install a newer hubd"),
        ("2.0", "1.2", "Install a newer hubd"),
        ("1.2", "2.0", "Install a newer version of the plugin"),
    ],
)
def test_another_major_and_an_older_minor_version_of_the_api_are_refused(
    required: str, offered: str, suggestion: str | None
) -> None:
    if suggestion is None:
        check_api_version("Plugin", required, offered)
        return
    with pytest.raises(VersionUnsupported) as caught:
        check_api_version("Plugin", required, offered)
    assert caught.value.suggestion == suggestion


@pytest.mark.parametrize("required", ["1", "1.0.0", "v1.0", 1.0])
def test_a_required_version_of_the_api_is_major_and_minor(required: Any) -> None:
    with pytest.raises(TypeError, match=r"requires_api=.* must be major.minor, such as"):
        declare(namespace="plugin", version="1.0.0", requires_api=required)
