"""What all parts of claudecode share: parameters, and finding sessions and streams."""

import json
import time
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from hubd.activation import Activation, NotFound, Unavailable, params
from hubd.activation.params import IdPrefix, Position
from hubd.plugins.claudecode import events, store
from hubd.plugins.claudecode.handles import NAMESPACE, VERSION, SessionRef
from hubd.plugins.claudecode.queue import Chats
from hubd.storage import ids
from hubd.storage.streams import streams

Name = params.Name
NewName = params.NewName
SessionId = IdPrefix
Prompt = Annotated[str, Field(min_length=1, max_length=4 * 1024 * 1024)]
Limit = Annotated[int, Field(ge=1, le=1000)]
IfBusy = Literal["queue", "refuse"]

LIST_NAMES: Final = {"name": f"{NAMESPACE}.list"}
# How a stream is named: by itself, or as the newest one of a session.
STREAM: Final = ("stream_id", "session_id", "name")


class ClaudeBase(Activation, version=VERSION):
    """Finding what a call names."""

    # Set while the hub runs, by `lifespan`.
    _chats: Chats | None = None

    @property
    def chats(self) -> Chats:
        """All chats.

        Raises:
            Unavailable: The hub is starting or stopping.
        """
        if self._chats is None:
            raise Unavailable("claudecode is not running")
        return self._chats

    async def session_named(self, name: str | None, session_id: str | None) -> store.SessionRow:
        """The session that a call names one way or the other."""
        return await store.look_up_session(self.db, name or session_id or "")

    async def stream_named(
        self, stream_id: str | None, session_id: str | None, name: str | None
    ) -> streams.StreamRow:
        """The stream that a call names; of a session, its newest.

        Raises:
            NotFound: There is none.
        """
        if stream_id is not None:
            return await streams.look_up(self.db, stream_id)
        session = await self.session_named(name, session_id)
        found = await streams.newest(self.db, session.id)
        if found is None:
            raise NotFound(
                f"session '{session.name}' has not chatted yet",
                suggestion="Start with claudecode.chat_async",
            )
        return found

    async def info(self, session: store.SessionRow) -> events.SessionInfo:
        """A session as any client sees it."""
        newest = await streams.newest(self.db, session.id)
        options: dict[str, Any] = json.loads(session.options)
        return events.SessionInfo(
            id=ids.text(session.id),
            name=session.name,
            head=Position.at(session.tree_id, session.head_id),
            working_dir=session.working_dir,
            model=options.get("model") or await store.reported_model(self.db, session.id),
            engine=session.engine,
            claude_session_id=session.native_id,
            loopback_enabled=bool(options.get("loopback_enabled")),
            status=newest.status if newest else None,
            created_at=session.created_at,
            updated_at=session.updated_at,
        )


def reference(session: store.SessionRow) -> SessionRef:
    """The handle of a session."""
    from uuid import UUID

    return SessionRef(session_id=UUID(bytes=session.id))


def now() -> int:
    """In seconds."""
    return int(time.time())
