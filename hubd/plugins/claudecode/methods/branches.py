"""Branches of a conversation: fork a session, move its head, list what follows a node."""

from __future__ import annotations

from typing import Unpack

from hubd.activation import method
from hubd.activation.params import NodeId
from hubd.conversations import heads
from hubd.plugins.claudecode import events, sessions
from hubd.plugins.claudecode import options as session_options
from hubd.plugins.claudecode.handles import MessageRef, TurnRef
from hubd.plugins.claudecode.methods.base import LIST_NAMES, ClaudeBase, session_ref
from hubd.plugins.claudecode.methods.parameters import SESSION, NewName, SessionAddress
from hubd.plugins.claudecode.sessions import SESSIONS, Columns, SessionRow
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.database import Tx


class Branches(ClaudeBase):
    """Methods about the tree of a session."""

    @method(one_of=SESSION, completes=LIST_NAMES)
    async def fork(
        self,
        new_name: NewName,
        at: NodeId | None = None,
        **where: Unpack[SessionAddress],
    ) -> events.Forked:
        """Create a session that continues from another one's head, or from an earlier node.

        Both sessions share the tree; nothing is copied.

        Args:
            new_name: The name of the new session.
            at: The node to continue from, such as an earlier message: its id, or the last 4 or
                more digits; the head by default.
        """
        source = await self.session_named(where)
        parent = source.parent
        if self.host.client.actor.is_agent:
            parent = await self.check_starter(session_options.stored_options(source))

        def fork(tx: Tx) -> SessionRow:
            current = SESSIONS.reread(tx, source)
            columns = Columns(current.working_dir, current.options, current.engine, parent)
            return SESSIONS.fork(tx, current, new_name, columns, heads.now(), at=at)

        session = await self.db.transaction(fork)
        return events.Forked(
            id=ids.text(session.id),
            name=session.name,
            head=heads.position(session),
            handle=session_ref(session),
        )

    @method(one_of=SESSION, completes=LIST_NAMES)
    async def set_head(
        self,
        node_id: NodeId,
        **where: Unpack[SessionAddress],
    ) -> events.HeadSet:
        """Move a session's head to another node of its tree. The next chat continues from there.

        Args:
            node_id: The node: its id, or the last 4 or more digits of it.
        """
        session = await self.session_named(where)

        head = await self.db.transaction(
            lambda tx: SESSIONS.move(tx, session, node_id, heads.now())
        )
        return events.HeadSet(id=ids.text(session.id), head=head)

    @method(
        read_only=True,
        one_of=SESSION,
        completes=LIST_NAMES,
        produces=[TurnRef, MessageRef],
    )
    async def list_branches(
        self,
        node_id: NodeId | None = None,
        **where: Unpack[SessionAddress],
    ) -> events.Branches:
        """List the turns that continue the conversation below a node.

        Args:
            node_id: The node: its id, or the last 4 or more digits; the session's head by default.
        """
        session = await self.session_named(where)
        own_tree = await tree.look_up(self.db, ids.text(session.tree_id))
        place = await tree.look_up_place(self.db, own_tree, node_id or session.head_id)
        context = self.queue.context
        paths = [
            (name, await walk.path(self.db, head))
            for name, head in await sessions.heads_in(self.db, session.tree)
        ]
        branches = []
        for first in await context.children(await walk.node(self.db, place)):
            child = await context.below_attachments(first)
            handle = context.own(child)
            if handle is not None and handle.method not in ("turn", "message"):
                continue  # blocks are not branches
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
        return events.Branches(
            tree_id=ids.text(own_tree.id), node_id=ids.text(place.id), branches=branches
        )

    @method(read_only=True, one_of=SESSION, completes=LIST_NAMES)
    async def get_tree(
        self,
        **where: Unpack[SessionAddress],
    ) -> events.TreeOf:
        """Show the tree and the head of a session."""
        session = await self.session_named(where)
        return events.TreeOf(
            tree_id=ids.text(session.tree_id),
            head=heads.position(session),
        )
