"""Resolve handles: find the owner in the tree and run its resolver."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from pydantic_core import from_json

from hubd.activation.event import Encoded
from hubd.activation.handle import ORIGIN
from hubd.activation.host import Resolved
from hubd.errors import (
    ExecutionError,
    HandleInvalid,
    HandleNotSupported,
    HandleTargetMissing,
    HubError,
    NotFound,
    Timeout,
)
from hubd.plexus.encode import encode
from hubd.plexus.hub import Hub, Node
from hubd.wire import handle as grammar
from hubd.wire import summary
from hubd.wire.handle import WireHandle

log = logging.getLogger(__name__)

# The time limit of one resolver, so that a slow one does not block a whole tree.
RESOLVE_TIMEOUT_SECONDS: Final = 30.0
# The number of handles that `resolve_each` resolves at the same time.
CONCURRENT: Final = 16

# The owner and the data of a handle, or the error of resolving it.
Answer = tuple[Node, list[Resolved]] | HubError


def read_handle(value: object) -> WireHandle:
    """Parse a handle from its text or an object form.

    Raises:
        HandleInvalid: The value is not a handle.
    """
    if isinstance(value, WireHandle):
        return value
    try:
        return grammar.from_json(value)
    except grammar.InvalidHandle as error:
        raise HandleInvalid(str(error)) from None


async def resolve(
    hub: Hub, handle: object, within: Node | None = None
) -> tuple[Node, list[Resolved]]:
    """Return the owner and the data of a handle. A resolver may return several results.

    Args:
        hub: The hub.
        handle: The handle, its text or an object form.
        within: The namespace to search; the whole tree by default.

    Raises:
        HubError: `activation_not_found`, `version_unsupported`, `handle_not_supported`,
            `handle_invalid`, `handle_target_missing`, `timeout`, or the error of the resolver.
    """
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
            return await _resolve(hub, handle, within)
    except TimeoutError:
        raise _too_slow(handle) from None


async def resolve_each(
    hub: Hub, handles: Iterable[object], within: Node | None = None
) -> AsyncGenerator[Answer, None]:
    """Yield the owner and the data of each handle, or its error, in the order of the handles.

    Closing the generator cancels the resolvers that still run.
    """
    remaining = iter(handles)
    running: deque[asyncio.Task[Answer]] = deque()
    try:
        while True:
            while len(running) < CONCURRENT and (handle := next(remaining, None)) is not None:
                running.append(asyncio.create_task(_attempt(hub, handle, within)))
            if not running:
                return
            # Kept in the queue until it is done, so that closing the generator cancels it.
            answer = await running[0]
            running.popleft()
            yield answer
    finally:
        for task in running:
            task.cancel()


async def _attempt(hub: Hub, handle: object, within: Node | None) -> Answer:
    try:
        return await resolve(hub, handle, within)
    except HubError as error:
        return error


async def _resolve(hub: Hub, value: object, within: Node | None) -> tuple[Node, list[Resolved]]:
    handle = read_handle(value)
    owner = hub.owner_of(handle, within)
    if handle.plugin != owner.path:
        # The result names the plugin, also if the handle had its id.
        handle = replace(handle, plugin=owner.path)
    entry = owner.activation.resolvers.get(handle.method)
    if entry is None:
        types = sorted(owner.activation.resolvers)
        raise HandleNotSupported(f"{owner.path} has no handles '{handle.method}'", available=types)
    template = entry.handle.summary
    context = {ORIGIN: owner.activation.origin}
    results: list[Resolved] = []
    try:
        events = entry.function(owner.activation, entry.handle.parse(handle))
        async with aclosing(events) as stream:
            async for event in stream:
                json = encode(event, entry.events, f"the resolver of {owner.path}", context)
                line = _summary(template, event, handle, context)
                # The data may be of another kind than most data of its handle type.
                kind = getattr(event, "resolved_kind", "") or entry.handle.kind
                results.append(Resolved(handle, kind, json, line))
    except NotFound as error:
        raise HandleTargetMissing(error.message) from error
    except (HubError, TimeoutError):
        raise
    except Exception as error:
        log.exception("the resolver of %s failed", handle)
        failure = ExecutionError(f"{type(error).__name__}: {error}")
        failure.logged = True
        raise failure from error
    if not results:
        raise HandleTargetMissing(f"{handle} has no data any more")
    return owner, results


def _too_slow(handle: object) -> Timeout:
    return Timeout(f"{handle} took longer than {RESOLVE_TIMEOUT_SECONDS:.0f} s")


def _summary(template: str, event: Any, handle: WireHandle, context: dict[str, Any]) -> str:
    """Return the data in one line, by the template of the handle type."""
    if not template:
        return str(handle)
    try:
        return summary.fill(template, _fields(template, event, context))
    except summary.BadTemplate:
        log.warning("the summary %r of %s does not fit its data", template, handle)
        return str(handle)


def _fields(template: str, event: Any, context: dict[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a summary as JSON values. Dates with a format stay dates."""
    if isinstance(event, Encoded):
        data: dict[str, Any] = from_json(event.json)
        return data
    names, dates = summary.field_names(template)
    data = event.__pydantic_serializer__.to_python(
        event, mode="json", include=set(names), context=context
    )
    return data | {name: getattr(event, name) for name in dates}
