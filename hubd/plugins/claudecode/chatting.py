"""claudecode: chatting: starting chats, in the foreground or not, and ending them."""

from collections.abc import AsyncIterator
from typing import Any

from pydantic_core import to_json

from hubd.activation import Conflict, Encoded, ExecutionError, NotFound, method
from hubd.plugins.claudecode import events, store
from hubd.plugins.claudecode.base import (
    LIST_NAMES,
    PAGE_ROWS,
    STREAM,
    IfBusy,
    Name,
    Prompt,
    RowLimit,
    SessionId,
)
from hubd.plugins.claudecode.chat_events import AnyChatEvent
from hubd.plugins.claudecode.chats import Asked, options_of
from hubd.plugins.claudecode.handles import VERSION
from hubd.plugins.claudecode.reading import Reading, with_handle
from hubd.plugins.claudecode.sessions import ALL_ROWS, Sessions, options_text
from hubd.storage import ids, streams


class Chatting(Sessions, Reading, version=VERSION):
    """Methods that start and end chats."""

    @method(render="chat", needs_context=True, completes=LIST_NAMES)
    async def chat(
        self,
        name: Name,
        prompt: Prompt,
        working_dir: str | None = None,
        model: str | None = None,
        system_prompt: str | None = None,
        mcp_config: dict[str, Any] | None = None,
        ephemeral: bool = False,
        loopback_enabled: bool = False,
        allowed_tools: list[str] | None = None,
        disallowed_tools: list[str] | None = None,
        permission_mode: str | None = None,
        if_busy: IfBusy = "queue",
    ) -> AsyncIterator[AnyChatEvent | Encoded]:
        """Ask, and watch the answer come. The chat goes on if the caller leaves.

        Args:
            name: The session; made if there is none of that name.
            prompt: What to ask.
            working_dir: For a new session: where the agent works.
            model: For a new session: which model; `offline` for the offline agent.
            system_prompt: For a new session: told to the agent after its own.
            mcp_config: For a new session: more MCP servers, as `claude` takes them.
            ephemeral: Do not move the session; the turn stays in the tree.
            loopback_enabled: For a new session: route permission questions to who should decide.
            allowed_tools: For a new session: tools that need no permission.
            disallowed_tools: For a new session: tools that are never permitted.
            permission_mode: For a new session: the agent's permission mode.
            if_busy: Wait for the chat before this one, or be refused.
        """
        options = options_text(
            model=model,
            system_prompt=system_prompt,
            mcp_config=mcp_config,
            loopback_enabled=loopback_enabled or None,
            allowed_tools=allowed_tools,
            disallowed_tools=disallowed_tools,
            permission_mode=permission_mode,
        )
        asked = Asked(prompt=prompt, ephemeral=ephemeral)
        stream, _ = await self._start(name, asked, options, working_dir, if_busy)
        async for row, event in self.followed(stream, 0):
            if row is None:
                yield Encoded(to_json(event))
            else:
                yield Encoded(with_handle(self.path, row))
        ended = await streams.reread(self.db, stream.key)
        if ended.started_at is None:
            # It waited, and never began: there is no turn, and no event that would tell.
            raise ExecutionError(f"the chat has not begun: {ended.error}")

    @method(streaming=False, needs_context=True, completes=LIST_NAMES)
    async def chat_async(
        self,
        name: Name,
        prompt: Prompt,
        working_dir: str | None = None,
        model: str | None = None,
        system_prompt: str | None = None,
        mcp_config: dict[str, Any] | None = None,
        ephemeral: bool = False,
        loopback_enabled: bool = False,
        allowed_tools: list[str] | None = None,
        disallowed_tools: list[str] | None = None,
        permission_mode: str | None = None,
        if_busy: IfBusy = "queue",
    ) -> AsyncIterator[events.Started]:
        """Ask in the background; read the answer with poll or follow.

        Args:
            name: The session; made if there is none of that name.
            prompt: What to ask.
            working_dir: For a new session: where the agent works.
            model: For a new session: which model; `offline` for the offline agent.
            system_prompt: For a new session: told to the agent after its own.
            mcp_config: For a new session: more MCP servers, as `claude` takes them.
            ephemeral: Do not move the session; the turn stays in the tree.
            loopback_enabled: For a new session: route permission questions to who should decide.
            allowed_tools: For a new session: tools that need no permission.
            disallowed_tools: For a new session: tools that are never permitted.
            permission_mode: For a new session: the agent's permission mode.
            if_busy: Wait for the chat before this one, or be refused.
        """
        options = options_text(
            model=model,
            system_prompt=system_prompt,
            mcp_config=mcp_config,
            loopback_enabled=loopback_enabled or None,
            allowed_tools=allowed_tools,
            disallowed_tools=disallowed_tools,
            permission_mode=permission_mode,
        )
        asked = Asked(prompt=prompt, ephemeral=ephemeral)
        stream, engine = await self._start(name, asked, options, working_dir, if_busy)
        yield events.Started(
            stream_id=ids.text(stream.id),
            session_id=ids.text(stream.session_id),
            status=stream.status,
            engine=engine,
        )

    @method(name="streams", read_only=True, render="table", completes=LIST_NAMES)
    async def list_streams(
        self,
        session_id: SessionId | None = None,
        name: Name | None = None,
        status: events.StatusName | None = None,
        limit: RowLimit | None = None,
    ) -> AsyncIterator[events.StreamList]:
        """List chats, the newest first, in pages.

        Args:
            session_id: The session whose chats are listed; all sessions if absent.
            name: The same, by the session's name.
            status: The status of the chats that are listed; all if absent.
            limit: The maximum number of chats; all if absent.
        """
        session = None
        if session_id is not None or name is not None:
            session = (await self.session_named(name, session_id)).id
        before, left = None, limit or ALL_ROWS
        while True:
            wanted = min(left, PAGE_ROWS)
            page = await streams.page(self.db, session, before, wanted, status)
            if page or before is None:
                shown = await store.names_and_prompts(self.db, (row.key for row in page))
                yield events.StreamList(
                    streams=[_stream(row, *shown.get(row.key, (None, None))) for row in page]
                )
            left -= len(page)
            if len(page) < wanted or not left:
                return
            before = page[-1].key

    @method(streaming=False, one_of=STREAM, completes=LIST_NAMES)
    async def cancel(
        self,
        stream_id: SessionId | None = None,
        session_id: SessionId | None = None,
        name: Name | None = None,
    ) -> AsyncIterator[events.Cancelled]:
        """End a chat that runs or waits; what was said stays.

        Args:
            stream_id: The stream.
            session_id: The newest stream of this session.
            name: The same, by the session's name.
        """
        stream = await self.stream_named(stream_id, session_id, name)
        ended = await self.chats.cancel(stream)
        yield events.Cancelled(stream_id=ids.text(ended.id), status=ended.status)

    async def _start(
        self, name: str, asked: Asked, options: str, working_dir: str | None, if_busy: str
    ) -> tuple[streams.StreamRow, str]:
        """The chat, and which program answers; the session is made on its first use."""
        env = self.chats.environment()
        try:
            session = await store.look_up_session(self.db, name)
        except NotFound:
            try:
                session = await self.make_session(name, self.directory(working_dir), options)
            except Conflict:  # somebody else was faster
                session = await store.look_up_session(self.db, name)
        # What cannot run is refused before anything is promised.
        engine = self.chats.engine_for(session, options_of(session).model, env)
        if engine.advice:
            await self.host.advise("engine", engine.advice)
        stream = await self.chats.submit(session, asked, env, if_busy=if_busy)
        return stream, engine.name


def _stream(row: streams.StreamRow, name: str | None, prompt: str | None) -> events.StreamInfo:
    return events.StreamInfo(
        stream_id=ids.text(row.id),
        session_id=ids.text(row.session_id),
        name=name,
        prompt=prompt,
        tree_id=ids.text(row.tree_id),
        status=row.status,
        root_node=ids.text(row.root) if row.root else None,
        head_node=ids.text(row.head) if row.head else None,
        total_events=row.next_seq,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        error=row.error,
    )
