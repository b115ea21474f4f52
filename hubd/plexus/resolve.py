"""Resolve handles: find the owner in the tree and run its resolver."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from hubd.activation.event import Encoded
from hubd.activation.handle import ORIGIN, Handle
from hubd.activation.host import Resolved
from hubd.activation.resolver import Resolver
from hubd.errors import (
    ExecutionError,
    HandleInvalid,
    HandleNotSupported,
    HandleTargetMissing,
    HubError,
    Internal,
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
# The resolvers for single handles that `resolve_each` runs at the same time.
CONCURRENT: Final = 16
# The maximum number of handles that a resolver gets at once, which bounds the memory.
MAX_GROUP: Final = 100

# The owner and the data of a handle, or the error of resolving it.
Answer = tuple[Node, list[Resolved]] | HubError
# The owner and the resolver of handles, by plugin, version and method.
Owners = dict[tuple[str, str, str], tuple[Node, Resolver]]


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


class _Target(NamedTuple):
    """A handle, its owner and the resolver for it."""

    owner: Node
    resolver: Resolver
    # With the name of the plugin, also if the given handle has its id.
    handle: WireHandle
    ref: Handle

    @property
    def where(self) -> str:
        return f"the resolver of {self.owner.path}"


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
    return await _resolve(_find(hub, handle, within))


async def resolve_each(
    hub: Hub, handles: Iterable[object], within: Node | None = None
) -> AsyncGenerator[Answer, None]:
    """Yield the owner and the data of each handle, or its error, in the order of the handles.

    Handles of one type go to their resolver in groups, if it takes many. Closing the generator
    cancels the resolvers that still run.
    """
    remaining = iter(handles)
    while page := list(islice(remaining, MAX_GROUP)):
        groups: dict[tuple[str, str] | None, list[_Target]] = {}
        # For each handle its error, or the group that answers it.
        order: list[HubError | tuple[str, str] | None] = []
        owners: Owners = {}
        for value in page:
            try:
                target = _find(hub, value, within, owners)
            except HubError as error:
                order.append(error)
                continue
            # All resolvers that take one handle share a group, in which some run at a time.
            group = (target.owner.path, target.handle.method) if target.resolver.many else None
            groups.setdefault(group, []).append(target)
            order.append(group)
        sources = {
            group: _one_by_one(targets) if group is None else _together(targets)
            for group, targets in groups.items()
        }
        try:
            for entry in order:
                yield entry if isinstance(entry, HubError) else await anext(sources[entry])
        finally:
            for source in sources.values():
                await source.aclose()


async def _together(targets: Sequence[_Target]) -> AsyncGenerator[Answer, None]:
    """Yield the answers of a resolver that takes many handles.

    If it fails as a whole, it gets each of the remaining handles alone. So a handle that makes it
    fail does not affect the others.
    """
    answered = 0
    try:
        if targets[0].resolver.returns:
            for target, result in zip(targets, await _list(targets), strict=True):
                answered += 1
                yield _answer(target, result)
            return
        async with aclosing(_results(targets)) as results:
            async for result in results:
                # The answer may be a failure of this handle alone.
                answer = _answer(targets[answered], result)
                answered += 1
                yield answer
        return
    except Exception as error:
        level = logging.DEBUG if isinstance(error, HubError) else logging.WARNING
        log.log(level, "%s failed for %d handles", targets[0].where, len(targets), exc_info=error)
    async with aclosing(_one_by_one(targets[answered:])) as answers:
        async for answer in answers:
            yield answer


async def _one_by_one(targets: Sequence[_Target]) -> AsyncGenerator[Answer, None]:
    """Yield the answer to each handle by itself. Some of the resolvers run at the same time."""
    remaining = iter(targets)
    running: deque[asyncio.Task[Answer]] = deque()
    try:
        while True:
            while len(running) < CONCURRENT and (target := next(remaining, None)) is not None:
                running.append(asyncio.create_task(_attempt(target)))
            if not running:
                return
            # Kept in the queue until it is done, so that closing the generator cancels it.
            answer = await running[0]
            running.popleft()
            yield answer
    finally:
        for task in running:
            task.cancel()


async def _attempt(target: _Target) -> Answer:
    try:
        return await _resolve(target)
    except HubError as error:
        return error


def _find(hub: Hub, value: object, within: Node | None, owners: Owners | None = None) -> _Target:
    """Return the owner and the resolver of a handle.

    Args:
        hub: The hub.
        value: The handle.
        within: The namespace to search.
        owners: The results for earlier handles, which often have the same owner.

    Raises:
        HubError: The handle is invalid, or has no owner or no resolver.
    """
    handle = read_handle(value)
    head = handle.plugin, handle.version, handle.method
    if owners is None or head not in owners:
        owner = hub.owner_of(handle, within)
        entry = owner.activation.resolvers.get(handle.method)
        if entry is None:
            types = sorted(owner.activation.resolvers)
            raise HandleNotSupported(
                f"{owner.path} has no handles '{handle.method}'", available=types
            )
        if owners is not None:
            owners[head] = owner, entry
    else:
        owner, entry = owners[head]
    if handle.plugin != owner.path:
        handle = replace(handle, plugin=owner.path)
    return _Target(owner, entry, handle, entry.handle.parse(handle))


async def _resolve(target: _Target) -> tuple[Node, list[Resolved]]:
    """Return the owner and the data of one handle.

    Raises:
        HubError: As `resolve`.
    """
    try:
        results = await _result_of(target) if target.resolver.many else await _read(target)
    except NotFound as error:
        raise _failure(target, error) from error
    except HubError:
        raise
    except Exception as error:
        raise _failure(target, error) from error
    if not results:
        raise _missing(target)
    return target.owner, results


async def _read(target: _Target) -> list[Resolved]:
    """Return everything that a resolver yields for one handle."""
    stream = target.resolver.function(target.owner.activation, target.ref)
    async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS), aclosing(stream):
        return [_resolved(target, event) async for event in stream]


async def _result_of(target: _Target) -> list[Resolved]:
    """Return the result of a resolver that takes many handles for one handle."""
    if target.resolver.returns:
        [result] = await _list([target])
    else:
        async with aclosing(_results([target])) as results:
            result = await anext(results)
    if isinstance(result, Exception):
        raise result
    return [] if result is None else [_resolved(target, result)]


async def _list(targets: Sequence[_Target]) -> Sequence[Any]:
    """Return the results of a resolver that takes many handles, one for each of them."""
    owner, entry = targets[0].owner, targets[0].resolver
    async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
        results: Sequence[Any] = await entry.function(
            owner.activation, [target.ref for target in targets]
        )
    if len(results) != len(targets):
        raise _miscounted(targets, len(results))
    return results


async def _results(targets: Sequence[_Target]) -> AsyncGenerator[Any, None]:
    """Yield the results of a resolver that takes many handles, one for each of them."""
    owner, entry = targets[0].owner, targets[0].resolver
    stream = entry.function(owner.activation, [target.ref for target in targets])
    async with aclosing(stream):
        for count in range(len(targets)):
            try:
                async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
                    result = await anext(stream)
            except StopAsyncIteration:
                raise _miscounted(targets, count) from None
            yield result


def _answer(target: _Target, result: object) -> Answer:
    """Return the answer from the result of a resolver that takes many handles."""
    if result is None:
        return _missing(target)
    if isinstance(result, Exception):
        return _failure(target, result)
    try:
        return target.owner, [_resolved(target, result)]
    except HubError as error:
        return error


def _resolved(target: _Target, event: object) -> Resolved:
    owner, resolver, handle, _ = target
    context = {ORIGIN: owner.activation.origin}
    json = encode(event, resolver.events, target.where, context)
    handle_type = resolver.handle
    # The data may be of another kind than most data of its handle type.
    kind = getattr(event, "resolved_kind", "") or handle_type.kind
    line = _summary(handle_type.summary, event, handle, context)
    return Resolved(handle, kind, json, line)


def _failure(target: _Target, error: Exception) -> HubError:
    """Return the error for the caller from the error of a resolver."""
    if isinstance(error, NotFound):
        return HandleTargetMissing(error.message)
    if isinstance(error, HubError):
        return error
    if isinstance(error, TimeoutError):
        return Timeout(f"{target.handle} took longer than {RESOLVE_TIMEOUT_SECONDS:.0f} s")
    log.error("the resolver of %s failed", target.handle, exc_info=error)
    failure = ExecutionError(f"{type(error).__name__}: {error}")
    failure.logged = True
    return failure


def _missing(target: _Target) -> HandleTargetMissing:
    return HandleTargetMissing(f"{target.handle} has no data any more")


def _miscounted(targets: Sequence[_Target], count: int) -> Internal:
    return Internal(
        f"{targets[0].where} has {count} results for {len(targets)} handles; write a result for "
        "each handle, None for missing data"
    )


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
        if event.fields is not None:
            return event.fields
        data: dict[str, Any] = from_json(event.json)
        return data
    names, dates = summary.field_names(template)
    data = event.__pydantic_serializer__.to_python(
        event, mode="json", include=set(names), context=context
    )
    return data | {name: getattr(event, name) for name in dates}
