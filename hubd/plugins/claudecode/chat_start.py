"""Prepare a chat for its start: choose the program, resume the conversation, open the record."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hubd.activation import Actor, Host, InvalidParams
from hubd.offline_agent.project import SESSIONS_DIRECTORY
from hubd.plugins.claudecode import options as session_options
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.approvals.resumption import UNKNOWN_OUTCOME
from hubd.plugins.claudecode.chat import Chat, Launch
from hubd.plugins.claudecode.chat_request import ChatRequest
from hubd.plugins.claudecode.costs.budget import remaining
from hubd.plugins.claudecode.costs.usage import spent
from hubd.plugins.claudecode.native import session_file
from hubd.plugins.claudecode.program.argv import ChatOptions
from hubd.plugins.claudecode.program.engine import OFFLINE_MODEL, Engine, Settings, choose
from hubd.plugins.claudecode.program.hub_server import with_hub
from hubd.plugins.claudecode.program.private_files import make_private
from hubd.plugins.claudecode.record.context import Context
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.plugins.claudecode.resume import prepare
from hubd.plugins.claudecode.sessions import SessionRow
from hubd.storage import ids
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams
from hubd.wire.handle import parse
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
        env_source, env = self.environment(stream, env)
        session_values = request.options or session_options.stored_options(session)
        budget = remaining(session.name, session_values, await spent(self._db, session.id))
        options = replace(
            session_options.chat_options(session_values),
            max_turns=budget.turns,
            max_budget_usd=budget.cost_usd,
        )
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
        attach = [parse(handle) for handle in request.attach]
        before = await prepare(
            self._context,
            session,
            head,
            engine.name,
            session_env,
            ephemeral=request.ephemeral,
            system_prompt=digest,
            attached=await self._context.attached(attach),
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
        lost = await self._db.transaction(lambda tx: approvals.unreported(tx, session.id))
        notes = [{"type": "text", "text": _note(row)} for row in lost]

        def begin(tx: Tx) -> bool:
            if streams.by_key(tx, stream.key).status != "queued":
                return False  # cancelled in the meantime
            store.dequeue(tx, stream.key)
            store.keep_request(tx, stream.key, json.dumps(asdict(request)))
            approvals.mark_reported(tx, [row.key for row in lost])
            mirror.begin(tx, head, request.prompt, index, now, env_source, attach)
            return True

        launch = self.launch(session, session_values, options, env, session_env)
        content = [*before.unanswered, *notes, {"type": "text", "text": request.prompt}]
        launch = replace(launch, content=content)
        chat = Chat(self._host, self._db, stream, mirror, engine, launch, on_questions)
        return PreparedChat(chat, begin)

    def environment(
        self, stream: streams.StreamRow, env: Mapping[str, str] | None
    ) -> tuple[Literal["daemon"] | None, Mapping[str, str]]:
        """Return the environment of a chat, and its source if that is not the caller."""
        if env is not None:
            return None, env
        log.warning(
            "a chat that waited during a restart gets the hub's environment",
            extra={"stream_id": ids.text(stream.id)},
        )
        # Not the environment of the call that happens to start the queue.
        return "daemon", os.environ

    def launch(
        self,
        session: SessionRow,
        values: Mapping[str, Any],
        options: ChatOptions,
        env: Mapping[str, str],
        session_env: Mapping[str, str],
    ) -> Launch:
        """Return the start of a program, without its input.

        Args:
            session: The session.
            values: The options of the chat as they are stored.
            options: The options of the program.
            env: The environment of the program.
            session_env: The environment that names the directory of the program's sessions.
        """
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


def _note(row: approvals.ApprovalRow) -> str:
    """Return the words for an agent about a call whose end it does not know."""
    call = f"Your tool call {row.tool_use_id} ({shorten(f'{row.tool_name} {row.input}', 500)})"
    if row.call_state == "started":
        return f"{call} has no result. {UNKNOWN_OUTCOME}"
    return f"{call} was not carried out: {row.message}"
