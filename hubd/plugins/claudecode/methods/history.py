"""claudecode: what was said, whole; and Claude's own sessions, in and out."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, TypeVar
from uuid import UUID, uuid4

from pydantic import Field

from hubd.activation import Conflict, InvalidParams, NotFound, method
from hubd.activation.pages import ROWS_PER_ITEM, RowLimit
from hubd.activation.params import NodeId, Position, WholeId
from hubd.plugins.claudecode import events, native, store
from hubd.plugins.claudecode.handles import VERSION, MessageRef
from hubd.plugins.claudecode.methods.base import (
    LIST_NAMES,
    Name,
    SessionId,
    now,
    reference,
)
from hubd.plugins.claudecode.methods.chatting import Chatting
from hubd.plugins.claudecode.methods.sessions import WHICH
from hubd.plugins.claudecode.new_session import new_session
from hubd.plugins.claudecode.record.adopt import Adoption
from hubd.plugins.claudecode.record.context import for_program
from hubd.plugins.claudecode.resume import WRITTEN_AS
from hubd.storage import ids
from hubd.storage.arbor import outline, tree
from hubd.storage.database import Tx
from hubd.storage.streams import streams

NativeId = Annotated[
    str, Field(min_length=1, max_length=64, examples=["550e8400-e29b-41d4-a716-446655440000"])
]
MAX_LISTED: Final = 500
# Seconds between two reports of a long import.
REPORT_SECONDS: Final = 1.0

T = TypeVar("T")


class History(Chatting, version=VERSION):
    """Methods about what was said."""

    @method(
        read_only=True, render="chat", one_of=WHICH, completes=LIST_NAMES, produces=[MessageRef]
    )
    async def get_conversation(
        self,
        name: Name | None = None,
        session_id: SessionId | None = None,
        node_id: NodeId | None = None,
    ) -> AsyncIterator[events.ConversationMessage]:
        """Read a conversation: every message on the way to where the session stands.

        Args:
            name: The session.
            session_id: The same, by its id.
            node_id: Another node of its tree: its id, or the last 4 or more digits of it.
        """
        session = await self.session_named(name, session_id)
        async for message in self.messages_of(session, node_id):
            yield message

    @method(read_only=True, one_of=WHICH, completes=LIST_NAMES, produces=[MessageRef])
    async def render_context(
        self,
        name: Name | None = None,
        session_id: SessionId | None = None,
        node_id: NodeId | None = None,
    ) -> AsyncIterator[events.ConversationMessage]:
        """The messages that a model would be sent, from the tree alone, handles resolved.

        Args:
            name: The session.
            session_id: The same, by its id.
            node_id: Another node of its tree: its id, or the last 4 or more digits of it.
        """
        session = await self.session_named(name, session_id)
        async for message in self.messages_of(session, node_id):
            yield message

    @method(streaming=False, read_only=True)
    async def get_block(self, blob_id: WholeId) -> AsyncIterator[events.Block]:
        """Read one block, message or turn, whole.

        Args:
            blob_id: The id that its handle carries.
        """
        blob = await self.blob_of(blob_id)
        yield events.Block(
            blob_id=ids.text(blob.id),
            blob_type=blob.blob_type,
            complete=blob.complete,
            data=blob.data,
        )

    @method(read_only=True, needs_context=True, render="table")
    async def sessions_list(
        self, working_dir: str | None = None, limit: RowLimit = MAX_LISTED
    ) -> AsyncIterator[events.NativeSessions]:
        """List Claude's own sessions, the newest first, in pages.

        Args:
            working_dir: The directory whose sessions are listed; all directories if absent.
            limit: The maximum number of sessions.
        """
        env = self.chats.environment()
        cwd = Path(self.directory(working_dir)) if working_dir is not None else None
        sessions = await asyncio.to_thread(native.list_sessions, env, cwd, limit)
        for start in range(0, max(len(sessions), 1), ROWS_PER_ITEM):
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
                    for entry in sessions[start : start + ROWS_PER_ITEM]
                ]
            )

    @method(read_only=True, needs_context=True, render="chat")
    async def sessions_get(
        self, claude_session_id: NativeId
    ) -> AsyncIterator[events.ConversationMessage]:
        """Read the conversation of one of Claude's own sessions.

        Args:
            claude_session_id: Its id.
        """
        _, found = await self._native(claude_session_id)
        for message in found.messages:
            yield _shown(message)

    @method(streaming=False, needs_context=True)
    async def sessions_import(
        self, claude_session_id: NativeId, name: Name | None = None
    ) -> AsyncIterator[events.Imported]:
        """Make one of Claude's own sessions a session of the hub; again, only what is new.

        Args:
            claude_session_id: Its id.
            name: What to call the session; its id unless said otherwise.
        """
        stage = _Stage("reading the session file")
        work = asyncio.ensure_future(self._import(claude_session_id, name, stage))
        try:
            while not (await asyncio.wait([work], timeout=REPORT_SECONDS))[0]:
                await self.host.progress(*stage.report())
        finally:
            work.cancel()
        yield work.result()

    async def _import(
        self, claude_session_id: str, name: str | None, stage: "_Stage"
    ) -> events.Imported:
        history, found = await self._native(claude_session_id)
        if not found.messages:
            raise NotFound(f"session {claude_session_id} holds no messages")
        cwd = next((entry.raw["cwd"] for entry in history.entries if entry.raw.get("cwd")), None)
        directory = self._directory_of(cwd)
        known = await self.db.transaction(lambda tx: store.imported(tx, claude_session_id))
        seen, fresh, index = None, found.messages, 0
        if known is not None:
            seen = await store.look_up_session(self.db, ids.text(known[0]))
            fresh = await self._not_yet_in(seen, known[1], found.messages)
            head = await self.db.transaction(lambda tx: store.place_of(tx, seen.head))
            index = await self.chats.context.turns(head)

        def adopt(tx: Tx) -> store.SessionRow:
            if store.imported(tx, claude_session_id) != known:
                raise Conflict(
                    f"session {claude_session_id} has just been imported by somebody else",
                    suggestion="Try again",
                )
            if seen is None:
                session = new_session(tx, name or claude_session_id, directory, "{}")
            else:
                session = store.find_session(tx, ids.text(seen.id))
                # What is new was found out from where it stood.
                if streams.is_busy(tx, session.id) or session.head != seen.head:
                    raise Conflict(
                        f"session '{session.name}' is busy",
                        suggestion="Try again when its chat is over",
                    )
            if not fresh:
                return session
            adoption = Adoption(tx, session, store.place_of(tx, session.head), index, now())
            adoption.add(stage.counted("importing messages", fresh), claude_session_id)
            at = adoption.head.key
            store.move_head(tx, session.key, at, now())
            store.set_engine(tx, session.key, "claude")
            store.set_native(tx, session.key, claude_session_id, at, now())
            store.note_import(tx, claude_session_id, session.id, fresh[-1].uuids[-1])
            return store.find_session(tx, ids.text(session.id))

        session = await self.db.transaction(adopt)
        return events.Imported(
            id=ids.text(session.id),
            name=session.name,
            head=Position.at(session.tree_id, session.head_id),
            claude_session_id=claude_session_id,
            messages=len(fresh),
            corrupt=history.corrupt,
            notes=found.notes,
            handle=reference(session),
        )

    @method(streaming=False, needs_context=True, one_of=WHICH, completes=LIST_NAMES)
    async def sessions_export(
        self,
        name: Name | None = None,
        session_id: SessionId | None = None,
        node_id: NodeId | None = None,
    ) -> AsyncIterator[events.Exported]:
        """Write a conversation as one of Claude's own sessions, for `claude --resume`.

        Args:
            name: The session.
            session_id: The same, by its id.
            node_id: Another node of its tree: its id, or the last 4 or more digits of it.
        """
        session = await self.session_named(name, session_id)
        messages = await self._context(session, node_id)
        if not messages:
            raise InvalidParams(f"session '{session.name}' has said nothing yet")
        native_id, cwd = str(uuid4()), Path(session.working_dir)
        file = native.session_file(self.chats.environment(), cwd, native_id)
        await asyncio.to_thread(
            native.write_session,
            file,
            session_id=native_id,
            cwd=cwd,
            messages=for_program(messages),
            version=WRITTEN_AS,
            now=datetime.now(UTC),
        )
        yield events.Exported(claude_session_id=native_id, path=str(file), messages=len(messages))

    async def blob_of(self, blob_id: UUID, *kinds: str) -> store.Blob:
        """What a handle points at.

        Args:
            blob_id: Its id.
            kinds: What it may be; anything if none is given.

        Raises:
            NotFound: It is gone, or something else.
        """
        blob = await store.blob(self.db, blob_id.bytes)
        if blob is None or (kinds and blob.blob_type not in kinds):
            raise NotFound(f"no {' or '.join(kinds) or 'block'} {blob_id}")
        return blob

    async def _context(
        self, session: store.SessionRow, node_id: NodeId | None
    ) -> list[native.NativeMessage]:
        held = await tree.look_up(self.db, ids.text(session.tree_id))
        place = await tree.look_up_place(self.db, held, node_id or session.head_id)
        return await self.chats.context.messages(place)

    async def messages_of(
        self, session: store.SessionRow, node_id: NodeId | None
    ) -> AsyncIterator[events.ConversationMessage]:
        """The messages on the way to where a session stands, or to another node of its tree."""
        messages = await self._context(session, node_id)
        nodes = [message.node_id for message in messages if message.node_id]
        short_ids = await outline.short_ids(self.db, session.tree, nodes)
        for message in messages:
            yield _shown(message, short_ids.get(message.node_id or b""))

    async def _not_yet_in(
        self, session: store.SessionRow, last_uuid: str, messages: list[native.NativeMessage]
    ) -> list[native.NativeMessage]:
        """The messages after the last that is known: by an import, or by a chat of the hub."""
        known = {last_uuid}
        for message in await self._context(session, None):
            known.update(message.uuids)
        places = [place for place, each in enumerate(messages) if known & {*each.uuids}]
        return messages[places[-1] + 1 :] if places else []

    async def _native(
        self, session_id: str
    ) -> tuple[native.NativeHistory, native.NativeConversation]:
        file = native.session_file(self.chats.environment(), Path.home(), session_id)
        if not await asyncio.to_thread(file.exists):
            raise NotFound(
                f"Claude has no session {session_id}", suggestion="See claudecode.sessions_list"
            )
        history = await asyncio.to_thread(native.read_history, file)
        return history, await asyncio.to_thread(native.conversation, history)

    def _directory_of(self, cwd: str | None) -> str:
        """Where a native session took place, if that is still there."""
        return cwd if cwd and Path(cwd).is_dir() else self.directory(None)


class _Stage:
    """What an import is doing. The event loop reads it while another thread works."""

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
        """Return the message and the percentage, if that is known."""
        if not self._total:
            return self._message, None
        return f"{self._message}: {self._done} of {self._total}", 100 * self._done / self._total


def _shown(
    message: native.NativeMessage, short_id: str | None = None
) -> events.ConversationMessage:
    return events.ConversationMessage(
        role=message.role,
        content=message.content,
        model=message.model,
        node_id=ids.text(message.node_id) if message.node_id else None,
        handle=message.handle,
        created_at=seconds_of(message.timestamp),
        short_id=short_id,
    )


def seconds_of(timestamp: str | None) -> int | None:
    """Return an ISO time in Unix seconds; None if it is not one."""
    try:
        moment = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
