"""claudecode: chatting: starting chats, in the foreground or not, and ending them."""

from collections.abc import AsyncIterator
from typing import Any

from pydantic_core import to_json

from hubd.activation import Conflict, Encoded, ExecutionError, NotFound, method
from hubd.activation.pages import ROWS_PER_ITEM, RowLimit
from hubd.plugins.claudecode import events, store
from hubd.plugins.claudecode.asked import Accepted, Asked
from hubd.plugins.claudecode.chat_events import AnyChatEvent
from hubd.plugins.claudecode.handles import VERSION
from hubd.plugins.claudecode.methods.base import (
    LIST_NAMES,
    STREAM,
    IfBusy,
    Name,
    Prompt,
    SessionId,
)
from hubd.plugins.claudecode.methods.reading import Reading, with_handle
from hubd.plugins.claudecode.methods.sessions import ALL_ROWS, Sessions, options_text
from hubd.plugins.claudecode.options import given_options
from hubd.storage import ids
from hubd.storage.streams import streams


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
        loopback_enabled: bool | None = None,
        allowed_tools: list[str] | None = None,
        disallowed_tools: list[str] | None = None,
        permission_mode: str | None = None,
        if_busy: IfBusy = "queue",
    ) -> AsyncIterator[AnyChatEvent | Encoded]:
        """Send a prompt and watch the answer. The chat continues if the caller leaves.

        Options that are given for an existing session replace its own, from this chat on.

        Args:
            name: The session; created if there is none of that name.
            prompt: The prompt.
            working_dir: The agent's directory; for a new session by default the caller's.
                Another one than the session's is a conflict.
            model: The model; `offline` for the offline agent. By default the session's, or
                the agent's own. A model that would change the agent is a conflict.
            system_prompt: Text that follows the agent's own system prompt. By default the
                session's.
            mcp_config: More MCP servers, as `claude` takes them. By default the session's.
                Values of headers and env are secrets: no method returns them.
            ephemeral: Do not move the session; the turn stays in the tree.
            loopback_enabled: Send the agent's permission requests to an approver. By default the
                session's value, which is false for a new session.
            allowed_tools: Tools that need no permission. By default the session's.
            disallowed_tools: Tools that are never permitted. By default the session's.
            permission_mode: The agent's permission mode. By default the session's.
            if_busy: `queue` waits for the chat before this one, `refuse` is a conflict.
        """
        given = given_options(
            model=model,
            system_prompt=system_prompt,
            mcp_config=mcp_config,
            loopback_enabled=loopback_enabled,
            allowed_tools=allowed_tools,
            disallowed_tools=disallowed_tools,
            permission_mode=permission_mode,
        )
        asked = Asked(prompt=prompt, ephemeral=ephemeral)
        stream = (await self._start(name, asked, given, working_dir, if_busy)).stream
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
        loopback_enabled: bool | None = None,
        allowed_tools: list[str] | None = None,
        disallowed_tools: list[str] | None = None,
        permission_mode: str | None = None,
        if_busy: IfBusy = "queue",
    ) -> AsyncIterator[events.Started]:
        """Send a prompt in the background; read the answer with poll or follow.

        Options that are given for an existing session replace its own, from this chat on.

        Args:
            name: The session; created if there is none of that name.
            prompt: The prompt.
            working_dir: The agent's directory; for a new session by default the caller's.
                Another one than the session's is a conflict.
            model: The model; `offline` for the offline agent. By default the session's, or
                the agent's own. A model that would change the agent is a conflict.
            system_prompt: Text that follows the agent's own system prompt. By default the
                session's.
            mcp_config: More MCP servers, as `claude` takes them. By default the session's.
                Values of headers and env are secrets: no method returns them.
            ephemeral: Do not move the session; the turn stays in the tree.
            loopback_enabled: Send the agent's permission requests to an approver. By default the
                session's value, which is false for a new session.
            allowed_tools: Tools that need no permission. By default the session's.
            disallowed_tools: Tools that are never permitted. By default the session's.
            permission_mode: The agent's permission mode. By default the session's.
            if_busy: `queue` waits for the chat before this one, `refuse` is a conflict.
        """
        given = given_options(
            model=model,
            system_prompt=system_prompt,
            mcp_config=mcp_config,
            loopback_enabled=loopback_enabled,
            allowed_tools=allowed_tools,
            disallowed_tools=disallowed_tools,
            permission_mode=permission_mode,
        )
        asked = Asked(prompt=prompt, ephemeral=ephemeral)
        accepted = await self._start(name, asked, given, working_dir, if_busy)
        yield events.Started(
            stream_id=ids.text(accepted.stream.id),
            session_id=ids.text(accepted.stream.session_id),
            status=accepted.stream.status,
            engine=accepted.engine.name,
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
            wanted = min(left, ROWS_PER_ITEM)
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
        """End a chat that runs or waits. The text so far stays.

        Args:
            stream_id: The stream.
            session_id: The newest stream of this session.
            name: The same, by the session's name.
        """
        stream = await self.stream_named(stream_id, session_id, name)
        ended = await self.chats.cancel(stream)
        is_written = ended.status not in streams.OPEN
        if not is_written:
            await self.host.advise(
                "end_not_written",
                "The agent has ended, but the disk refuses the end of the chat. The hub tries "
                "again until it is written; until then the chat is shown as running",
            )
        yield events.Cancelled(
            stream_id=ids.text(ended.id), status=ended.status, written=is_written
        )

    async def _start(
        self,
        name: str,
        asked: Asked,
        given: dict[str, Any],
        working_dir: str | None,
        if_busy: str,
    ) -> Accepted:
        """Start a chat. The session is created on its first use."""
        env = self.chats.environment()
        try:
            session = await store.look_up_session(self.db, name)
        except NotFound:
            directory = self.directory(working_dir)
            try:
                session = await self.make_session(name, directory, options_text(**given))
            except Conflict:  # another call was faster
                session = await store.look_up_session(self.db, name)
        if working_dir is not None:
            self._check_directory(session, working_dir)
        accepted = await self.chats.submit(session, asked, given, env, if_busy=if_busy)
        if accepted.engine.advice:
            await self.host.advise("engine", accepted.engine.advice)
        if accepted.changed:
            await self.host.advise(
                "options_changed",
                f"Session '{session.name}' uses new values from this chat on: "
                f"{', '.join(accepted.changed)}",
            )
        return accepted

    def _check_directory(self, session: store.SessionRow, given: str) -> None:
        """Refuse another working directory than the session's.

        Raises:
            Conflict: It is another one.
        """
        if self.directory(given) != session.working_dir:
            raise Conflict(
                f"session '{session.name}' works in {session.working_dir}",
                suggestion="Use another name for a new session, or leave out working_dir",
            )


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
