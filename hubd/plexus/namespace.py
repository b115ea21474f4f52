"""The methods that every namespace answers: `schema`, `hash` and `resolve_handle`."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import BaseModel, Field
from pydantic_core import to_json

from hubd.activation.event import Encoded, Event
from hubd.activation.handle import UnreadHandle
from hubd.activation.host import Resolved
from hubd.activation.method import UNIVERSAL, Method, MethodMark, mark_of, method, read_method
from hubd.errors import HubError, MethodNotFound
from hubd.mustache.template import MAX_TEMPLATE, Template
from hubd.plexus.describe import method_schema
from hubd.plexus.hub import Hub, Node, did_you_mean
from hubd.plexus.resolve import Answer, resolve, resolve_each
from hubd.wire.jsonrpc import dump

# One call resolves at most this many handles; a longer list is several calls.
MAX_HANDLES: Final = 1000


class Hash(Event):
    """The hash of a namespace; `event` is there for older clients."""

    event: str = "hash"
    value: str


class HandleOrigin(BaseModel, defer_build=True):
    """Who owns a handle."""

    plugin_id: str
    plugin: str
    method: str


class ResolvedHandle(Event, tag="resolved"):
    """What a handle points at."""

    handle: str
    kind: str
    data: dict[str, Any]
    origin: HandleOrigin
    summary: str
    text: str | None = Field(description="The data as the template has it, if one was given")


class UnresolvedHandle(Event, tag="unresolved"):
    """Why one of several handles could not be resolved."""

    handle: str
    code: str
    message: str


class Namespace:
    """One namespace, as the hub itself answers for it."""

    def __init__(self, hub: Hub, node: Node) -> None:
        self.hub = hub
        self.node = node

    @method(streaming=False, read_only=True)
    async def schema(self, method: str | None = None) -> AsyncIterator[Encoded]:
        """Describe this namespace, or one method of it.

        Args:
            method: A method; a path such as `earth.info` reaches into the children.
        """
        if method is None:
            yield Encoded(dump(self.node.schema))
            return
        *path, name = method.split(".")
        node = self.hub.find([*_segments(self.node), *path])
        yield Encoded(dump(describe_method(node, name)))

    @method(streaming=False, read_only=True)
    async def hash(self) -> AsyncIterator[Hash]:
        """The hash that changes when anything in this namespace or below it does."""
        yield Hash(value=self.node.schema["hash"])

    @method(read_only=True)
    async def resolve_handle(
        self,
        handle: UnreadHandle | Annotated[list[UnreadHandle], Field(max_length=MAX_HANDLES)],
        template: Annotated[str, Field(max_length=MAX_TEMPLATE)] | None = None,
    ) -> AsyncIterator[ResolvedHandle | UnresolvedHandle | Encoded]:
        """Read back what a handle points at, or each of several, in order.

        Args:
            handle: The handle, or an array of handles; of several, those that fail are
                reported one by one and do not stop the others.
            template: Write the data by this Mustache template, such as `{{role}}: {{content}}`.
        """
        written = None
        if template is not None:
            # In a thread, as all work on templates: a long one would hold up everybody else.
            written = await asyncio.to_thread(Template.parse, template)
        if not isinstance(handle, list):
            owner, found = await resolve(self.hub, handle, within=self.node)
            for resolved in await resolved_events(owner, found, written):
                yield resolved
            return
        async with aclosing(resolve_each(self.hub, handle, within=self.node)) as answers:
            async for event in answered(handle, answers, written):
                yield event


async def answered(
    handles: Iterable[str | dict[str, Any]],
    answers: AsyncIterator[Answer],
    template: Template | None = None,
) -> AsyncIterator[UnresolvedHandle | Encoded]:
    """What several handles point at, as events, in order."""
    given = iter(handles)
    async for answer in answers:
        asked = next(given)
        if isinstance(answer, HubError):
            shown = asked if isinstance(asked, str) else dump(asked).decode()
            yield UnresolvedHandle(handle=shown, code=answer.code, message=answer.message)
        else:
            for event in await resolved_events(*answer, template):
                yield event


async def resolved_events(
    owner: Node, found: list[Resolved], template: Template | None
) -> list[Encoded]:
    """What a handle points at, as `ResolvedHandle` events; the data goes in as it is."""
    texts: list[str | None] = [None] * len(found)
    if template is not None:
        texts = await asyncio.to_thread(_written, template, found)
    return [
        Encoded(
            b'{"type":"resolved","handle":%b,"kind":"%b","data":%b,"origin":%b,"summary":%b,'
            b'"text":%b}'
            % (
                to_json(str(entry.handle)),
                entry.kind.encode(),
                entry.json,
                _origin(owner.plugin_id, owner.path, entry.handle.method),
                to_json(entry.summary),
                to_json(text),
            )
        )
        for entry, text in zip(found, texts, strict=True)
    ]


def _written(template: Template, found: list[Resolved]) -> list[str | None]:
    """The data as a template has it: text, not HTML."""
    return [template.render(entry.data, escape=False) for entry in found]


# Few plugins with few kinds of handles own very many handles.
@lru_cache(maxsize=1024)
def _origin(plugin_id: UUID, plugin: str, method: str) -> bytes:
    origin = HandleOrigin(plugin_id=str(plugin_id), plugin=plugin, method=method)
    return origin.__pydantic_serializer__.to_json(origin)


def describe_method(node: Node, name: str) -> Mapping[str, Any]:
    """The schema of one method, universal ones included.

    Raises:
        MethodNotFound: There is none of that name.
    """
    return method_schema(find_method(node, name), node.activation, node.path)


def find_method(node: Node, name: str) -> Method:
    """A method of a namespace by its name; `-` and `_` are the same.

    Raises:
        MethodNotFound: With the names there are, and the nearest.
    """
    name = name.replace("-", "_")
    found = UNIVERSAL_METHODS.get(name) or node.activation.methods.get(name)
    if found is None or (name == "resolve_handle" and not resolves(node)):
        names = list(node.activation.methods)
        raise MethodNotFound(
            f"'{node.path}' has no method '{name}'",
            suggestion=did_you_mean(name, names) or f"'{node.path}' has these methods",
            available=names,
        )
    return found


def resolves(node: Node) -> bool:
    """Whether a namespace answers `resolve_handle`: every hub does, and all with handle types."""
    return bool(node.activation.resolvers or node.children or node.parent is None)


def _segments(node: Node) -> list[str]:
    return [] if node.parent is None else node.path.split(".")


def _read() -> dict[str, Method]:
    marked = ((name, getattr(Namespace, name)) for name in UNIVERSAL)
    return {
        name: read_method("Namespace", function, mark)
        for name, function in marked
        if isinstance(mark := mark_of(function), MethodMark)
    }


UNIVERSAL_METHODS: Final[Mapping[str, Method]] = _read()
