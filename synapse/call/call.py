"""Send one call, show its items, and work out the exit status."""

from __future__ import annotations

import json
import shutil
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hubd.wire.client import ClientError
from hubd.wire.envelope import call_request
from synapse.call.chat_end import ChatEnd, background
from synapse.call.exit_status import ExitStatus
from synapse.call.incoming import Incoming
from synapse.call.outcome import ANSWER_ID, Outcome
from synapse.call.questions import Answers
from synapse.errors import CommandError, NoDaemon
from synapse.hub.caller import caller_context
from synapse.hub.client import item_of
from synapse.hub.hubs import LocalHub
from synapse.render.plain import Lines
from synapse.render.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hubd.wire.client import Connection
    from hubd.wire.schema import MethodSchema
    from synapse.argv import Invocation
    from synapse.call.chat_end import Background
    from synapse.hub.cache import Cache
    from synapse.hub.hubs import Hub
    from synapse.render import Renderer

# The exit status after --timeout.
TIMED_OUT = 6

# After this time without an item, rows that wait for a table are shown.
LULL_SECONDS = 0.25


class Retry(Exception):
    """The hub's schema has changed and nothing was printed: the call can be repeated."""


def call(
    connection: Connection,
    cache: Cache,
    path: str,
    params: dict[str, Any],
    schema: MethodSchema,
    invocation: Invocation,
    renderer: Renderer,
    hub: Hub,
) -> int:
    """Make a call, show its events, and return the exit status.

    Raises:
        CommandError: The call failed.
        Retry: The call failed because the cached schema is stale.
    """
    hints = schema.get("annotations", {})
    # Only the local hub gets the environment: it contains secrets, and other hubs ignore it.
    needs_context = hints.get("needs_context") and isinstance(hub, LocalHub)
    context = json.dumps(caller_context()) if needs_context else ""
    deadline = _deadline(invocation)
    is_chat = hints.get("render") == "chat"
    waiting = Waiting(wanted=is_chat)
    chat = ChatEnd() if is_chat else None
    outcome = Outcome(
        renderer,
        root=cache.root,
        answers=Answers(invocation, deadline),
        chat=chat,
        waiting=waiting,
    )
    exit_status = ExitStatus() if invocation.flag("--exit-code") else None
    commands = background(cache, invocation, schema, params)
    stale = False
    connection.send(call_request(cache.root, path, json.dumps(params), context))
    incoming = Incoming(connection)
    try:
        for item in _items(incoming, renderer, waiting, deadline):
            stale = stale or _is_stale(item, cache.hash)
            outcome.take(item, connection, incoming)
            if exit_status is not None:
                exit_status.note(item)
    except BaseException as interruption:
        waiting.erase()
        # The terminal prints ^C at the cursor; `pause` ends only a line of text.
        is_interrupt = isinstance(interruption, KeyboardInterrupt)
        if renderer.at_line_start and is_interrupt and sys.stderr.isatty():
            sys.stderr.write("\n")
        renderer.pause()
        if commands is not None:
            is_waiting = chat is not None and chat.is_waiting
            _show_commands(interruption, commands, is_waiting=is_waiting)
        raise
    if stale and outcome.needs_newer_schema:
        raise Retry
    try:
        outcome.finish()
    finally:
        if stale:
            _renew_cache(connection, hub.cache_file)
    return 0 if exit_status is None else exit_status.value()


def conclude(
    connection: Connection, message: bytes, cache_file: str, *, stale: bool, printed: bool
) -> int | None:
    """Finish a call of the fast path; None if it must be repeated with a newer schema.

    Raises:
        CommandError: The call failed.
    """
    renderer = Lines()
    outcome = Outcome(renderer)
    outcome.printed = printed
    incoming = Incoming(connection, message)
    for item in _items(incoming, renderer, Waiting(wanted=False), None):
        outcome.take(item, connection, incoming)
    if stale and outcome.needs_newer_schema:
        return None
    try:
        outcome.finish()
    finally:
        if stale:
            _renew_cache(connection, cache_file)
    return 0


def _is_stale(item: dict[str, Any], cached_hash: str) -> bool:
    """Return whether an item has another hash than the cache; not every hub sends one."""
    metadata = item.get("metadata")
    current = metadata.get("plexus_hash") if isinstance(metadata, dict) else None
    return bool(current) and current != cached_hash


def _show_commands(interruption: BaseException, commands: Background, *, is_waiting: bool) -> None:
    """Show the commands for a chat that continues after the call was interrupted."""
    if isinstance(interruption, KeyboardInterrupt):
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
        sys.stderr.write(f"{commands.sentence(is_waiting=is_waiting, width=width)}\n")
    elif isinstance(interruption, NoDaemon):
        interruption.hint = f"{interruption.hint}   Continue reading: {commands.watch}".strip()


def _renew_cache(connection: Connection, cache_file: str) -> None:
    """Read the schema of a changed hub; after a failure the next call does it."""
    from synapse.hub import refresh

    with suppress(CommandError, ClientError):
        refresh.refresh(cache_file, connection)


def _deadline(invocation: Invocation) -> float | None:
    text = invocation.value("--timeout")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise CommandError(f"--timeout must be a number of seconds, not {text!r}", status=2)
    return time.monotonic() + seconds


def _items(
    incoming: Incoming, renderer: Renderer, waiting: Waiting, deadline: float | None
) -> Iterator[dict[str, Any]]:
    """Yield the items of a call until its end or its deadline.

    Raises:
        CommandError: The deadline has passed.
    """
    while True:
        left = float("inf") if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise CommandError("the call did not end in time", status=TIMED_OUT)
        try:
            message = incoming.receive(min(LULL_SECONDS, left))
        except TimeoutError:
            renderer.idle()
            waiting.tick(renderer.activity, at_line_start=renderer.at_line_start)
            continue
        if reason := _refused_answer(message):
            renderer.warn(f"the hub did not accept the answer: {reason}")
            continue
        item = item_of(message)
        if item is not None:
            yield item
            if item.get("type") == "done":
                return


def _refused_answer(message: bytes) -> str:
    """Return the reason if the hub refused an answer; else an empty text."""
    if b'"success"' not in message[:100]:
        return ""
    reply = json.loads(message)
    result = reply.get("result")
    if reply.get("id") != ANSWER_ID or not isinstance(result, dict) or result.get("success"):
        return ""
    return str(result.get("message", "no reason given"))
