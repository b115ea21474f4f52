"""The base of all parts of claudecode: look up sessions and streams that a call names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from hubd.activation import Activation, InvalidParams, NotFound, Unavailable
from hubd.conversations import heads
from hubd.plugins.claudecode import events, sessions
from hubd.plugins.claudecode import options as session_options
from hubd.plugins.claudecode import queue as chat_queue
from hubd.plugins.claudecode.approvals import actors, limits
from hubd.plugins.claudecode.handles import NAMESPACE, SessionRef
from hubd.plugins.claudecode.methods.parameters import SessionAddress, StreamAddress
from hubd.plugins.claudecode.program.engine import Settings
from hubd.plugins.claudecode.record import context, event_pages
from hubd.plugins.claudecode.record import followers as chat_followers
from hubd.plugins.claudecode.sessions import SESSIONS, NewestChat, SessionRow
from hubd.storage import ids
from hubd.storage.streams import streams

# Completion offers the names of sessions.
LIST_NAMES: Final = {"name": f"{NAMESPACE}.list"}
# More rows than any table has.
ALL_ROWS: Final = 2**62


class ClaudeBase(Activation):
    """State and lookups that the parts of claudecode share."""

    # True while the hub runs.
    _is_running = False
    # Created when it is needed first, because it imports everything that a chat needs.
    _queue: chat_queue.Queue | None = None

    @property
    def queue(self) -> chat_queue.Queue:
        """All chats that run or wait.

        Raises:
            Unavailable: The hub is starting or stopping.
        """
        if self._queue is None:
            self._queue = self.new_queue()
            self._queue.begin()
        return self._queue

    def new_queue(self) -> chat_queue.Queue:
        """Return the queue of this hub, which does not accept chats yet.

        Raises:
            Unavailable: The hub is starting or stopping.
        """
        if not self._is_running:
            raise Unavailable("claudecode is not running", suggestion="Try again in a moment")
        settings = self.settings(Settings)
        reader = context.Context(self.db, self.host, self.path, settings.attachment_chars)
        return chat_queue.Queue(self.db, self.host, reader, settings)

    @cached_property
    def pages(self) -> event_pages.EventPages:
        """Pages of events, for polls and consumers."""
        return event_pages.EventPages(self.db, self.host)

    @cached_property
    def followers(self) -> chat_followers.Followers:
        """Events as they come, for clients that follow a chat."""
        return chat_followers.Followers(self.db, self.host, self.path, lambda: self.queue)

    async def check_starter(self, given: Mapping[str, Any]) -> str | None:
        """Check the options that a caller gives to a session against the caller's own limits.

        Returns:
            The caller as the session's parent, if it is an agent.

        Raises:
            PermissionDenied: A session would get more than the session that starts it.
            InvalidParams: The approver is the parent, and there is none.
        """
        actor = self.host.client.actor
        if given.get("approver") == "parent" and not actor.is_agent:
            raise InvalidParams(
                "approver is 'parent', but a person starts this session",
                suggestion="Use --approver human, or let an agent start the session",
            )
        if not actor.is_agent:
            return None
        own: Mapping[str, Any] | None = None
        if actor.kind == "session":
            row = await SESSIONS.look_up(self.db, actor.id)
            own = session_options.stored_options(row)
        limits.check_limits(given, own)
        return actors.actor_text(actor)

    async def session_named(self, where: SessionAddress) -> SessionRow:
        """Return the session that a call names.

        Raises:
            NotFound, Ambiguous: No session matches, or several do.
        """
        identifier = where.get("name") or where.get("session_id") or ""
        return await SESSIONS.look_up(self.db, identifier)

    async def stream_named(self, where: StreamAddress) -> streams.StreamRow:
        """Return the stream that a call names, or the newest stream of the session it names.

        Raises:
            NotFound, Ambiguous: No stream or session matches, or several do; or the session has no
                chat yet.
        """
        stream_id = where.get("stream_id")
        if stream_id is not None:
            return await streams.look_up(self.db, stream_id)
        session = await self.session_named(
            {"name": where.get("name"), "session_id": where.get("session_id")}
        )
        stream = await streams.newest(self.db, session.id)
        if stream is None:
            raise NotFound(
                f"session '{session.name}' has no chat yet",
                suggestion="Start one with `synapse claudecode chat`",
            )
        return stream

    async def session_infos(self, rows: Sequence[SessionRow]) -> list[events.SessionInfo]:
        """Return sessions as clients see them."""
        keys = [row.key for row in rows]
        chats = await sessions.newest_chats(self.db, keys)
        # Other calls run between the parts of a long page.
        await asyncio.sleep(0)
        models = await sessions.reported_models(self.db, keys)
        await asyncio.sleep(0)
        return [_session_info(row, chats.get(row.key), models.get(row.key)) for row in rows]


def _session_info(
    session: SessionRow, newest: NewestChat | None, reported_model: str | None
) -> events.SessionInfo:
    """Return a session as clients see it."""
    options: dict[str, Any] = json.loads(session.options)
    return events.SessionInfo(
        id=ids.text(session.id),
        name=session.name,
        head=heads.position(session),
        working_dir=session.working_dir,
        model=options.get("model") or reported_model,
        engine=session.engine,
        claude_session_id=session.native_id,
        loopback_enabled=session_options.asks_for_approval(options),
        approver=options.get("approver") or limits.default_approver(session),
        status=newest.status if newest else None,
        prompt=newest.prompt if newest else None,
        turns=session.turns,
        cost_usd=session.cost_usd,
        created_at=session.created_at,
        updated_at=session.updated_at,
    )


def session_ref(session: SessionRow) -> SessionRef:
    """Return the handle of a session."""
    return SessionRef(session_id=UUID(bytes=session.id))
