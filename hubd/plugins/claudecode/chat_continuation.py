"""Prepare a chat that continues without its first process, after its calls were decided."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from hubd.activation import Host
from hubd.errors import Unavailable
from hubd.plugins.claudecode import chat_events, store
from hubd.plugins.claudecode import options as session_options
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.approvals.resumption import CallLost, Ledger, Resumption
from hubd.plugins.claudecode.chat import Chat
from hubd.plugins.claudecode.chat_request import ChatRequest
from hubd.plugins.claudecode.chat_start import ChatStart, PreparedChat
from hubd.plugins.claudecode.native import (
    NativeMessage,
    projects_directory,
    restore_entries,
    session_file,
    write_session,
)
from hubd.plugins.claudecode.program.engine import OFFLINE_MODEL
from hubd.plugins.claudecode.record.context import Context, open_messages
from hubd.plugins.claudecode.record.interruption import waiting_calls
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.plugins.claudecode.record.restoration import Restored, restore
from hubd.plugins.claudecode.resume import WRITTEN_AS
from hubd.plugins.claudecode.sessions import SessionRow
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams

# Seconds for `claude --version`.
VERSION_SECONDS: Final = 20.0


class ChatContinuation:
    """Prepares parked chats: their record, their native session and the calls to carry out."""

    def __init__(self, db: Database, host: Host, context: Context, chat_start: ChatStart) -> None:
        self._db = db
        self._host = host
        self._context = context
        self._chat_start = chat_start
        # The version of each program, by its path and the time of its last change.
        self._versions: dict[tuple[str, int], str] = {}

    async def prepare(
        self,
        stream: streams.StreamRow,
        session: SessionRow,
        env: Mapping[str, str] | None,
        on_questions: Callable[[], None],
    ) -> PreparedChat:
        """Prepare a chat that continues with the decisions about its calls.

        Args:
            stream: The stream of the chat.
            session: The session.
            env: The caller's environment; None after a restart, then the hub's is used.
            on_questions: Called when the agent asks for an approval, or gets the answer.

        Raises:
            CallLost: Its calls can't be continued.
            HubError: The program is missing.
        """
        kept, waiting = await self._db.transaction(
            lambda tx: (store.kept_request(tx, stream.key), waiting_calls(tx, stream.key))
        )
        if kept is None or kept[1] is None or not waiting:
            raise CallLost("the hub has no record of the agent's session")
        request, file = ChatRequest(**json.loads(kept[0])), Path(kept[1])
        env_source, env = self._chat_start.environment(stream, env)
        session_values = request.options or session_options.stored_options(session)
        options = session_options.chat_options(session_values)
        model = OFFLINE_MODEL if request.engine == "offline" else options.model
        engine = self._chat_start.engine(model, request.engine, env)
        session_env: Mapping[str, str] = env
        if engine.name == "offline":
            session_env = {"CLAUDE_CONFIG_DIR": str(self._chat_start.offline_sessions)}
        elif not _has_sessions_at(env, file.parents[1]):
            # The environment is another one now. The session file decides.
            env = session_env = {**env, "CLAUDE_CONFIG_DIR": str(file.parents[2])}
        digest = session_options.system_prompt_digest(options)
        now = int(time.time())

        def read(tx: Tx) -> tuple[Restored, Ledger]:
            mirror = Mirror(
                session, stream.key, engine.name, ephemeral=request.ephemeral, system_prompt=digest
            )
            restored = restore(tx, mirror, streams.by_key(tx, stream.key), now)
            rows = approvals.of_stream(tx, stream.key)
            return restored, Ledger(rows, restored.results, frozenset(restored.subagents))

        (mirror, *_), ledger = await self._db.transaction(read)
        resumption = Resumption(
            file=file,
            native_id=file.stem,
            working_dir=Path(session.working_dir),
            version=await self._version(engine.name, engine.program, env),
            permission_mode=options.permission_mode or "default",
            tool_use_id=waiting[0].tool_use_id,
            ledger=ledger,
        )
        if await resumption.is_missing():
            await self._rewrite(resumption, mirror, session_env)
        await resumption.check()
        mirror.native_id = resumption.native_id
        options = replace(options, resume=resumption.native_id)

        def begin(tx: Tx) -> bool:
            if streams.by_key(tx, stream.key).status not in ("running", "awaiting_permission"):
                return False  # cancelled in the meantime
            store.set_native_file(tx, stream.key, str(resumption.file))
            data = {"environment": env_source} if env_source else {}
            mirror.push(tx, chat_events.Passthrough.fields(event_type="resumed", data=data), now)
            return True

        launch = self._chat_start.launch(session, session_values, options, env, session_env)
        launch = replace(launch, resumption=resumption)
        chat = Chat(self._host, self._db, stream, mirror, engine, launch, on_questions)
        return PreparedChat(chat, begin)

    async def _rewrite(
        self, resumption: Resumption, mirror: Mirror, environ: Mapping[str, str]
    ) -> None:
        """Write the lost entries of the native session from the hub's record.

        If the file does not end in the same turn, a new native session gets the whole context.
        """
        if mirror.last_message is None:
            return
        messages = open_messages(await self._context.messages(mirror.last_message))
        frame: dict[str, Any] = {
            "cwd": resumption.working_dir,
            "version": WRITTEN_AS,
            "now": datetime.now(UTC),
        }
        is_restored = await asyncio.to_thread(
            restore_entries,
            resumption.file,
            session_id=resumption.native_id,
            messages=_last_turn(messages),
            **frame,
        )
        if is_restored:
            return
        native_id = str(uuid4())
        file = session_file(environ, resumption.working_dir, native_id)
        await asyncio.to_thread(
            write_session, file, session_id=native_id, messages=messages, **frame
        )
        resumption.file, resumption.native_id = file, native_id

    async def _version(self, name: str, program: tuple[str, ...], env: Mapping[str, str]) -> str:
        """Return the version of the program; the offline agent counts as the newest."""
        if name == "offline":
            return WRITTEN_AS
        changed = await asyncio.to_thread(_changed_at, program[0])
        key = (program[0], changed)
        if key not in self._versions:
            self._versions[key] = await self._ask_version(program, env)
        return self._versions[key]

    async def _ask_version(self, program: tuple[str, ...], env: Mapping[str, str]) -> str:
        try:
            async with (
                asyncio.timeout(VERSION_SECONDS),
                self._host.process([*program, "--version"], env=env) as child,
            ):
                lines = [line async for line in child.lines()]
        except TimeoutError:
            reason = f"{program[0]} did not report its version within {VERSION_SECONDS:g} s"
            raise Unavailable(reason) from None
        return lines[0].decode(errors="replace").split(" ")[0] if lines else ""


def _has_sessions_at(env: Mapping[str, str], directory: Path) -> bool:
    try:
        return projects_directory(env) == directory
    except Unavailable:
        return False


def _changed_at(program: str) -> int:
    try:
        return Path(program).stat().st_mtime_ns
    except OSError:
        return 0


def _last_turn(messages: list[NativeMessage]) -> list[NativeMessage]:
    """Return the messages from the last prompt on."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message.role == "user" and any(
            block.get("type") != "tool_result" for block in message.content
        ):
            return messages[place:]
    return messages
