"""claudecode: sessions: making, finding, branching and removing them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from hubd.activation import Conflict, InvalidParams, Unavailable, method
from hubd.activation.pages import ROWS_PER_ITEM, RowLimit
from hubd.activation.params import NodeId, Position, TreeId
from hubd.plugins.claudecode import events, store
from hubd.plugins.claudecode.handles import VERSION, MessageRef, TurnRef
from hubd.plugins.claudecode.methods.base import (
    LIST_NAMES,
    ClaudeBase,
    Name,
    NewName,
    SessionId,
    now,
    reference,
)
from hubd.plugins.claudecode.new_session import new_session
from hubd.plugins.claudecode.options import public, stored_options
from hubd.storage import ids
from hubd.storage.arbor import references, tree, walk
from hubd.storage.database import Tx
from hubd.storage.streams import streams

WHICH = ("name", "session_id")
# More than any table has.
ALL_ROWS: Final = 2**62


class Sessions(ClaudeBase, version=VERSION):
    """Methods about sessions."""

    @method(streaming=False, needs_context=True)
    async def create(
        self,
        name: Name,
        working_dir: str | None = None,
        model: str | None = None,
        system_prompt: str | None = None,
        mcp_config: dict[str, Any] | None = None,
        loopback_enabled: bool = False,
        allowed_tools: list[str] | None = None,
        disallowed_tools: list[str] | None = None,
        permission_mode: str | None = None,
        tree_id: TreeId | None = None,
        node_id: NodeId | None = None,
    ) -> AsyncIterator[events.Created]:
        """Make a session, on a tree of its own or at a node of an existing one.

        Args:
            name: What to call it.
            working_dir: Where the agent works; the caller's directory unless said otherwise.
            model: Which model; `offline` for the offline agent.
            system_prompt: Told to the agent after its own.
            mcp_config: More MCP servers, as `claude` takes them.
            loopback_enabled: Route the agent's permission questions to whoever should decide.
            allowed_tools: Tools that need no permission.
            disallowed_tools: Tools that are never permitted.
            permission_mode: The agent's permission mode.
            tree_id: Begin on this tree.
            node_id: Begin at this node of it: its id, or the last 4 or more digits; the root by
                default.
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
        if node_id is not None and tree_id is None:
            raise InvalidParams("node_id needs tree_id")
        session = await self.make_session(
            name, self.directory(working_dir), options, tree_id=tree_id, node_id=node_id
        )
        yield events.Created(
            id=ids.text(session.id),
            name=session.name,
            head=Position.at(session.tree_id, session.head_id),
            handle=reference(session),
        )

    @method(streaming=False, read_only=True, one_of=WHICH, completes=LIST_NAMES)
    async def get(
        self, name: Name | None = None, session_id: SessionId | None = None
    ) -> AsyncIterator[events.SessionData]:
        """Look at a session.

        Args:
            name: Its name.
            session_id: Its id.
        """
        session = await self.session_named(name, session_id)
        yield events.SessionData(
            session=await self.info(session),
            options=public(stored_options(session)),
            handle=reference(session),
        )

    @method(name="list", read_only=True, render="table")
    async def list_sessions(
        self, limit: RowLimit | None = None
    ) -> AsyncIterator[events.SessionList]:
        """List all sessions in order of creation, in pages.

        Args:
            limit: The maximum number of sessions; all if absent.
        """
        after, left = 0, limit or ALL_ROWS
        while True:
            wanted = min(left, ROWS_PER_ITEM)
            page = await store.page_of_sessions(self.db, after, wanted)
            if page or not after:
                yield events.SessionList(sessions=[await self.info(entry) for entry in page])
            left -= len(page)
            if len(page) < wanted or not left:
                return
            after = page[-1].key

    @method(streaming=False, destructive=True, one_of=WHICH, completes=LIST_NAMES)
    async def delete(
        self, name: Name | None = None, session_id: SessionId | None = None
    ) -> AsyncIterator[events.Deleted]:
        """Remove a session; its tree stays for as long as anybody holds it.

        Args:
            name: Its name.
            session_id: Its id.
        """
        session = await self.session_named(name, session_id)
        if self.chats.waits_for_disk(session.id):
            raise Unavailable(
                f"session '{session.name}': the disk refuses its chat: its end is not written yet",
                suggestion="Free space or check the disk. The hub tries until the end is written",
            )

        def delete(tx: Tx) -> None:
            if streams.is_busy(tx, session.id):
                raise Conflict(
                    f"session '{session.name}' is busy",
                    suggestion="Cancel its chat: claudecode.cancel",
                )
            store.delete_session(tx, session)
            held = tree.find(tx, ids.text(session.tree_id))
            references.let_go(tx, held, store.owner_of(session.id), now())

        await self.db.transaction(delete)
        yield events.Deleted(id=ids.text(session.id), name=session.name)

    @method(streaming=False, one_of=WHICH, completes=LIST_NAMES)
    async def fork(
        self,
        new_name: NewName,
        name: Name | None = None,
        session_id: SessionId | None = None,
        at: NodeId | None = None,
    ) -> AsyncIterator[events.Forked]:
        """Make a session that goes on from where another one stands, or stood. Copies nothing.

        Args:
            new_name: What to call it.
            name: The session to fork.
            session_id: The same, by its id.
            at: The node to continue from, such as an earlier message: its id, or the last 4 or
                more digits; the head by default.
        """
        source = await self.session_named(name, session_id)

        def fork(tx: Tx) -> store.SessionRow:
            held = tree.find(tx, ids.text(source.tree_id))
            head = tree.place(tx, held, at or source.head_id)
            made = store.create_session(
                tx,
                name=new_name,
                head=head,
                working_dir=source.working_dir,
                options=source.options,
                now=now(),
                engine=source.engine,
            )
            references.claim(tx, held, store.owner_of(made.id), 1, now())
            return made

        made = await self.db.transaction(fork)
        yield events.Forked(
            id=ids.text(made.id),
            name=made.name,
            head=Position.at(made.tree_id, made.head_id),
            handle=reference(made),
        )

    @method(streaming=False, one_of=WHICH, completes=LIST_NAMES)
    async def set_head(
        self, node_id: NodeId, name: Name | None = None, session_id: SessionId | None = None
    ) -> AsyncIterator[events.HeadSet]:
        """Move a session's head to another node of its tree. The next chat continues from there.

        Args:
            node_id: The node: its id, or the last 4 or more digits of it.
            name: The session.
            session_id: The same, by its id.
        """
        session = await self.session_named(name, session_id)

        def move(tx: Tx) -> bytes:
            if streams.is_busy(tx, session.id):
                raise Conflict(f"session '{session.name}' is busy", suggestion="Wait for its chat")
            held = tree.find(tx, ids.text(session.tree_id))
            head = tree.place(tx, held, node_id)
            store.move_head(tx, session.key, head.key, now())
            return head.id

        head_id = await self.db.transaction(move)
        yield events.HeadSet(id=ids.text(session.id), head=Position.at(session.tree_id, head_id))

    @method(streaming=False, read_only=True, one_of=WHICH, completes=LIST_NAMES)
    async def get_tree(
        self, name: Name | None = None, session_id: SessionId | None = None
    ) -> AsyncIterator[events.TreeOf]:
        """Where the conversation of a session lies.

        Args:
            name: The session.
            session_id: The same, by its id.
        """
        session = await self.session_named(name, session_id)
        yield events.TreeOf(
            tree_id=ids.text(session.tree_id),
            head=Position.at(session.tree_id, session.head_id),
        )

    @method(
        streaming=False,
        read_only=True,
        one_of=WHICH,
        completes=LIST_NAMES,
        produces=[TurnRef, MessageRef],
    )
    async def list_branches(
        self,
        name: Name | None = None,
        session_id: SessionId | None = None,
        node_id: NodeId | None = None,
    ) -> AsyncIterator[events.Branches]:
        """List the turns that continue the conversation below a node.

        Args:
            name: The session.
            session_id: The same, by its id.
            node_id: The node: its id, or the last 4 or more digits; the session's head by default.
        """
        session = await self.session_named(name, session_id)
        held = await tree.look_up(self.db, ids.text(session.tree_id))
        place = await tree.look_up_place(self.db, held, node_id or session.head_id)
        context = self.chats.context
        paths = [
            (name, await walk.path(self.db, head))
            for name, head in await store.heads_in(self.db, session.tree)
        ]
        branches = []
        for child in await context.children(await walk.node(self.db, place)):
            handle = context.own(child)
            if handle is not None and handle.method not in ("turn", "message"):
                continue  # blocks are no branches
            blob = await context.blob(handle)
            data = blob.data if blob else {}
            branches.append(
                events.Branch(
                    node_id=ids.text(child.id),
                    turn_index=data.get("index"),
                    summary=data.get("prompt") or data.get("text") or child.text or "",
                    handle=child.handle,
                    sessions=[
                        name
                        for name, path in paths
                        if any(stretch.contains(child) for stretch in path)
                    ],
                )
            )
        yield events.Branches(
            tree_id=ids.text(held.id), node_id=ids.text(place.id), branches=branches
        )

    @method(streaming=False, read_only=True, completes=LIST_NAMES)
    async def usage(
        self, name: Name | None = None, session_id: SessionId | None = None
    ) -> AsyncIterator[events.Usage]:
        """What chats have cost, of one session or of all.

        Args:
            name: The session.
            session_id: The same, by its id.
        """
        wanted = None
        if name is not None or session_id is not None:
            wanted = (await self.session_named(name, session_id)).id
        rows = [
            events.UsageRow(**{**row, "session_id": ids.text(row["session_id"])})
            for row in await store.turns(self.db, wanted)
        ]
        yield events.Usage(
            sessions=rows,
            cost_usd=sum(row.cost_usd or 0.0 for row in rows),
            turns=sum(row.turns for row in rows),
        )

    async def make_session(
        self,
        name: str,
        working_dir: str,
        options: str,
        *,
        tree_id: str | None = None,
        node_id: NodeId | None = None,
    ) -> store.SessionRow:
        """A session that holds its tree.

        Raises:
            Conflict: The name is taken.
        """
        return await self.db.transaction(
            lambda tx: new_session(tx, name, working_dir, options, tree_id, node_id)
        )

    def directory(self, given: str | None) -> str:
        """Where an agent works: as given, else the caller's directory, else the user's home.

        Raises:
            InvalidParams: It is not a directory.
        """
        here = Path(self.host.context.cwd or Path.home())
        try:
            wanted = here / Path(given).expanduser() if given else here
            if not wanted.is_dir():
                raise InvalidParams(
                    f"{wanted} is not a directory", suggestion="Choose another working_dir"
                )
            return str(wanted.resolve())
        except (OSError, ValueError, RuntimeError) as error:
            # A name that is too long or has a NUL, a loop of links, the home of an unknown user.
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidParams(
                f"the working directory cannot be used: {reason}",
                suggestion="Choose another working_dir",
            ) from None


def options_text(**options: Any) -> str:
    """What a session tells the program, as it is stored."""
    return json.dumps({name: value for name, value in options.items() if value is not None})
