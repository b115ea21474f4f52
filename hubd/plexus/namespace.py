"""The methods that the hub answers for every namespace: `schema`, `hash`, `resolve_handle`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import Field
from pydantic_core import to_json

from hubd.activation.event import Encoded
from hubd.activation.handle import UnreadHandle
from hubd.activation.host import Resolved
from hubd.activation.method import UNIVERSAL, Method, MethodMark, mark_of, method, read_method
from hubd.activation.templates import Style
from hubd.errors import ActivationNotFound, HubError, InvalidParams, MethodNotFound
from hubd.mustache import MAX_TEMPLATE
from hubd.plexus import events
from hubd.plexus.describe import method_schema
from hubd.plexus.grants import may_call, refusal, visible_hash, visible_schema
from hubd.plexus.hub import Hub, Node
from hubd.plexus.resolve import Answer, resolve, resolve_each
from hubd.plexus.templates import Advise, TextOf, by_style, by_template
from hubd.wire.caller import Actor
from hubd.wire.jsonrpc import dump
from hubd.wire.text import did_you_mean

# The maximum number of handles in one call.
MAX_HANDLES: Final = 1000


class Namespace:
    """The universal methods of one namespace, as an actor sees it."""

    def __init__(self, hub: Hub, node: Node, actor: Actor, advise: Advise) -> None:
        self.hub = hub
        self.node = node
        self.actor = actor
        self._advise = advise

    @method(streaming=False, read_only=True)
    async def schema(self, method: str | None = None) -> AsyncIterator[Encoded]:
        """Show the schema of a namespace or of one of its methods.

        Args:
            method: Method name, or a path below this namespace such as `earth.info`.
        """
        if method is None:
            yield Encoded(dump(visible_schema(self.node, self.actor)))
            return
        *path, name = method.split(".")
        try:
            node = self.hub.find([*_segments(self.node), *path])
            spec = find_method(node, name)
        except (ActivationNotFound, MethodNotFound):
            if self.actor.grants is None:
                raise
            raise refusal(self.hub, self.actor, method) from None
        if not may_call(self.actor, node, spec):
            raise refusal(self.hub, self.actor, f"{node.path}.{spec.name}")
        yield Encoded(dump(method_schema(spec, node.activation, node.path)))

    @method(streaming=False, read_only=True)
    async def hash(self) -> AsyncIterator[events.Hash]:
        """Show the hash of a namespace. It changes with the namespace and everything below it."""
        yield events.Hash(value=visible_hash(self.node.hash, self.actor))

    @method(read_only=True)
    async def resolve_handle(
        self,
        handle: UnreadHandle | Annotated[list[UnreadHandle], Field(max_length=MAX_HANDLES)],
        template: Annotated[str, Field(max_length=MAX_TEMPLATE)] | None = None,
        style: Style | None = None,
    ) -> AsyncIterator[events.ResolvedHandle | events.UnresolvedHandle | Encoded]:
        """Show the data of a handle, or of each handle of a list.

        Args:
            handle: Handle, or array of handles. A handle that fails does not stop the others.
            template: Mustache template for the data, such as `{{role}}: {{content}}`, or the name
                of a registered one.
            style: Style of the text, by the templates of the handle types: `default`, `compact` or
                `verbose`.
        """
        if template is not None and style is not None:
            raise InvalidParams(
                "template and style exclude each other", suggestion="Give only one of them"
            )
        text_of: TextOf | None = None
        if template is not None:
            text_of = await by_template(self.hub, template, self._advise)
        elif style is not None:
            text_of = by_style(self.hub, style, self._advise)
        if not isinstance(handle, list):
            owner, results = await resolve(self.hub, handle, within=self.node)
            for entry in results:
                yield resolved_event(owner, entry, text_of and await text_of(entry))
            return
        async with aclosing(resolve_each(self.hub, handle, within=self.node)) as answers:
            async for event in answer_events(handle, answers, text_of):
                yield event


async def answer_events(
    handles: Iterable[str | dict[str, Any]],
    answers: AsyncIterator[Answer],
    text_of: TextOf | None = None,
) -> AsyncIterator[events.UnresolvedHandle | Encoded]:
    """Yield an event for each handle, in the order of the handles."""
    remaining = iter(handles)
    async for answer in answers:
        handle = next(remaining)
        if isinstance(answer, HubError):
            text = handle if isinstance(handle, str) else dump(handle).decode()
            yield events.UnresolvedHandle(handle=text, code=answer.code, message=answer.message)
        else:
            owner, results = answer
            for entry in results:
                yield resolved_event(owner, entry, text_of and await text_of(entry))


def resolved_event(owner: Node, entry: Resolved, text: str | None) -> Encoded:
    """Return a `ResolvedHandle` event, without parsing and encoding the data again."""
    origin = _origin(owner.plugin_id, owner.path, entry.handle.method)
    handle, summary = to_json(str(entry.handle)), to_json(entry.summary)
    parts = handle, entry.kind.encode(), entry.json, origin, summary, to_json(text)
    return Encoded(_RESOLVED % parts)


# A `ResolvedHandle`: handle, kind, data, origin, summary and text.
_RESOLVED: Final = (
    b'{"type":"resolved","handle":%b,"kind":"%b","data":%b,"origin":%b,"summary":%b,"text":%b}'
)


# Cached, because many handles have the same plugin and method.
@lru_cache(maxsize=1024)
def _origin(plugin_id: UUID, plugin: str, method: str) -> bytes:
    origin = events.HandleOrigin(plugin_id=str(plugin_id), plugin=plugin, method=method)
    return origin.__pydantic_serializer__.to_json(origin)


def find_method(node: Node, name: str) -> Method:
    """Return a method of a namespace. In its name, `-` and `_` are the same.

    Raises:
        MethodNotFound: Lists the methods that exist, and suggests the nearest.
    """
    name = name.replace("-", "_")
    entry = UNIVERSAL_METHODS.get(name) or node.activation.methods.get(name)
    if entry is None or (name == "resolve_handle" and not resolves(node)):
        names = list(node.activation.methods)
        raise MethodNotFound(
            f"'{node.path}' has no method '{name}'",
            suggestion=did_you_mean(name, names) or f"'{node.path}' has these methods",
            available=names,
        )
    return entry


def resolves(node: Node) -> bool:
    """Return whether a namespace has `resolve_handle`: hubs, and plugins with handle types."""
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
