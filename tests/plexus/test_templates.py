"""Templates that a handle type declares: checked at import, used by style."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from hubd.activation import Activation, Event, Handle, resolver
from hubd.activation.templates import Render, Style
from hubd.plexus.hub import Hub
from tests.support import call_events, hub_with


class NoteRef(
    Handle,
    method="add",
    kind="document",
    summary="{text}",
    templates={"compact": "{{text}} & co", "verbose": "{{#lines}}{{.}};{{/lines}}"},
):
    """A note."""

    id: UUID


class Note(Event):
    text: str
    lines: list[str]


class Notes(Activation, namespace="notes", version="1.0.0"):
    """Notes, and templates for them."""

    source: Any = None

    @resolver
    async def note(self, ref: NoteRef) -> Note:
        """Read a note."""
        return Note(text="milk", lines=["a", "b"])

    async def lifespan(self) -> AsyncIterator[None]:
        """Offer templates."""
        with self.host.providing_templates(self):
            yield

    async def named(self, name: str) -> Render | None:
        """Return no template."""
        return None

    async def tied(self, handle_type: str, style: Style) -> Render | None:
        """Return the template of the test."""
        result: Render | None = self.source(handle_type, style) if self.source else None
        return result


HANDLE = f"notes@1.0.0::add:{UUID(int=1)}"


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def hub(tmp_path: Path, notes: Notes) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, notes) as hub:
        yield hub


async def texts(hub: Hub) -> dict[str, str]:
    by_style = {}
    for style in ("default", "compact", "verbose"):
        [event] = await call_events(hub, "plexus.resolve_handle", handle=HANDLE, style=style)
        by_style[style] = event["text"]
    return by_style


async def test_declared_templates_are_used_by_style(hub: Hub) -> None:
    assert await texts(hub) == {"default": "milk", "compact": "milk & co", "verbose": "a;b;"}


async def test_a_tied_template_comes_before_a_declared_one_of_the_same_style(
    hub: Hub, notes: Notes
) -> None:
    asked = []

    def source(handle_type: str, style: Style) -> Render | None:
        asked.append((handle_type, style))
        return (lambda data: f"own {data['text']}") if style in ("default", "compact") else None

    notes.source = source
    assert await texts(hub) == {"default": "own milk", "compact": "own milk", "verbose": "a;b;"}
    assert set(asked) == {("notes::add", style) for style in ("default", "compact", "verbose")}


async def test_a_source_that_fails_leaves_the_summary(hub: Hub, notes: Notes) -> None:
    def fails(data: Any) -> str:
        raise KeyError("missing")

    notes.source = lambda handle_type, style: fails
    assert set((await texts(hub)).values()) == {"milk"}
    notes.source = fails  # with too many arguments
    assert set((await texts(hub)).values()) == {"milk"}


async def test_templates_end_with_their_plugin(tmp_path: Path, notes: Notes) -> None:
    async with hub_with(tmp_path, notes) as hub:
        assert hub.template_sources == [notes]
    assert hub.template_sources == []


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        ({"loud": "x"}, "the style 'loud' of a template is not one of"),
        ({"compact": "{{#open}}"}, "template 'compact': "),
        ({"compact": "{{>other}}"}, "template 'compact' has partials"),
    ],
)
def test_mistakes_in_declared_templates_are_errors_at_import(
    templates: dict[str, str], message: str
) -> None:
    def declare() -> Callable[..., Any]:
        class BadRef(Handle, method="bad", templates=templates):
            """A handle."""

        return BadRef

    with pytest.raises(TypeError, match=r"BadRef: ") as error:
        declare()
    assert message in str(error.value)
