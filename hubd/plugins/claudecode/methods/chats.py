"""Start chats."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Unpack

from pydantic_core import to_json

from hubd.activation import (
    Conflict,
    Encoded,
    ExecutionError,
    NotFound,
    PermissionDenied,
    method,
)
from hubd.activation.working_directory import working_directory
from hubd.conversations import attachments, heads
from hubd.plugins.claudecode import chat_events, chat_request, events, sessions
from hubd.plugins.claudecode import options as session_options
from hubd.plugins.claudecode.approvals import actors, inline, remedy
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.costs import budget, usage
from hubd.plugins.claudecode.methods.base import LIST_NAMES, ClaudeBase
from hubd.plugins.claudecode.methods.parameters import ChatOptions, Name, Prompt
from hubd.plugins.claudecode.record import followers
from hubd.plugins.claudecode.sessions import SESSIONS, Columns, SessionRow
from hubd.storage import ids
from hubd.storage.streams import streams


class Chats(ClaudeBase):
    """Methods that start chats."""

    @method(
        render="chat",
        weight=90,
        interactive={
            "param": "prompt",
            "cancel": "claudecode.cancel",
            "commands": {
                "tree": {"method": "arbor.tree_render", "values_from": "claudecode.get_tree"},
                "fork": {
                    "method": "claudecode.fork",
                    "argument": "at",
                    "switches": {"name": "name"},
                },
                "head": {"method": "claudecode.set_head", "argument": "node_id"},
                "model": {"param": "model"},
                "cost": {"method": "claudecode.usage"},
            },
        },
        needs_context=True,
        completes=LIST_NAMES,
        bidirectional=True,
    )
    async def chat(
        self, name: Name, prompt: Prompt, **options: Unpack[ChatOptions]
    ) -> AsyncIterator[chat_events.AnyChatEvent | Encoded]:
        """Send a prompt and watch the answer. The chat continues if the caller leaves.

        A tool call that needs an approval is put to the caller if the caller may answer it.
        Otherwise, and over MCP, the call returns while the approval is pending, with the event
        `pending` as the last one; the chat continues in the background.

        In an existing session, the given options replace the session's from this chat on, and
        options that are left out stay as they are.

        Args:
            name: The session; created on its first chat.
            prompt: The prompt.
        """
        stream = (await self._start(name, prompt, options)).stream
        watcher = inline.Watcher(self.db, self.host, stays=False)
        denials = remedy.Denials()
        async with (
            watcher.asked(self.host, stream),
            aclosing(self.followers.follow(stream, 0, watcher.leaves)) as entries,
        ):
            async for durable, event in entries:
                if durable is None:
                    yield Encoded(to_json(event))
                else:
                    denials.note(event)
                    yield Encoded(followers.with_handle(self.path, durable.row))
        for advice in denials.advice:
            await self.host.advise("tool_denied", advice)
        ended = await streams.reread(self.db, stream.key)
        if ended.status in streams.OPEN:
            await self._advise_to_answer(ended)
        if ended.started_at is None:
            # The chat never left the queue, so it has no turn and no event with the reason.
            raise ExecutionError(f"the chat did not start: {ended.error}")

    @method(needs_context=True, completes=LIST_NAMES)
    async def chat_async(
        self, name: Name, prompt: Prompt, **options: Unpack[ChatOptions]
    ) -> events.Started:
        """Send a prompt in the background. Read the answer with follow or poll.

        In an existing session, the given options replace the session's from this chat on, and
        options that are left out stay as they are.

        Args:
            name: The session; created on its first chat.
            prompt: The prompt.
        """
        accepted = await self._start(name, prompt, options)
        return events.Started(
            stream_id=ids.text(accepted.stream.id),
            session_id=ids.text(accepted.stream.session_id),
            status=accepted.stream.status,
            engine=accepted.engine.name,
        )

    async def _advise_to_answer(self, stream: streams.StreamRow) -> None:
        """Name the commands that answer the approvals of a chat."""
        for row in await approvals.read_pending_of(self.db, stream.key):
            await self.host.advise(
                "approval_pending",
                f"{row.tool_name} waits for an approval. Allow it with: synapse loopback respond "
                f"--approval-id {ids.text(row.id)} --approve   Deny it with --no-approve",
            )

    async def _start(
        self, name: str, prompt: str, options: ChatOptions
    ) -> chat_request.AcceptedChat:
        """Start a chat, or queue it. The session is created on its first use."""
        env = self.queue.environment()
        given = session_options.given_options(options)
        working_dir = options.get("working_dir")
        parent = await self.check_starter(given)
        # Before a session is created for them.
        handles = await attachments.check(self.host, options.get("attach") or ())
        try:
            session = await SESSIONS.look_up(self.db, name)
        except NotFound:
            directory = working_directory(self.host, working_dir)
            try:
                columns = Columns(directory, json.dumps(given), parent=parent)
                session = await self.db.transaction(
                    lambda tx: SESSIONS.create(tx, name, columns, heads.now())
                )
            except Conflict:  # another call was faster
                session = await SESSIONS.look_up(self.db, name)
        await self._check_starter_of(session)
        if working_dir is not None:
            self._check_directory(session, working_dir)
        # A queued chat is checked again when it starts.
        budget.remaining(
            session.name,
            {**session_options.stored_options(session), **given},
            await usage.spent(self.db, session.id),
        )
        accepted = await self.queue.submit(
            session,
            chat_request.ChatRequest(
                prompt=prompt,
                ephemeral=options.get("ephemeral", False),
                attach=[str(handle) for handle in handles],
            ),
            given,
            env,
            if_busy=options.get("if_busy", "queue"),
        )
        if accepted.engine.advice:
            await self.host.advise("engine", accepted.engine.advice)
        if accepted.changed:
            await self.host.advise(
                "options_changed",
                f"Session '{session.name}' uses new values from this chat on: "
                f"{', '.join(accepted.changed)}",
            )
        return accepted

    async def _check_starter_of(self, session: SessionRow) -> None:
        """Refuse an agent that chats in a session which it has not started.

        Raises:
            PermissionDenied: The session may have more rights than the agent.
        """
        actor = self.host.client.actor
        if actor.kind == "session" and actors.actor_text(actor) not in await sessions.ancestors(
            self.db, session
        ):
            raise PermissionDenied(
                f"this agent has not started session '{session.name}'",
                suggestion="Use another name for a session of its own",
            )

    def _check_directory(self, session: SessionRow, given: str) -> None:
        """Refuse another working directory than the session's.

        Raises:
            Conflict: It is another one.
        """
        if working_directory(self.host, given) != session.working_dir:
            raise Conflict(
                f"session '{session.name}' works in {session.working_dir}",
                suggestion="Use another name for a new session, or leave out working_dir",
            )
