"""The queue of chats: start them in order, continue them, and cancel them."""

import asyncio
import json
import logging
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, TypeVar

from hubd.activation import (
    Conflict,
    ExecutionError,
    Host,
    HubError,
    Unavailable,
)
from hubd.plugins.claudecode import options as session_options
from hubd.plugins.claudecode import sessions, store
from hubd.plugins.claudecode.chat import Chat
from hubd.plugins.claudecode.chat_continuation import ChatContinuation
from hubd.plugins.claudecode.chat_request import AcceptedChat, ChatRequest
from hubd.plugins.claudecode.chat_start import ChatStart, PreparedChat
from hubd.plugins.claudecode.parked_chats import ParkedChats
from hubd.plugins.claudecode.parking import Parking
from hubd.plugins.claudecode.places import MAX_RUNNING, Places
from hubd.plugins.claudecode.program.engine import Engine, Settings
from hubd.plugins.claudecode.program.private_files import private_files, remove_left_over
from hubd.plugins.claudecode.record import disk
from hubd.plugins.claudecode.record.context import Context
from hubd.plugins.claudecode.record.disk import DISK_FAILURES
from hubd.plugins.claudecode.record.live import Live
from hubd.plugins.claudecode.recovery import Recovery
from hubd.plugins.claudecode.sessions import SESSIONS, SessionRow
from hubd.storage import ids
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams

log = logging.getLogger("hubd.claudecode")

T = TypeVar("T")


