"""Handles to data, through the tree of hubs."""

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import lru_cache
from string import Formatter
from typing import Any, Final

from pydantic_core import from_json, to_json

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
from hubd.wire.handle import WireHandle

log = logging.getLogger("hubd.plexus")

# A resolver reads one thing back. One that takes longer must not hold up a whole tree.
RESOLVE_TIMEOUT_SECONDS: Final = 30.0
# Of many handles, so many are resolved at the same time.
CONCURRENT: Final = 16
# A summary is one line of a terminal, at most.
SUMMARY_LENGTH: Final = 200

# Who owns a handle, and what it points at; or why it could not be resolved.
Answer = tuple[Node, list[Resolved]] | HubError


def read_handle(value: object) -> WireHandle:
    """A handle from its text or an object form.

    Raises:
        HandleInvalid: It is neither.
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
    """What a handle points at, and who owns it; normally one thing, for some handles several.

    Raises:
        HubError: `activation_not_found`, `version_unsupported`, `handle_not_supported`,
            `handle_invalid`, `handle_target_missing`, or what the resolver failed with.
    """
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
            return await _resolve(hub, handle, within)
    except TimeoutError:
        raise _too_slow(handle) from None


async def resolve_each(
    hub: Hub, handles: Iterable[object], within: Node | None = None
) -> AsyncGenerator[Answer, None]:
    """Each of several handles, in order: what it points at, or why it could not be resolved.

    Closing the generator ends what is still under way.
    """
    waiting = iter(handles)
    running: deque[asyncio.Task[Answer]] = deque()
    try:
        while True:
            while len(running) < CONCURRENT and (handle := next(waiting, None)) is not None:
                running.append(asyncio.create_task(_attempt(hub, handle, within)))
            if not running:
                return
            # Stays in the queue until it is done: whoever leaves meanwhile takes it along.
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


async def _resolve(hub: Hub, written: object, within: Node | None) -> tuple[Node, list[Resolved]]:
    handle = read_handle(written)
    owner = hub.owner_of(handle, within)
    if handle.plugin != owner.path:
        # Handles are shown by name, whichever way they were written.
        handle = replace(handle, plugin=owner.path)
    entry = owner.activation.resolvers.get(handle.method)
    if entry is None:
        types = sorted(owner.activation.resolvers)
        raise HandleNotSupported(f"{owner.path} has no handles '{handle.method}'", available=types)
    kind, template = entry.handle.kind, entry.handle.summary
    context = {ORIGIN: owner.activation.origin}
    found: list[Resolved] = []
    try:
        events = entry.function(owner.activation, entry.handle.parse(handle))
        async with aclosing(events) as stream:
            async for event in stream:
                json = encode(event, entry.events, f"the resolver of {owner.path}", context)
                summary = _summary(template, event, handle, context)
                found.append(Resolved(handle, kind, json, summary))
    except NotFound as error:
        raise HandleTargetMissing(error.message) from error
    except (HubError, TimeoutError):
        raise
    except Exception as error:
        log.exception("the resolver of %s failed", handle)
        failure = ExecutionError(f"{type(error).__name__}: {error}")
        failure.logged = True
        raise failure from error
    if not found:
        raise HandleTargetMissing(f"nothing is left behind {handle}")
    return owner, found


def _too_slow(handle: object) -> Timeout:
    return Timeout(f"{handle} took longer than {RESOLVE_TIMEOUT_SECONDS:.0f} s")


class _Format(Formatter):
    """Write values as everywhere else, in JSON; a missing one is empty."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion in ("r", "a"):
            return to_json(value, fallback=str).decode()
        return self.format_field(value, "") if conversion == "s" else value

    def format_field(self, value: Any, format_spec: str) -> Any:
        if value is None:
            return ""
        if isinstance(value, bool | dict | list):
            value = to_json(value, fallback=str).decode()
        return super().format_field(value, format_spec)


class _Object(dict[str, Any]):
    """An object of JSON whose members are attributes too: `{server.port}`."""

    def __getattr__(self, name: str) -> Any:
        value = self[name]
        return _Object(value) if isinstance(value, dict) else value


_FORMAT: Final = _Format()


@lru_cache(maxsize=1024)
def _names(template: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the fields that a summary uses, and those of them that have a format of a date."""
    parsed = _FORMAT.parse(template)
    named = [(re.split(r"[.\[]", name or "")[0], spec or "") for _, name, spec, _ in parsed]
    return (
        frozenset(name for name, _ in named),
        frozenset(name for name, spec in named if re.search("%[A-Za-z]", spec)),
    )


def _summary(template: str, event: Any, handle: WireHandle, context: dict[str, Any]) -> str:
    """Return one line about the data, by the handle type's own format."""
    if not template:
        return str(handle)
    try:
        fields = _fields(template, event, context)
        line = " ".join(_FORMAT.vformat(template, (), fields).split())
    except (KeyError, IndexError, ValueError, AttributeError, TypeError):
        log.warning("the summary %r of %s does not fit its data", template, handle)
        return str(handle)
    return line if len(line) <= SUMMARY_LENGTH else f"{line[: SUMMARY_LENGTH - 1]}…"


def _fields(template: str, event: Any, context: dict[str, Any]) -> Mapping[str, Any]:
    """Return the fields for a summary as JSON has them; dates that are formatted stay dates."""
    if isinstance(event, Encoded):
        data: dict[str, Any] = from_json(event.json)
    else:
        names, dates = _names(template)
        data = event.__pydantic_serializer__.to_python(
            event, mode="json", include=set(names), context=context
        )
        data |= {name: getattr(event, name) for name in dates}
    return {
        name: _Object(value) if isinstance(value, dict) else value for name, value in data.items()
    }
