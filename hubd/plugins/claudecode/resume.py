"""How a program is told what was said before: by its own session, a fork of it, or a new one.

The native way is preferred, because the model's own context and cache follow; where there is
none, the context is written down as a session of the program's own kind.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.native import session_file, write_session
from hubd.plugins.claudecode.native.history import as_entry, parse
from hubd.plugins.claudecode.record.context import Context, for_program
from hubd.storage.arbor.tree import Place

# The version of the program whose files ours are like.
WRITTEN_AS: Final = "2.1.325"


class Resume(NamedTuple):
    """What the program is told of the past; nothing for a conversation that begins.

    `unanswered` is what was said, or given by tools, after the last answer: it is sent with the
    prompt, because a program takes a session that does not end with an answer for broken off.
    """

    session: str | None = None
    fork: bool = False
    fork_at: str | None = None
    unanswered: Sequence[dict[str, Any]] = ()


async def prepare(
    context: Context,
    session: store.SessionRow,
    head: Place,
    engine: str,
    environ: Mapping[str, str],
    *,
    ephemeral: bool = False,
    system_prompt: str | None = None,
) -> Resume:
    """Find or make the native session to go on with.

    Args:
        context: Reads what was said.
        session: Who goes on.
        head: From where.
        engine: Which program will be told.
        environ: Its environment, which says where its sessions are.
        ephemeral: The native session that there is stays as it is.
        system_prompt: The digest of the system prompt for this chat. A native session keeps the
            one that it began with, so another one needs another native session.
    """
    cwd = Path(session.working_dir)
    last = (await context.nodes(head))[-1]
    blob = await context.blob(context.own(last))
    if (
        blob is not None
        and blob.data.get("engine") == engine
        and blob.data.get("system_prompt_digest") == system_prompt
    ):
        native, uuids = blob.data.get("native_id"), blob.data.get("uuids")
        if native and uuids:
            file = session_file(environ, cwd, native)
            is_there, is_last = await asyncio.to_thread(_look_for, uuids[-1], file)
            if is_last and (session.native_id, session.native_head) == (native, head.key):
                return Resume(native, fork=ephemeral)
            # A native fork at a message that calls tools would lack what the tools gave.
            if is_there and not await context.calls_tools(last):
                return Resume(native, fork=True, fork_at=uuids[-1])
    messages = for_program(await context.messages(head))
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
        # Told to go on from the call itself, a program takes the results from the prompt; else it
        # would say that there are none.
        return Resume(native, fork=True, fork_at=last_uuid, unanswered=unanswered)
    return Resume(native, unanswered=unanswered)


def _look_for(uuid: str, file: Path) -> tuple[bool, bool]:
    """Whether a message is in the file of its session, and whether nothing was said after it.

    It may not have reached the file before a crash, and others may have gone on with the session.
    """
    is_there = False
    try:
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
    """The id of the message that a line holds, if it holds one."""
    try:
        entry = as_entry(parse(line))
    except ValueError:
        return None
    return entry.uuid if entry is not None and entry.is_shown else None
