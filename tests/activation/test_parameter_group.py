"""A TypedDict declares the parameters that several methods share."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, NotRequired, Required, TypedDict, Unpack

import pytest
from pydantic import Field

from hubd.activation import Activation, Event, Handle, method, resolver
from hubd.activation.pages import RowLimit
from tests.support import call_error, call_events, hub_with


class Line(Event):
    text: str


class StreamAddress(TypedDict):
    """The stream to read.

    Args:
        session: Session name.
        stream: Stream id; the session's newest stream
            by default.
    """

    session: str
    stream: NotRequired[str | None]
    limit: NotRequired[Annotated[RowLimit, Field(default=20, description="Maximum of rows.")]]
    tags: NotRequired[Annotated[list[str], Field(default_factory=list, description="Tags.")]]


NO_TAGS: Any = Field(default_factory=list)


class Streams(Activation, namespace="streams", version="1.0.0"):
    """Reads streams."""

    @method(aliases={"stream": ["id"]})
    async def grouped(self, after: int = 0, **where: Unpack[StreamAddress]) -> Line:
        """Read a stream.

        Args:
            after: Sequence number.
        """
        return Line(text=f"{after} {dict(where)}")

    @method(aliases={"stream": ["id"]})
    async def spelled_out(
        self,
        session: str,
        after: int = 0,
        stream: str | None = None,
        limit: RowLimit = 20,
        tags: list[str] = NO_TAGS,
    ) -> Line:
        """Read a stream.

        Args:
            session: Session name.
            after: Sequence number.
            stream: Stream id; the session's newest stream by default.
            limit: Maximum of rows.
            tags: Tags.
        """
        return Line(text=f"{after} {session} {stream} {limit} {tags}")

    @method
    async def described(self, **where: Unpack[StreamAddress]) -> AsyncIterator[Line]:
        """Read a stream in another way.

        Args:
            session: The session to read.
            limit: The number of lines.
        """
        yield Line(text=where["session"])


def test_the_schema_is_that_of_spelled_out_parameters() -> None:
    grouped = Streams.methods["grouped"].params_schema
    assert grouped == Streams.methods["spelled_out"].params_schema
    assert grouped["required"] == ["session"]


def test_the_docstring_of_the_method_may_describe_a_parameter_of_the_group() -> None:
    properties = Streams.methods["described"].params_schema["properties"]
    assert properties["session"]["description"] == "The session to read."
    assert properties["limit"]["description"] == "The number of lines."
    assert properties["tags"]["description"] == "Tags."


async def test_a_call_fills_the_group_with_values_and_defaults(tmp_path: Path) -> None:
    async with hub_with(tmp_path, Streams()) as hub:
        [line] = await call_events(hub, "streams.grouped", session="a", id="b", limit=3)
        assert line["text"] == "0 {'session': 'a', 'stream': 'b', 'limit': 3, 'tags': []}"
        [line] = await call_events(hub, "streams.grouped", session="a")
        assert line["text"] == "0 {'session': 'a', 'stream': None, 'limit': 20, 'tags': []}"
        error = await call_error(hub, "streams.grouped", stream="b")
        assert (error["code"], "session" in error["message"]) == ("invalid_params", True)
        error = await call_error(hub, "streams.grouped", session="a", where={})
        assert error["code"] == "invalid_params"


async def test_the_method_can_be_called_without_a_hub() -> None:
    assert (await Streams().grouped(session="a")).text == "0 {'session': 'a'}"


def test_one_of_may_name_parameters_of_a_group() -> None:
    class Choice(TypedDict, total=False):
        """Either of two.

        Args:
            name: Name.
            id: Id.
        """

        name: str | None
        id: str | None

    class Chosen(Activation, namespace="chosen", version="1.0.0"):
        """Takes one of two."""

        @method(one_of=("name", "id"))
        async def choose(self, **which: Unpack[Choice]) -> Line:
            """Choose."""
            return Line(text="")

    schema = Chosen.methods["choose"].params_schema
    assert schema["oneOf"] == [{"required": ["name"]}, {"required": ["id"]}]


def test_a_derived_group_has_the_fields_of_its_base() -> None:
    class Described(TypedDict, total=False):
        session: Required[Annotated[str, Field(description="Session name.")]]

    class Longer(Described):
        """A session and a node.

        Args:
            node: Node id.
        """

        node: str

    assert list(_plugin(Longer).methods["read"].fields) == ["after", "session", "node"]


class Undocumented(TypedDict):
    session: str


class Overdocumented(TypedDict):
    """Has a text without a field.

    Args:
        session: Session name.
        sesion: Session name.
    """

    session: str


class WithoutDefault(TypedDict, total=False):
    """Leaves out a number.

    Args:
        limit: Maximum.
    """

    limit: int


class RequiredDefault(TypedDict):
    limit: Annotated[int, Field(default=3, description="Maximum.")]


class Repeating(TypedDict):
    after: Annotated[int, Field(description="Sequence number.")]


class Private(TypedDict):
    _after: Annotated[int, Field(description="Sequence number.")]


class Unresolvable(TypedDict):
    after: "Missing"  # type: ignore[name-defined]  # noqa: F821 -- the mistake under test


def _plugin(group: Any) -> type[Activation]:
    async def read(self: Activation, after: int = 0, **where: Any) -> Line:
        """Read."""
        return Line(text="")

    read.__annotations__["where"] = group if group in (int, None) else Unpack[group]
    if group is None:
        del read.__annotations__["where"]
    members = {"__doc__": "A plugin.", "read": method(read)}
    return type("Plugin", (Activation,), members, namespace="plugin", version="1.0.0")


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (None, "**where has no schema; name every parameter, or write **where: Unpack[SomeT"),
        (int, "**where has no schema; name every parameter, or write **where: Unpack[SomeT"),
        (Undocumented, "the field 'session' of Undocumented is not documented; describe it"),
        (Overdocumented, "the docstring of Overdocumented documents unknown field(s) sesion"),
        (WithoutDefault, "the field 'limit' of WithoutDefault may be left out; let its type be"),
        (RequiredDefault, "the field 'limit' of RequiredDefault has a default; write NotReq"),
        (Repeating, "'after' is a parameter and a field of its group; remove one of them"),
        (Private, "parameter '_after' must not begin with '_'"),
        (Unresolvable, "a type hint of Unresolvable cannot be resolved (name 'Missing'"),
    ],
)
def test_a_mistake_in_a_group_is_an_error_at_import(group: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        _plugin(group)
    assert str(caught.value).startswith(f"{__name__}.Plugin.read: {message}")


def test_a_resolver_takes_a_handle_and_no_group() -> None:
    class Ref(Handle, method="read"):
        """A line."""

        id: str

    class Line2(Event):
        text: str

    async def read(self: Activation, ref: Ref, **where: Unpack[StreamAddress]) -> Line2:
        return Line2(text="")

    with pytest.raises(TypeError, match="a resolver takes one parameter"):
        type(
            "Plugin",
            (Activation,),
            {"__doc__": "A plugin.", "read": resolver(read)},
            namespace="plugin",
            version="1.0.0",
        )