class Queue:
    """All running and waiting chats of one hub. In each session, one chat runs at a time."""

    def __init__(self, db: Database, host: Host, context: Context, settings: Settings) -> None:
        self._db = db
        self._host = host
        self.context = context
        self._chat_start = ChatStart(db, host, context, settings)
        self._continuation = ChatContinuation(db, host, context, self._chat_start)
        self._places = Places()
        # The environments of open chats, by the ids of their streams. They are not stored.
        self._environments: dict[bytes, Mapping[str, str]] = {}
        self._parked = ParkedChats(
            db, self._places, self._prepare_parked, self._begin, self._after_parked
        )
        self._parking = Parking(settings.park_secs, self._spawn)
        self._tasks: set[asyncio.Task[Any]] = set()
        # Set when all processes of an earlier hub have ended; no chat starts before that.
        self._reaped = asyncio.Event()
        # True while the queue waits for a disk that refuses writes.
        self._retrying = False
        self._closing = False

    async def recover(self) -> None:
        """Mark the running chats of an earlier hub as interrupted, and end their processes.

        The processes end in the background. Queued and parked chats start after that.
        """
        await asyncio.to_thread(remove_left_over, private_files(self._db))
        recovery = Recovery(self._db, self._host)
        for stream in await recovery.sort():
            self._places.busy[stream.session_id] = stream.key
            self._parked.add(stream)
        self._spawn(self._start_after(recovery))

    def begin(self) -> None:
        """Accept chats. Without `recover`, an earlier hub must not have left anything behind."""
        self._spawn(self._accept())

    async def _start_after(self, recovery: Recovery) -> None:
        await recovery.end_processes()
        await self._accept()

    async def _accept(self) -> None:
        # Agents ask another plugin for approvals.
        await self._host.hub_started()
        self._reaped.set()
        self._spawn(self._parked.watch())
        await self._start_waiting()

    async def close(self) -> None:
        """Interrupt or park all running chats; return when their ends are on disk."""
        self._closing = True
        self._parking.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        # Empty unless a chat was parked. The next start then has nothing to recover.
        with suppress(OSError):
            private_files(self._db).rmdir()

    def environment(self) -> dict[str, str]:
        """Return the environment for a program: the caller's if it sent one, else the hub's."""
        return self._host.environment

    async def submit(
        self,
        session: SessionRow,
        request: ChatRequest,
        given: Mapping[str, Any],
        env: Mapping[str, str],
        *,
        if_busy: str,
    ) -> AcceptedChat:
        """Start a chat, or queue it behind the session's other chats.

        Cancelling this call does not stop the chat.

        Args:
            session: The session.
            request: The request.
            given: Options that replace those of the session from this chat on.
            env: The environment of the program.
            if_busy: `queue` or `refuse`.

        Raises:
            Conflict: The session is busy and `if_busy` is `refuse`, or the options would change
                the program.
            HubError: The chat could not start.
        """
        return await asyncio.shield(
            self._spawn(self._submit(session, request, given, env, if_busy))
        )

    async def _submit(
        self,
        session: SessionRow,
        request: ChatRequest,
        given: Mapping[str, Any],
        env: Mapping[str, str],
        if_busy: str,
    ) -> AcceptedChat:
        now = int(time.time())
        stream_id = ids.uuid4()

        def enqueue(tx: Tx, seen: SessionRow, engine: Engine) -> AcceptedChat | None:
            if if_busy == "refuse" and streams.is_busy(tx, session.id):
                raise Conflict(
                    f"session '{session.name}' is busy with another chat",
                    suggestion="Wait for that chat, cancel it, or use --if-busy queue",
                )
            row = SESSIONS.reread(tx, session)
            if (row.options, row.engine) != (seen.options, seen.engine):
                return None  # another call changed the session: choose the program again
            stored = session_options.stored_options(row)
            changed = session_options.changed(stored, given)
            merged = {**stored, **given}
            if changed:
                sessions.set_options(tx, row.key, json.dumps(merged), now)
            # Set now, so that a chat that is queued later cannot change the program.
            sessions.set_engine(tx, row.key, engine.name)
            stream = streams.create(tx, session.id, session.tree, now, stream_id=stream_id)
            stored_request = replace(request, options=merged, engine=engine.name)
            store.enqueue(tx, stream.key, json.dumps(asdict(stored_request)))
            return AcceptedChat(stream, engine, changed)

        # Set before the transaction: another task may start the chat as soon as it is stored.
        self._environments[stream_id] = env
        accepted: AcceptedChat | None = None
        try:
            while accepted is None:
                seen = await SESSIONS.look_up(self._db, ids.text(session.id))
                self._chat_start.check_engine(seen, given.get("model"))
                model = {**session_options.stored_options(seen), **given}.get("model")
                # A missing program is reported before the chat is accepted.
                engine = self._chat_start.engine(model, seen.engine, env)
                accepted = await self._db.transaction(lambda tx: enqueue(tx, seen, engine))  # noqa: B023  awaited here
        except BaseException:
            del self._environments[stream_id]
            raise
        key = accepted.stream.key
        failed = await self._start_next(session.id)
        if key in failed:
            raise failed[key]
        return accepted._replace(stream=await streams.reread(self._db, key))

    async def cancel(self, stream: streams.StreamRow) -> streams.StreamRow:
        """End a chat that runs or waits; return its stream.

        If the disk refuses the end of the chat, its program is ended anyway, and the returned
        stream is still open.
        """
        chat = self._places.running.get(stream.key)
        if chat is not None:
            await chat.cancel()
        if stream.key in self._parked:
            await self._parked.cancel(stream)
        elif stream.status == "queued":
            now = int(time.time())

            def withdraw(tx: Tx) -> None:
                if streams.by_key(tx, stream.key).status == "queued":
                    store.dequeue(tx, stream.key)
                    streams.set_status(tx, stream.key, "cancelled", now, "the chat was cancelled")

            await self._db.transaction(withdraw)
            self._environments.pop(stream.id, None)
            await self._wake_waiting(stream.session_id)
        return await streams.reread(self._db, stream.key)

    def live(self, stream: int) -> Live | None:
        """Return the unfinished blocks of a chat, if it runs."""
        chat = self._places.running.get(stream)
        return chat.live if chat else None

    def waits_for_disk(self, session_id: bytes) -> bool:
        """Return whether the disk refuses the record of a session's chat for now."""
        chat = self._places.chat_of(session_id)
        return chat is not None and chat.waits_for_disk

    async def place_in_queue(self, stream: streams.StreamRow) -> str:
        """Return the reason why a queued chat waits."""
        waiting = await store.waiting_streams(self._db, stream.session_id)
        ahead = {key for key in waiting if key < stream.key}
        # A chat that is being started may still be in the queue.
        busy = self._places.busy
        if stream.session_id in busy:
            ahead |= {busy[stream.session_id]} - {stream.key}
        if ahead:
            chats = "chat" if len(ahead) == 1 else "chats"
            return f"queued behind {len(ahead)} {chats} of this session"
        is_crowded = stream.session_id not in busy and self._places.is_full
        return f"queued: at most {MAX_RUNNING} chats run at once" if is_crowded else "starting"

    async def _start_next(self, session_id: bytes) -> dict[int, HubError]:
        """Start the next chat of a session if no other one runs.

        Returns:
            The errors of the chats that could not start, by stream. These chats have failed.
        """
        failed: dict[int, HubError] = {}
        has_freed_place = False
        while self._has_room(session_id):
            waiting = await store.first_waiting(self._db, session_id)
            # Another task may have started a chat in the meantime.
            if waiting is None or not self._has_room(session_id):
                break
            stream, request = waiting
            self._places.busy[session_id] = stream
            started = False
            try:
                started = await self._start(stream, session_id, ChatRequest(**json.loads(request)))
            except DISK_FAILURES as error:
                self._try_later(error)
                break
            except HubError as error:
                failed[stream] = error
            except OSError as error:
                where = error.filename or "a file"
                failed[stream] = Unavailable(f"{where} cannot be used: {error.strerror or error}")
            except Exception as error:
                log.exception("a chat could not start")
                failed[stream] = ExecutionError(f"{type(error).__name__}: {error}")
            finally:
                if not started:
                    del self._places.busy[session_id]
            if started:
                break
            has_freed_place = True
            if stream in failed:
                reason, now = failed[stream].message, int(time.time())
                try:
                    await self._db.transaction(lambda tx: _fail(tx, stream, reason, now))  # noqa: B023  awaited here
                except DISK_FAILURES as error:
                    self._try_later(error)
                    break
        if has_freed_place and not self._closing:
            # Another session may have found no free place while the failed chat held one.
            self._spawn(self._start_waiting())
        return failed

    async def _start_waiting(self) -> None:
        """Start waiting chats of all sessions, up to the maximum."""
        try:
            for session_id in await store.waiting_sessions(self._db):
                if self._places.is_full:
                    break
                await self._start_next(session_id)
        except DISK_FAILURES as error:
            self._try_later(error)

    def _try_later(self, error: Exception) -> None:
        """Retry the queue after a while, because the disk refused a write."""
        if self._retrying or self._closing:
            return
        self._retrying = True
        log.error("queued chats wait until the disk accepts writes: %s", error)
        self._spawn(self._retry())

    async def _retry(self) -> None:
        await disk.pause()
        self._retrying = False
        self._parked.wake()
        await self._start_waiting()

    def _has_room(self, session_id: bytes) -> bool:
        """Return whether a chat of a session may start now."""
        return self._places.may_start(session_id) and not self._closing

    async def _start(self, stream_key: int, session_id: bytes, request: ChatRequest) -> bool:
        """Start a chat; return False if it was cancelled in the meantime.

        Raises:
            HubError: The chat cannot start.
        """
        await self._reaped.wait()
        await self._places.make_room()
        session = await SESSIONS.look_up(self._db, ids.text(session_id))
        row = await streams.reread(self._db, stream_key)
        prepared = await self._chat_start.prepare(
            row,
            session,
            request,
            self._environments.get(row.id),
            lambda: self._questions_changed(stream_key),
        )
        return await self._begin(prepared, row)

    async def _prepare_parked(self, stream: streams.StreamRow) -> PreparedChat:
        session = await SESSIONS.look_up(self._db, ids.text(stream.session_id))
        return await self._continuation.prepare(
            stream,
            session,
            self._environments.get(stream.id),
            lambda: self._questions_changed(stream.key),
        )

    def _after_parked(self, stream: streams.StreamRow) -> None:
        """Start other chats after a parked one has ended."""
        self._environments.pop(stream.id, None)
        if not self._closing:
            self._spawn(self._start_waiting())

    def _questions_changed(self, stream: int) -> None:
        """Act on a chat that begins or ceases to wait for approvals."""
        chat = self._places.running.get(stream)
        if chat is None or self._closing:
            return
        self._parking.update(stream, chat)
        if chat.questions.is_waiting:
            # It holds no place any more.
            self._parked.wake()
            self._spawn(self._start_waiting())

    async def _begin(self, prepared: PreparedChat, row: streams.StreamRow) -> bool:
        chat, begin = prepared
        stream_key = row.key
        # From now on, `cancel` finds the chat here.
        self._places.running[stream_key] = chat
        started = False
        try:
            started = await self._db.transaction(begin)
        finally:
            if not started:
                del self._places.running[stream_key]
                chat.ended.set()
        if started:
            log.info("chat started", extra={"stream_id": ids.text(row.id)})
            self._spawn(self._run(chat, row))
        else:
            self._environments.pop(row.id, None)
        return started

    async def _run(self, chat: Chat, stream: streams.StreamRow) -> None:
        try:
            await chat.run()
        finally:
            self._places.running.pop(stream.key, None)
            self._parking.stop(stream.key)
            if chat.is_left_open:
                self._parked.add(stream)
            else:
                self._places.busy.pop(stream.session_id, None)
                self._environments.pop(stream.id, None)
            self._db.waiters.wake(stream.topic)
        self._parked.wake()
        await self._wake_waiting(stream.session_id)
        await self._start_waiting()

    async def _wake_waiting(self, session_id: bytes) -> None:
        """Wake the followers of waiting chats, because their places have changed."""
        with suppress(*DISK_FAILURES):
            for stream in await store.waiting_streams(self._db, session_id):
                self._db.waiters.wake(streams.topic(stream))

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        # The caller gets errors of the hub.
        if error is not None and not isinstance(error, HubError):
            log.error("a task of the queue failed", exc_info=error)


def _fail(tx: Tx, stream: int, reason: str, now: int) -> None:
    store.dequeue(tx, stream)
    streams.set_status(tx, stream, "failed", now, reason)
