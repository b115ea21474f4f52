"""All chats: which run, which wait for their turn, and what is left of those that ran before."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from hubd.activation import (
    Conflict,
    ExecutionError,
    Host,
    HubError,
    InvalidParams,
    Unavailable,
)
from hubd.offline_agent.project import SESSIONS_DIRECTORY
from hubd.plugins.claudecode import options as session_options
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.asked import Accepted, Asked
from hubd.plugins.claudecode.chat import Chat, Request
from hubd.plugins.claudecode.program.engine import OFFLINE_MODEL, Engine, Settings, choose
from hubd.plugins.claudecode.program.environment import child_environment
from hubd.plugins.claudecode.program.private_files import make_private, remove_left_over
from hubd.plugins.claudecode.program.process_tree import reap
from hubd.plugins.claudecode.record.context import Context
from hubd.plugins.claudecode.record.interruption import interrupt_all
from hubd.plugins.claudecode.record.live import Live
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.plugins.claudecode.record.recording import DISK_FAILURES, RETRY_SECONDS
from hubd.plugins.claudecode.resume import prepare
from hubd.storage import ids
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams

log = logging.getLogger("hubd.claudecode")

# Chats that run at the same time; more wait.
MAX_RUNNING: Final = 64

T = TypeVar("T")


class Chats:
    """The chats of one hub."""

    def __init__(self, db: Database, host: Host, context: Context, settings: Settings) -> None:
        self._db = db
        self._host = host
        self.context = context
        self._settings = settings
        # Below the hub's data directory: the offline agent's sessions, and files for one chat.
        self._directory = db.path.parent / "claudecode"
        # Those that run, by stream, and the session each belongs to.
        self._running: dict[int, Chat] = {}
        self._busy: dict[bytes, int] = {}
        # The environments of those that wait, by the ids of their streams; gone with the hub.
        self._environments: dict[bytes, Mapping[str, str]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        # Set when nothing is left of what an earlier hub had started; no chat begins before.
        self._reaped = asyncio.Event()
        # Set while the queue waits for a disk that refuses writes.
        self._retrying = False
        self._closing = False

    # Beginning and end of the hub

    async def recover(self) -> None:
        """Interrupt what an earlier hub was running; its processes end in the background.

        What waits goes on when they have ended: a hub that starts does not wait for them.
        """
        await asyncio.to_thread(remove_left_over, self._private)
        now = int(time.time())
        interrupted = await self._db.transaction(lambda tx: interrupt_all(tx, now))
        for stream in interrupted:
            log.warning("chat interrupted", extra={"stream_id": ids.text(stream.id)})
        self._spawn(self._go_on(await store.runs(self._db)))

    async def _go_on(self, left: list[tuple[int, bytes, int, str]]) -> None:
        await asyncio.gather(*(self._reap(*run) for run in left))
        self._reaped.set()
        await self._next_of_all()

    async def _reap(self, stream: int, stream_id: bytes, pid: int, started: str) -> None:
        if await reap(pid, started, ids.text(stream_id)):
            extra = {"stream_id": ids.text(stream_id)}
            log.warning("ended process %d, left behind by a hub that died", pid, extra=extra)
        # If the disk refuses this, the next start looks for the process again.
        with suppress(*DISK_FAILURES):
            await self._db.transaction(lambda tx: store.forget_run(tx, stream))

    async def close(self) -> None:
        """Interrupt what runs; returns when that is on disk."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # Chats

    @property
    def _private(self) -> Path:
        return self._directory / "private"

    @property
    def offline_sessions(self) -> Path:
        """The directory in which the offline agent keeps its sessions."""
        return self._db.path.parent / SESSIONS_DIRECTORY

    def environment(self) -> dict[str, str]:
        """Return the environment of a child: the caller's if the call carries one, else ours."""
        return child_environment(self._host.context.env or os.environ, self._db.path)

    async def submit(
        self,
        session: store.SessionRow,
        asked: Asked,
        given: Mapping[str, Any],
        env: Mapping[str, str],
        *,
        if_busy: str,
    ) -> Accepted:
        """Begin a chat, or queue it behind the one before it. Cancelling does not stop it.

        Args:
            session: The session.
            asked: The chat.
            given: Options that replace those of the session, from this chat on.
            env: The environment of its program.
            if_busy: `queue`, or `refuse`.

        Raises:
            Conflict: The session is busy and the caller will not wait, or the options would make
                another program answer.
            HubError: It could not begin.
        """
        return await asyncio.shield(self._spawn(self._submit(session, asked, given, env, if_busy)))

    async def _submit(
        self,
        session: store.SessionRow,
        asked: Asked,
        given: Mapping[str, Any],
        env: Mapping[str, str],
        if_busy: str,
    ) -> Accepted:
        now = int(time.time())
        stream_id = ids.uuid4()

        def enqueue(tx: Tx, seen: store.SessionRow, engine: Engine) -> Accepted | None:
            if if_busy == "refuse" and streams.is_busy(tx, session.id):
                raise Conflict(
                    f"session '{session.name}' is busy with another chat",
                    suggestion="Wait for it, cancel it, or let this one wait with if_busy=queue",
                )
            row = store.find_session(tx, ids.text(session.id))
            if (row.options, row.engine) != (seen.options, seen.engine):
                return None  # another call was faster, and the choice of the program may be wrong
            stored = session_options.stored_options(row)
            changed = session_options.changed(stored, given)
            merged = {**stored, **given}
            if changed:
                store.set_options(tx, row.key, json.dumps(merged), now)
            # From now on: a chat that is asked for before this one begins must not change it.
            store.set_engine(tx, row.key, engine.name)
            stream = streams.create(tx, session.id, session.tree, now, stream_id=stream_id)
            request = replace(asked, options=merged, engine=engine.name)
            store.enqueue(tx, stream.key, json.dumps(asdict(request)))
            return Accepted(stream, engine, changed)

        # Before anybody can see the stream: it may begin as soon as it is there.
        self._environments[stream_id] = env
        accepted: Accepted | None = None
        try:
            while accepted is None:
                seen = await store.look_up_session(self._db, ids.text(session.id))
                session_options.check_engine(self._settings, seen, given.get("model"))
                model = {**session_options.stored_options(seen), **given}.get("model")
                # A program that is missing is reported before anything is promised.
                engine = self._engine_for(model, seen.engine, env)
                accepted = await self._db.transaction(lambda tx: enqueue(tx, seen, engine))  # noqa: B023  awaited here
        except BaseException:
            del self._environments[stream_id]
            raise
        key = accepted.stream.key
        failed = await self._next(session.id)
        if key in failed:
            raise failed[key]
        return accepted._replace(stream=await streams.reread(self._db, key))

    def _engine_for(
        self, model: str | None, before: str | None, environ: Mapping[str, str]
    ) -> Engine:
        """Choose the program that answers."""
        engine = choose(self._settings, model, before, environ)
        if engine.name == "offline":
            argument = f"--session-directory={self.offline_sessions}"
            engine = replace(engine, program=(*engine.program, argument))
        return engine

    async def cancel(self, stream: streams.StreamRow) -> streams.StreamRow:
        """End a chat that runs or waits.

        If the disk refuses the end of the chat, its program is ended all the same, and the stream
        that is returned is still open.
        """
        chat = self._running.get(stream.key)
        if chat is not None:
            await chat.cancel()
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
        """What a chat is saying, while it runs."""
        chat = self._running.get(stream)
        return chat.live if chat else None

    def waits_for_disk(self, session_id: bytes) -> bool:
        """Return whether the disk refuses the record of a session's chat for now."""
        chat = self._running.get(self._busy.get(session_id, 0))
        return chat is not None and chat.waits_for_disk

    async def place_in_queue(self, stream: streams.StreamRow) -> str:
        """Return a sentence on why a queued chat waits."""
        waiting = await store.waiting_streams(self._db, stream.session_id)
        ahead = {key for key in waiting if key < stream.key}
        # One that begins may still be in the queue.
        if stream.session_id in self._busy:
            ahead |= {self._busy[stream.session_id]} - {stream.key}
        if ahead:
            chats = "chat" if len(ahead) == 1 else "chats"
            return f"queued behind {len(ahead)} {chats} of this session"
        is_crowded = stream.session_id not in self._busy and len(self._busy) >= MAX_RUNNING
        return f"queued: at most {MAX_RUNNING} chats run at once" if is_crowded else "starting"

    async def _next(self, session_id: bytes) -> dict[int, HubError]:
        """Begin the next chat of a session, if it is its turn.

        Returns:
            What was wrong with those that could not begin; they have failed.
        """
        failed: dict[int, HubError] = {}
        gave_way = False
        while self._has_room(session_id):
            waiting = await store.first_waiting(self._db, session_id)
            # Somebody else may have been faster meanwhile.
            if waiting is None or not self._has_room(session_id):
                break
            stream, request = waiting
            self._busy[session_id] = stream
            begun = False
            try:
                begun = await self._begin(stream, session_id, Asked(**json.loads(request)))
            except DISK_FAILURES as error:
                self._try_later(error)
                break
            except HubError as error:
                failed[stream] = error
            except OSError as error:
                where = error.filename or "a file"
                failed[stream] = Unavailable(f"{where} cannot be used: {error.strerror or error}")
            except Exception as error:
                log.exception("a chat could not begin")
                failed[stream] = ExecutionError(f"{type(error).__name__}: {error}")
            finally:
                if not begun:
                    del self._busy[session_id]
            if begun:
                break
            gave_way = True
            if stream in failed:
                reason, now = failed[stream].message, int(time.time())
                try:
                    await self._db.transaction(lambda tx: _fail(tx, stream, reason, now))  # noqa: B023  awaited here
                except DISK_FAILURES as error:
                    self._try_later(error)
                    break
        if gave_way and not self._closing:
            # It took up room, and whoever found none waits for an end that does not come.
            self._spawn(self._next_of_all())
        return failed

    async def _next_of_all(self) -> None:
        """Begin what waits, as far as there is room."""
        try:
            for session_id in await store.waiting_sessions(self._db):
                if len(self._busy) >= MAX_RUNNING:
                    break
                await self._next(session_id)
        except DISK_FAILURES as error:
            self._try_later(error)

    def _try_later(self, error: Exception) -> None:
        """Look at the queue again soon: the disk refuses to let a chat begin."""
        if self._retrying or self._closing:
            return
        self._retrying = True
        log.error("queued chats wait until the disk can be written: %s", error)
        self._spawn(self._next_later())

    async def _next_later(self) -> None:
        await asyncio.sleep(RETRY_SECONDS)
        self._retrying = False
        await self._next_of_all()

    def _has_room(self, session_id: bytes) -> bool:
        """Whether a chat of a session may begin now."""
        is_free = session_id not in self._busy and len(self._busy) < MAX_RUNNING
        return is_free and not self._closing

    async def _begin(self, stream_key: int, session_id: bytes, asked: Asked) -> bool:
        """Begin a chat; whether it was still wanted.

        Raises:
            HubError: It cannot begin.
        """
        await self._reaped.wait()
        session = await store.look_up_session(self._db, ids.text(session_id))
        row = await streams.reread(self._db, stream_key)
        env = self._environments.get(row.id)
        whose: Literal["daemon"] | None = None
        if env is None:
            whose = "daemon"
            log.warning(
                "a chat that waited while the hub was down runs with the hub's environment",
                extra={"stream_id": ids.text(row.id)},
            )
            # Not that of the call which happens to set it going.
            env = child_environment(os.environ, self._db.path)
        settled = asked.options or session_options.stored_options(session)
        options = session_options.chat_options(settled)
        # The program that was announced, also if another one would be chosen by now.
        model = OFFLINE_MODEL if asked.engine == "offline" else options.model
        engine = self._engine_for(model, asked.engine or session.engine, env)
        if not await asyncio.to_thread(Path(session.working_dir).is_dir):
            raise InvalidParams(f"the working directory {session.working_dir} is not there")
        head = await self._db.transaction(lambda tx: store.place_of(tx, session.head))
        places = env
        if engine.name == "offline":
            # An agent that cannot keep its session answers all the same.
            with suppress(OSError):
                make_private(self.offline_sessions)
            places = {"CLAUDE_CONFIG_DIR": str(self.offline_sessions)}
        digest = session_options.system_prompt_digest(options)
        before = await prepare(
            self.context,
            session,
            head,
            engine.name,
            places,
            ephemeral=asked.ephemeral,
            system_prompt=digest,
        )
        index = await self.context.turns(head)
        options = replace(
            options,
            resume=before.session,
            fork_session=before.fork,
            resume_session_at=before.fork_at,
        )
        mirror = Mirror(
            session, stream_key, engine.name, ephemeral=asked.ephemeral, system_prompt=digest
        )
        now = int(time.time())

        def begin(tx: Tx) -> bool:
            if streams.by_key(tx, stream_key).status != "queued":
                return False  # cancelled meanwhile
            store.dequeue(tx, stream_key)
            mirror.begin(tx, head, asked.prompt, index, now, whose)
            return True

        request = Request(
            content=[*before.unanswered, {"type": "text", "text": asked.prompt}],
            options=options,
            working_dir=session.working_dir,
            env=env,
            mcp_config=settled.get("mcp_config"),
            private=self._private,
            silence_seconds=self._settings.silence_seconds,
        )
        chat = Chat(self._db, row, mirror, engine, request)
        # Whoever cancels it from now on finds it here.
        self._running[stream_key] = chat
        begun = False
        try:
            begun = await self._db.transaction(begin)
        finally:
            if not begun:
                del self._running[stream_key]
                chat.ended.set()
        self._environments.pop(row.id, None)
        if begun:
            log.info("chat started", extra={"stream_id": ids.text(row.id)})
            self._spawn(self._run(chat, stream_key, session_id))
        return begun

    async def _run(self, chat: Chat, stream: int, session_id: bytes) -> None:
        try:
            await chat.run()
        finally:
            self._running.pop(stream, None)
            self._busy.pop(session_id, None)
            self._db.waiters.wake(streams.topic(stream))
        await self._wake_waiting(session_id)
        await self._next_of_all()

    async def _wake_waiting(self, session_id: bytes) -> None:
        """Wake the followers of chats that wait: their places have changed."""
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
        # Errors of the hub are for whoever has called.
        if error is not None and not isinstance(error, HubError):
            log.error("a chat could not be run", exc_info=error)


def _fail(tx: Tx, stream: int, reason: str, now: int) -> None:
    store.dequeue(tx, stream)
    streams.set_status(tx, stream, "failed", now, reason)
