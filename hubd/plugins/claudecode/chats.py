"""All chats: which run, which wait for their turn, and what is left of those that ran before."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from hubd.activation import Conflict, ExecutionError, Host, HubError, InvalidParams
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.argv import ChatOptions
from hubd.plugins.claudecode.context import Context
from hubd.plugins.claudecode.engine import Engine, Settings, choose
from hubd.plugins.claudecode.family import reap
from hubd.plugins.claudecode.live import Live
from hubd.plugins.claudecode.mirror import Mirror, interrupt
from hubd.plugins.claudecode.resume import prepare
from hubd.plugins.claudecode.run import Chat, Request
from hubd.storage import ids, streams
from hubd.storage.database import Database, Tx

log = logging.getLogger("hubd.claudecode")

# What no child of the hub gets to see.
SECRETS: Final = ("HUBD_TOKEN", "HUBD_SESSION_TOKEN", "SYNAPSE_TOKEN")
# Chats that run at the same time; more wait.
MAX_RUNNING: Final = 64

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """What a chat was asked, as it is kept while it waits. The environment is not kept."""

    prompt: str
    ephemeral: bool = False


class Chats:
    """The chats of one hub."""

    def __init__(self, db: Database, host: Host, context: Context, settings: Settings) -> None:
        self._db = db
        self._host = host
        self.context = context
        self._settings = settings
        # Those that run, by stream, and the session each belongs to.
        self._running: dict[int, Chat] = {}
        self._busy: dict[bytes, int] = {}
        # The environments of those that wait, by the ids of their streams; gone with the hub.
        self._environments: dict[bytes, Mapping[str, str]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        # Set when nothing is left of what an earlier hub had started; no chat begins before.
        self._reaped = asyncio.Event()
        self._closing = False

    # Beginning and end of the hub

    async def recover(self) -> None:
        """Interrupt what an earlier hub was running; its processes end in the background.

        What waits goes on when they have ended: a hub that starts does not wait for them.
        """
        interrupted = await self._db.transaction(_interrupt)
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
        await self._db.transaction(lambda tx: store.forget_run(tx, stream))

    async def close(self) -> None:
        """Interrupt what runs; returns when that is on disk."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # Chats

    def engine_for(
        self, session: store.SessionRow | None, model: str | None, environ: Mapping[str, str]
    ) -> Engine:
        """The program that would answer."""
        return choose(self._settings, model, session.engine if session else None, environ)

    def environment(self) -> dict[str, str]:
        """What a child gets: the hub's own environment under the caller's, without secrets."""
        return _without_secrets({**os.environ, **self._host.context.env})

    async def submit(
        self, session: store.SessionRow, asked: Asked, env: Mapping[str, str], *, if_busy: str
    ) -> streams.StreamRow:
        """Begin a chat, or let it wait for the one before it. Cancelling does not stop it.

        Raises:
            Conflict: The session is busy, and the caller will not wait.
            HubError: It could not begin.
        """
        return await asyncio.shield(self._spawn(self._submit(session, asked, env, if_busy)))

    async def _submit(
        self, session: store.SessionRow, asked: Asked, env: Mapping[str, str], if_busy: str
    ) -> streams.StreamRow:
        now = int(time.time())
        stream_id = ids.uuid4()

        def enqueue(tx: Tx) -> streams.StreamRow:
            if if_busy == "refuse" and streams.is_busy(tx, session.id):
                raise Conflict(
                    f"session '{session.name}' is busy with another chat",
                    suggestion="Wait for it, cancel it, or let this one wait with if_busy=queue",
                )
            stream = streams.create(tx, session.id, session.tree, now, stream_id=stream_id)
            store.enqueue(tx, stream.key, json.dumps(asdict(asked)))
            return stream

        # Before anybody can see the stream: it may begin as soon as it is there.
        self._environments[stream_id] = env
        try:
            stream = await self._db.transaction(enqueue)
        except BaseException:
            del self._environments[stream_id]
            raise
        failed = await self._next(session.id)
        if stream.key in failed:
            raise failed[stream.key]
        return await streams.reread(self._db, stream.key)

    async def cancel(self, stream: streams.StreamRow) -> streams.StreamRow:
        """End a chat that runs or waits."""
        chat = self._running.get(stream.key)
        if chat is not None:
            await chat.cancel()
            await chat.ended.wait()
        elif stream.status == "queued":
            now = int(time.time())

            def withdraw(tx: Tx) -> None:
                if streams.by_key(tx, stream.key).status == "queued":
                    store.dequeue(tx, stream.key)
                    streams.set_status(tx, stream.key, "cancelled", now, "the chat was cancelled")

            await self._db.transaction(withdraw)
            self._environments.pop(stream.id, None)
        return await streams.reread(self._db, stream.key)

    def live(self, stream: int) -> Live | None:
        """What a chat is saying, while it runs."""
        chat = self._running.get(stream)
        return chat.live if chat else None

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
            except HubError as error:
                failed[stream] = error
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
                await self._db.transaction(lambda tx: _fail(tx, stream, reason, now))  # noqa: B023  awaited here
        if gave_way and not self._closing:
            # It took up room, and whoever found none waits for an end that does not come.
            self._spawn(self._next_of_all())
        return failed

    async def _next_of_all(self) -> None:
        """Begin what waits, as far as there is room."""
        for session_id in await store.waiting_sessions(self._db):
            if len(self._busy) >= MAX_RUNNING:
                break
            await self._next(session_id)

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
        env = self._environments.pop(row.id, None)
        whose: Literal["daemon"] | None = None
        if env is None:
            whose = "daemon"
            log.warning(
                "a chat that waited while the hub was down runs with the hub's environment",
                extra={"stream_id": ids.text(row.id)},
            )
            # Not under that of whoever has happened to set it going.
            env = _without_secrets(os.environ)
        options = options_of(session)
        engine = self.engine_for(session, options.model, env)
        if not await asyncio.to_thread(Path(session.working_dir).is_dir):
            raise InvalidParams(f"the working directory {session.working_dir} is not there")
        head = await self._db.transaction(lambda tx: store.place_of(tx, session.head))
        before = await prepare(
            self.context, session, head, engine.name, env, ephemeral=asked.ephemeral
        )
        index = await self.context.turns(head)
        options = replace(
            options,
            resume=before.session,
            fork_session=before.fork,
            resume_session_at=before.fork_at,
        )
        mirror = Mirror(session, stream_key, engine.name, ephemeral=asked.ephemeral)
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
            mcp_config=json.loads(session.options).get("mcp_config"),
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
        await self._next_of_all()

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


def _without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environ.items() if name not in SECRETS}


def options_of(session: store.SessionRow) -> ChatOptions:
    """What a session says to the program."""
    known: dict[str, Any] = json.loads(session.options)
    return ChatOptions(
        model=known.get("model"),
        system_prompt=known.get("system_prompt"),
        allowed_tools=tuple(known.get("allowed_tools") or ()),
        disallowed_tools=tuple(known.get("disallowed_tools") or ()),
        permission_mode=known.get("permission_mode"),
    )


def _interrupt(tx: Tx) -> list[streams.StreamRow]:
    now = int(time.time())
    found = streams.interrupt_all(tx, now)
    for stream in found:
        interrupt(tx, stream, now)
    return found


def _fail(tx: Tx, stream: int, reason: str, now: int) -> None:
    store.dequeue(tx, stream)
    streams.set_status(tx, stream, "failed", now, reason)
