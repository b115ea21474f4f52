"""Claude's own sessions: list, read, import and export their files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, TypeVar, Unpack
from uuid import uuid4

from pydantic import Field

from hubd.activation import Conflict, InvalidParams, NotFound, method
from hubd.activation.pages import ROWS_PER_ITEM, RowLimit
from hubd.activation.working_directory import working_directory
from hubd.conversations import heads
from hubd.plugins.claudecode import events, native, resume, sessions, store
from hubd.plugins.claudecode.methods.base import LIST_NAMES, ClaudeBase, session_ref
from hubd.plugins.claudecode.methods.parameters import SESSION, Name, NodeAddress
from hubd.plugins.claudecode.record import context, conversation_message, message_import
from hubd.plugins.claudecode.sessions import SESSIONS, TABLE, Columns, SessionRow
from hubd.storage import ids
from hubd.storage.database import Tx
from hubd.storage.streams import streams

NativeId = Annotated[
    str, Field(min_length=1, max_length=64, examples=["550e8400-e29b-41d4-a716-446655440000"])
]
MAX_LISTED: Final = 500
# Seconds between two reports of a long import.
REPORT_SECONDS: Final = 1.0

T = TypeVar("T")


class NativeSessions(ClaudeBase):
    """Methods about Claude's own sessions."""

    @method(read_only=True, needs_context=True, render="table")
    async def sessions_list(
        self, working_dir: str | None = None, limit: RowLimit = MAX_LISTED
    ) -> AsyncIterator[events.NativeSessions]:
        """List Claude's own sessions, the newest first, in pages.

        Args:
            working_dir: The working directory of the sessions; all directories by default.
            limit: The maximum number of sessions.
        """
        env = self.queue.environment()
        cwd = Path(working_directory(self.host, working_dir)) if working_dir is not None else None
        listed = await asyncio.to_thread(native.list_sessions, env, cwd, limit)
        for start in range(0, max(len(listed), 1), ROWS_PER_ITEM):
            yield events.NativeSessions(
                sessions=[
                    events.NativeSessionInfo(
                        session_id=entry.session_id,
                        path=str(entry.path),
                        cwd=entry.cwd,
                        modified_at=int(entry.modified.timestamp()),
                        prompt=entry.prompt,
                        messages=entry.messages,
                        size=entry.size,
                    )
                    for entry in listed[start : start + ROWS_PER_ITEM]
                ]
            )

    @method(read_only=True, needs_context=True, render="chat")
    async def sessions_get(
        self, claude_session_id: NativeId
    ) -> AsyncIterator[events.ConversationMessage]:
        """Read the conversation of one of Claude's own sessions.

        Args:
            claude_session_id: The id of Claude's session.
        """
        _, conversation = await self._read_native(claude_session_id)
        for message in conversation.messages:
            yield conversation_message.conversation_message(message)

    @method(needs_context=True)
    async def sessions_import(
        self, claude_session_id: NativeId, name: Name | None = None
    ) -> events.Imported:
        """Import one of Claude's own sessions. A second import adds only new messages.

        Args:
            claude_session_id: The id of Claude's session.
            name: The new session's name; the id of Claude's session by default.
        """
        stage = _Stage("reading the session file")
        work = asyncio.ensure_future(self._import(claude_session_id, name, stage))
        try:
            while not (await asyncio.wait([work], timeout=REPORT_SECONDS))[0]:
                await self.host.progress(*stage.report())
        finally:
            work.cancel()
        return work.result()

    @method(needs_context=True, one_of=SESSION, completes=LIST_NAMES)
    async def sessions_export(
        self,
        **where: Unpack[NodeAddress],
    ) -> events.Exported:
        """Write a conversation as one of Claude's own sessions, for `claude --resume`."""
        session = await self.session_named(where)
        messages = await self.queue.context.session_messages(session, where.get("node_id"))
        if not messages:
            raise InvalidParams(f"session '{session.name}' has no messages yet")
        native_id, cwd = str(uuid4()), Path(session.working_dir)
        file = native.session_file(self.queue.environment(), cwd, native_id)
        await asyncio.to_thread(
            native.write_session,
            file,
            session_id=native_id,
            cwd=cwd,
            messages=context.for_program(messages),
            version=resume.WRITTEN_AS,
            now=datetime.now(UTC),
        )
        return events.Exported(claude_session_id=native_id, path=str(file), messages=len(messages))

    async def _import(
        self, claude_session_id: str, name: str | None, stage: _Stage
    ) -> events.Imported:
        history, conversation = await self._read_native(claude_session_id)
        messages = conversation.messages
        if not messages:
            raise NotFound(f"Claude's session {claude_session_id} has no messages")
        cwd = next((entry.raw["cwd"] for entry in history.entries if entry.raw.get("cwd")), None)
        directory = self._import_directory(cwd)
        earlier = await self.db.transaction(lambda tx: store.imported(tx, claude_session_id))
        before, new, index = None, messages, 0
        if earlier is not None:
            before = await SESSIONS.look_up(self.db, ids.text(earlier[0]))
            new = await self._new_messages(before, earlier[1], messages)
            head = await self.db.transaction(lambda tx: store.place_of(tx, before.head))
            index = await self.queue.context.turns(head)
        now = int(time.time())

        def write(tx: Tx) -> SessionRow:
            if store.imported(tx, claude_session_id) != earlier:
                raise Conflict(
                    f"another call has just imported Claude's session {claude_session_id}",
                    suggestion="Try again",
                )
            if before is None:
                session = SESSIONS.create(tx, name or claude_session_id, Columns(directory), now)
            else:
                session = SESSIONS.reread(tx, before)
                # `new` was computed from the earlier head.
                if streams.is_busy(tx, session.id) or session.head != before.head:
                    raise SESSIONS.busy(session)
            if not new:
                return session
            target = message_import.MessageImport(
                tx, session, store.place_of(tx, session.head), index, now
            )
            target.add(stage.counted("importing messages", new), claude_session_id)
            head = target.head.key
            TABLE.set_head(tx, session.key, head, now)
            sessions.set_engine(tx, session.key, "claude")
            sessions.set_native(tx, session.key, claude_session_id, head, now)
            store.note_import(tx, claude_session_id, session.id, new[-1].uuids[-1])
            return SESSIONS.reread(tx, session)

        session = await self.db.transaction(write)
        return events.Imported(
            id=ids.text(session.id),
            name=session.name,
            head=heads.position(session),
            claude_session_id=claude_session_id,
            messages=len(new),
            corrupt=history.corrupt,
            notes=conversation.notes,
            handle=session_ref(session),
        )

    def _import_directory(self, cwd: str | None) -> str:
        """Return the directory of Claude's session if it still exists, else the caller's."""
        return cwd if cwd and Path(cwd).is_dir() else working_directory(self.host, None)

    async def _new_messages(
        self, session: SessionRow, last_uuid: str, messages: list[native.NativeMessage]
    ) -> list[native.NativeMessage]:
        """Return the messages after the last one that the session has, by an import or a chat."""
        present = {last_uuid}
        for message in await self.queue.context.session_messages(session):
            present.update(message.uuids)
        places = [place for place, each in enumerate(messages) if present & {*each.uuids}]
        return messages[places[-1] + 1 :] if places else []

    async def _read_native(
        self, session_id: str
    ) -> tuple[native.NativeHistory, native.NativeConversation]:
        file = native.session_file(self.queue.environment(), Path.home(), session_id)
        if not await asyncio.to_thread(file.exists):
            raise NotFound(
                f"Claude has no session {session_id}",
                suggestion="List Claude's sessions with `synapse claudecode sessions_list`",
            )
        history = await asyncio.to_thread(native.read_history, file)
        return history, await asyncio.to_thread(native.conversation, history)


class _Stage:
    """The progress of an import. The event loop reads it while another thread works."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._done = self._total = 0

    def counted(self, message: str, items: Sequence[T]) -> Iterator[T]:
        """Yield the items and count them under this message."""
        self._message, self._total = message, len(items)
        for item in items:
            yield item
            self._done += 1

    def report(self) -> tuple[str, float | None]:
        """Return the message and, if it is known, the percentage."""
        if not self._total:
            return self._message, None
        return f"{self._message}: {self._done} of {self._total}", 100 * self._done / self._total
