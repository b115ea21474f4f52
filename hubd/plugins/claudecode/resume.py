"""Continue a conversation in the program: in its own session, in a fork of it, or in a new one.

The program's own session is preferred, because it keeps the model's context and cache. Without
one, the context is written as a new session file.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from hubd.plugins.claudecode.native import NativeMessage, session_file, write_session
from hubd.plugins.claudecode.native.entries import as_entry, parse
from hubd.plugins.claudecode.native.pending_call import live_marker
from hubd.plugins.claudecode.record.context import Context, for_program
from hubd.plugins.claudecode.sessions import SessionRow
from hubd.storage.arbor.tree import Place

# The version of `claude` in written session files; they have its format.
WRITTEN_AS: Final = "2.1.325"


class Resume(NamedTuple):
    """The session to resume; None for a new conversation.

    `unanswered` are the blocks after the last answer: prompts, attachments and tool results. They
    are sent with the prompt, because a session that does not end with an answer counts as broken
    off.
    """

    session: str | None = None
    fork: bool = False
    fork_at: str | None = None
    unanswered: Sequence[dict[str, Any]] = ()


async def prepare(
    context: Context,
    session: SessionRow,
    head: Place,
    engine: str,
    environ: Mapping[str, str],
    *,
    ephemeral: bool = False,
    system_prompt: str | None = None,
    attached: Sequence[NativeMessage] = (),
) -> Resume:
    """Find the native session to continue, or write one.

    Args:
        context: The reader of contexts.
        session: The session to continue.
        head: The node to continue from.
        engine: The program that will answer.
        environ: The program's environment, which names the directory of its sessions.
        ephemeral: Whether the existing native session must not change.
        system_prompt: The digest of this chat's system prompt. A native session keeps its first
            system prompt, so another prompt needs another native session.
        attached: The messages of the attachments. They are sent with the prompt; only a message of
            the assistant among them needs another native session.
    """
    attached = for_program(attached)
    has_answer = any(message.role == "assistant" for message in attached)
    sent = [block for message in attached for block in message.content]
    cwd = Path(session.working_dir)
    last = (await context.nodes(head))[-1]
    blob = await context.blob(context.own(last))
    if (
        blob is not None
        and not has_answer
        and blob.data.get("engine") == engine
        and blob.data.get("system_prompt_digest") == system_prompt
    ):
        native, uuids = blob.data.get("native_id"), blob.data.get("uuids")
        if native and uuids:
            file = session_file(environ, cwd, native)
            is_there, is_last = await asyncio.to_thread(_look_for, uuids[-1], file)
            if is_last and (session.native_id, session.native_head) == (native, head.key):
                return Resume(native, fork=ephemeral, unanswered=sent)
            # A native fork at a message with tool calls would lack the results of the tools.
            if is_there and not await context.calls_tools(last):
                return Resume(native, fork=True, fork_at=uuids[-1], unanswered=sent)
    messages = [*for_program(await context.messages(head)), *attached]
    unanswered: list[dict[str, Any]] = []
    while messages and messages[-1].role == "user":
        unanswered = messages.pop().content + unanswered
    if not messages:
        return Resume(unanswered=unanswered)
    native = str(uuid4())
    last_uuid = await asyncio.to_thread(
        write_session,
        session_file(environ, cwd, native),
        session_id=native,
        cwd=cwd,
        messages=messages,
        version=WRITTEN_AS,
        now=datetime.now(UTC),
    )
    if any(block.get("type") == "tool_result" for block in unanswered):
        # If the fork is at the call itself, the program takes the results from the prompt.
        # Otherwise it reports that there are none.
        return Resume(native, fork=True, fork_at=last_uuid, unanswered=unanswered)
    return Resume(native, unanswered=unanswered)


def _look_for(uuid: str, file: Path) -> tuple[bool, bool]:
    """Return whether a session file has a message, and whether it is the last one.

    A crash may have lost the message, and another program may have continued the session. A file
    with a marker is not used: its next process, even that of a fork, would carry out the call.
    """
    is_there = False
    try:
        if live_marker(file) is not None:
            return False, False
        with file.open("rb") as lines:
            for line in lines:
                if not is_there:
                    is_there = uuid.encode() in line and _uuid_of(line) == uuid
                elif _uuid_of(line) is not None:
                    return True, False
    except OSError:
        return False, False
    return is_there, is_there


def _uuid_of(line: bytes) -> str | None:
    """Return the id of the message in a line, if there is one."""
    try:
        entry = as_entry(parse(line))
    except ValueError:
        return None
    return entry.uuid if entry is not None and entry.is_shown else None
