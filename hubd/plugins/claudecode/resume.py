"""How a program is told what was said before: by its own session, a fork of it, or a new one.

The native way is preferred, because the model's own context and cache follow; where there is
none, the context is written down as a session of the program's own kind.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.context import Context
from hubd.plugins.claudecode.native import session_file, write_session
from hubd.storage.tree import Place

# The version of the program whose files ours are like.
WRITTEN_AS: Final = "2.1.325"


class Resume(NamedTuple):
    """What the command line says of the past; nothing for a conversation that begins."""

    session: str | None = None
    fork_at: str | None = None


async def prepare(
    context: Context,
    session: store.SessionRow,
    head: Place,
    engine: str,
    environ: Mapping[str, str],
) -> Resume:
    """Find or make the native session to go on with."""
    cwd = Path(session.working_dir)
    at_tip = session.native_head == head.key and session.engine == engine
    if session.native_id and at_tip and session_file(environ, cwd, session.native_id).exists():
        return Resume(session.native_id)
    nodes = await context.nodes(head)
    blob = await context.blob(context.own(nodes[-1]))
    if blob is not None and blob.data.get("engine") == engine:
        native, uuids = blob.data.get("native_id"), blob.data.get("uuids")
        if native and uuids and session_file(environ, cwd, native).exists():
            return Resume(native, uuids[-1])
    messages = await context.messages(head)
    if not messages:
        return Resume()
    native = str(uuid4())
    write_session(
        session_file(environ, cwd, native),
        session_id=native,
        cwd=cwd,
        messages=messages,
        version=WRITTEN_AS,
        now=datetime.now(UTC),
    )
    return Resume(native)
