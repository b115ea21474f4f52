"""Prepare a chat for its start: choose the program, resume the conversation, open the record."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from hubd.activation import Actor, Host, InvalidParams
from hubd.offline_agent.project import SESSIONS_DIRECTORY
from hubd.plugins.claudecode import options as session_options
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.approvals.resumption import CallLost, Resumption
from hubd.plugins.claudecode.chat import Chat, Launch
from hubd.plugins.claudecode.chat_events import Passthrough
from hubd.plugins.claudecode.chat_request import ChatRequest
from hubd.plugins.claudecode.native import projects_directory, session_file, write_session
from hubd.plugins.claudecode.program.argv import ChatOptions
from hubd.plugins.claudecode.program.engine import OFFLINE_MODEL, Engine, Settings, choose
from hubd.plugins.claudecode.program.hub_server import with_hub
from hubd.plugins.claudecode.program.private_files import make_private
from hubd.plugins.claudecode.record.context import Context, open_messages
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.plugins.claudecode.record.restoration import restore
from hubd.plugins.claudecode.resume import WRITTEN_AS, prepare
from hubd.plugins.claudecode.sessions import SessionRow
from hubd.storage import ids
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams
from hubd.wire.text import shorten

log = logging.getLogger("hubd.claudecode")


class PreparedChat(NamedTuple):
    """A chat that can start."""

    chat: Chat
    # Takes the chat out of the queue and begins its record; False if it was cancelled.
    begin: Callable[[Tx], bool]


class ChatStart:
    """Prepares queued chats: holds the directories, the settings and the reader of contexts."""

    def __init__(self, db: Database, host: Host, context: Context, settings: Settings) -> None:
        self._db = db
        self._host = host
        self._context = context
        self._settings = settings

    @property
    def park_seconds(self) -> float:
        """Seconds that a chat waits for an approval before its process ends."""
        return self._settings.park_secs

    @property
    def private_files(self) -> Path:
        """The directory of the files that only one chat's program reads."""
        return self._db.path.parent / "claudecode" / "private"

    @property
    def offline_sessions(self) -> Path:
        """The directory of the offline agent's sessions."""
        return self._db.path.parent / SESSIONS_DIRECTORY

    def check_engine(self, session: SessionRow, model: str | None) -> None:
        """Refuse a model that would change the program of a session.

        Raises:
            Conflict: The session runs on the other program.
        """
        session_options.check_engine(self._settings, session, model)

    def engine(self, model: str | None, before: str | None, environ: Mapping[str, str]) -> Engine:
        """Return the program that answers.

        Args:
            model: The model of the chat, if one was chosen.
            before: The program of the session so far.
            environ: The environment of the program.

        Raises:
            Unavailable: The program is missing.
        """
        engine = choose(self._settings, model, before, environ)
        if engine.name == "offline":
            argument = f"--session-directory={self.offline_sessions}"
            engine = replace(engine, program=(*engine.program, argument))
        return engine

    async def prepare(
        self,
        stream: streams.StreamRow,
        session: SessionRow,
        request: ChatRequest,
        env: Mapping[str, str] | None,
        on_questions: Callable[[], None],
    ) -> PreparedChat:
        """Prepare a queued chat.

        Args:
            stream: The stream of the chat.
            session: The session.
            request: The request.
            env: The caller's environment; None after a restart, then the hub's is used.
            on_questions: Called when the agent asks for an approval, or gets the answer.

        Raises:
            HubError: The chat cannot start.
        """
        env_source, env = self._environment(stream, env)
        session_values = request.options or session_options.stored_options(session)
        options = session_options.chat_options(session_values)
        # The announced program, even if the choice would be another one now.
        model = OFFLINE_MODEL if request.engine == "offline" else options.model
        engine = self.engine(model, request.engine or session.engine, env)
        if not await asyncio.to_thread(Path(session.working_dir).is_dir):
            raise InvalidParams(f"the working directory {session.working_dir} does not exist")
        head = await self._db.transaction(lambda tx: store.place_of(tx, session.head))
        session_env = env
        if engine.name == "offline":
            # The agent answers even if it cannot store its session.
            with suppress(OSError):
                make_private(self.offline_sessions)
            session_env = {"CLAUDE_CONFIG_DIR": str(self.offline_sessions)}
        digest = session_options.system_prompt_digest(options)
        before = await prepare(
            self._context,
            session,
            head,
            engine.name,
            session_env,
            ephemeral=request.ephemeral,
            system_prompt=digest,
        )
        index = await self._context.turns(head)
        options = replace(
            options,
            resume=before.session,
            fork_session=before.fork,
            resume_session_at=before.fork_at,
        )
        mirror = Mirror(
            session, stream.key, engine.name, ephemeral=request.ephemeral, system_prompt=digest
        )
        now = int(time.time())
        lost = await self._db.transaction(lambda tx: approvals.untold(tx, session.id))
        notes = [{"type": "text", "text": _about(row)} for row in lost]

        def begin(tx: Tx) -> bool:
            if streams.by_key(tx, stream.key).status != "queued":
                return False  # cancelled in the meantime
            store.dequeue(tx, stream.key)
            store.keep_request(tx, stream.key, json.dumps(asdict(request)))
            approvals.set_told(tx, [row.key for row in lost])
            mirror.begin(tx, head, request.prompt, index, now, env_source)
            return True

        launch = self._launch(session, session_values, options, env, session_env)
        content = [*before.unanswered, *notes, {"type": "text", "text": request.prompt}]
        launch = replace(launch, content=content)
        chat = Chat(self._host, self._db, stream, mirror, engine, launch, on_questions)
        return PreparedChat(chat, begin)

    async def prepare_parked(
        self,
        stream: streams.StreamRow,
        session: SessionRow,
        env: Mapping[str, str] | None,
        on_questions: Callable[[], None],
    ) -> PreparedChat:
        """Prepare a chat that continues with the decisions about its calls.

        Raises:
            CallLost: Its calls can't be continued.
            HubError: The program is missing.
        """
        kept, rows = await self._db.transaction(
            lambda tx: (store.kept_request(tx, stream.key), approvals.of_stream(tx, stream.key))
        )
        undone = [row for row in rows if row.call_state == "waiting"]
        undone = [row for row in undone if row.status not in ("withdrawn", "lost")]
        if kept is None or kept[1] is None or not undone:
            raise CallLost("the hub has no record of the agent's session")
        request, file = ChatRequest(**json.loads(kept[0])), Path(kept[1])
        env_source, env = self._environment(stream, env)
        session_values = request.options or session_options.stored_options(session)
        options = session_options.chat_options(session_values)
        model = OFFLINE_MODEL if request.engine == "offline" else options.model
        engine = self.engine(model, request.engine, env)
        session_env: Mapping[str, str] = env
        if engine.name == "offline":
            session_env = {"CLAUDE_CONFIG_DIR": str(self.offline_sessions)}
        elif projects_directory(env) != file.parents[1]:
            # The environment is another one now. The session file decides.
            env = session_env = {**env, "CLAUDE_CONFIG_DIR": str(file.parents[2])}
        digest = session_options.system_prompt_digest(options)
        now = int(time.time())

        def restored(tx: Tx) -> Mirror:
            mirror = Mirror(
                session, stream.key, engine.name, ephemeral=request.ephemeral, system_prompt=digest
            )
            restore(tx, mirror, streams.by_key(tx, stream.key), now)
            return mirror

        mirror = await self._db.transaction(restored)
        resumption = Resumption(
            file=file,
            native_id=file.stem,
            working_dir=Path(session.working_dir),
            version=await self._version(engine, env),
            permission_mode=options.permission_mode or "default",
            tool_use_id=undone[0].tool_use_id,
        )
        if await resumption.is_missing():
            await self._rewrite(resumption, mirror, session_env)
        await resumption.check()
        mirror.native_id = resumption.native_id
        options = replace(options, resume=resumption.native_id)

        def begin(tx: Tx) -> bool:
            if streams.by_key(tx, stream.key).status not in ("running", "awaiting_permission"):
                return False  # cancelled in the meantime
            data = {"environment": env_source} if env_source else {}
            mirror.push(tx, Passthrough.fields(event_type="resumed", data=data), now)
            return True

        launch = self._launch(session, session_values, options, env, session_env)
        launch = replace(launch, resumption=resumption)
        chat = Chat(self._host, self._db, stream, mirror, engine, launch, on_questions)
        return PreparedChat(chat, begin)

    async def _rewrite(
        self, resumption: Resumption, mirror: Mirror, environ: Mapping[str, str]
    ) -> None:
        """Write the native session anew from the hub's record, because its file lacks the call."""
        if mirror.last_message is None:
            return
        messages = open_messages(await self._context.messages(mirror.last_message))
        native_id = str(uuid4())
        file = session_file(environ, resumption.working_dir, native_id)
        await asyncio.to_thread(
            write_session,
            file,
            session_id=native_id,
            cwd=resumption.working_dir,
            messages=messages,
            version=WRITTEN_AS,
            now=datetime.now(UTC),
        )
        resumption.file, resumption.native_id = file, native_id

    def _environment(
        self, stream: streams.StreamRow, env: Mapping[str, str] | None
    ) -> tuple[Literal["daemon"] | None, Mapping[str, str]]:
        if env is not None:
            return None, env
        log.warning(
            "a chat that waited during a restart gets the hub's environment",
            extra={"stream_id": ids.text(stream.id)},
        )
        # Not the environment of the call that happens to start the queue.
        return "daemon", os.environ

    def _launch(
        self,
        session: SessionRow,
        values: Mapping[str, Any],
        options: ChatOptions,
        env: Mapping[str, str],
        session_env: Mapping[str, str],
    ) -> Launch:
        grants = tuple(values.get("grants") or ())
        mcp_config = values.get("mcp_config")
        if grants:
            mcp_config = with_hub(mcp_config, self._db.path.parent)
        return Launch(
            content=(),
            options=options,
            working_dir=session.working_dir,
            env=env,
            mcp_config=mcp_config,
            private=self.private_files,
            silence_seconds=self._settings.silence_seconds,
            acts_as=Actor("session", ids.text(session.id), grants),
            session_file=lambda native_id: session_file(
                session_env, Path(session.working_dir), native_id
            ),
        )

    async def _version(self, engine: Engine, env: Mapping[str, str]) -> str:
        """Return the version of the program; the offline agent counts as the newest."""
        if engine.name == "offline":
            return WRITTEN_AS
        async with self._host.process([*engine.program, "--version"], env=env) as child:
            lines = [line async for line in child.lines()]
        return lines[0].decode(errors="replace").split(" ")[0] if lines else ""


def _about(row: approvals.ApprovalRow) -> str:
    """Return the words for an agent about a call that was not carried out."""
    call = shorten(f"{row.tool_name} {row.input}", 500)
    return f"Your tool call {row.tool_use_id} ({call}) was not carried out: {row.message}"
