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
from hubd.plugins.claudecode.approvals.limits import check_limits, default_approver
from hubd.plugins.claudecode.approvals.who import actor_text
from hubd.plugins.claudecode.handles import NAMESPACE, SessionRef
from hubd.plugins.claudecode.methods.parameters import SessionAddress, StreamAddress
from hubd.plugins.claudecode.options import asks_for_approval, stored_options
from hubd.plugins.claudecode.queue import Queue
from hubd.plugins.claudecode.record.event_pages import EventPages
from hubd.plugins.claudecode.record.followers import Followers
from hubd.plugins.claudecode.sessions import SESSIONS, NewestChat, SessionRow
from hubd.storage import ids
from hubd.storage.streams import streams

# Completion offers the names of sessions.
LIST_NAMES: Final = {"name": f"{NAMESPACE}.list"}
# More rows than any table has.
ALL_ROWS: Final = 2**62


class ClaudeBase(Activation):
    """State and lookups that the parts of claudecode share."""

    # Set by `lifespan` while the hub runs.
    _queue: Queue | None = None

    @property
    def queue(self) -> Queue:
        """All chats that run or wait.

        Raises:
            Unavailable: The hub is starting or stopping.
        """
        if self._queue is None:
            raise Unavailable("claudecode is not running", suggestion="Try again in a moment")
        return self._queue

    @cached_property
    def pages(self) -> EventPages:
        """Pages of events, for polls and consumers."""
        return EventPages(self.db, self.host)

    @cached_property
    def followers(self) -> Followers:
        """Events as they come, for clients that follow a chat."""
        return Followers(self.db, self.host, self.path, lambda: self.queue)

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
            own = stored_options(row)
        check_limits(given, own)
        return actor_text(actor)

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
        loopback_enabled=asks_for_approval(options),
        approver=options.get("approver") or default_approver(session),
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
