"""The actors behind connections: found by process trees and by session tokens.

Each child of `host.process` is the root of a tree. Connections of its processes act as its actor.
The launcher makes it a subreaper, so a process that is detached stays in the tree. When the child
ends, its orphans become children of hubd, which has no actor for them.
"""

import asyncio
import os
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from hubd.errors import Unauthenticated
from hubd.process.peer import Lost, Peer, ancestors, can_identify, has_exited, tcp_peer, unix_peer
from hubd.process.tree import Identity, is_adopting, is_running
from hubd.wire.caller import UNKNOWN, Actor

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from hubd.process.child import ChildProcess

# The owners of TCP connections that are tried first for the next one.
RECENT_OWNERS: Final = 16
AGENT_ENDED: Final = "the agent that started this process has ended"
INVALID_TOKEN: Final = "this session token is not registered at this hub"
# Attempts to follow a tree in which processes end.
ATTEMPTS: Final = 5


class Origin(NamedTuple):
    """The process that made a connection."""

    # The actor of its tree; None outside of all trees.
    actor: Actor | None
    # The process and its parent, outside of all trees; None if they are not known.
    process: Identity | None = None
    parent: Identity | None = None
    # The root of the tree.
    root: Identity | None = None
    # Whether the process belongs to another user of this machine, who is not the administrator.
    is_other_user: bool = False


class _Starting(Exception):
    """The process may belong to a child that is just being started."""


class Actors:
    """The process trees and session tokens of a hub, each with its actor."""

    def __init__(self) -> None:
        self._roots: dict[Identity, Actor] = {}
        # Functions that close the connections of a tree.
        self._closers: dict[Identity, set[Callable[[], None]]] = {}
        # By digest, so that a comparison reveals nothing about a token.
        self._tokens: dict[bytes, Actor] = {}
        # Children that run, or will soon, and are not in `_roots` yet.
        self._starting = 0
        # Connections that wait for such a child.
        self._waiting: list[asyncio.Future[None]] = []
        self._recent_owners: OrderedDict[int, None] = OrderedDict()
        # One thread, so that many new connections don't compete with the event loop.
        self._executor: ThreadPoolExecutor | None = None

    @asynccontextmanager
    async def running(self, child: "ChildProcess") -> AsyncIterator[None]:
        """Run a child. It and its descendants act as its actor."""
        await self._start(child)
        try:
            yield
        finally:
            try:
                await child.__aexit__(None, None, None)
            finally:
                self._roots.pop(child.identity, None)
                # Processes that outlive the child lose its rights.
                for close in self._closers.pop(child.identity, set()):
                    close()

    def register_token(self, token: str, actor: Actor) -> None:
        """Let connections with this session token act as an actor."""
        self._tokens[_digest(token)] = actor

    def remove_token(self, token: str) -> None:
        """Refuse new connections with this session token."""
        self._tokens.pop(_digest(token), None)

    def is_registered(self, token: str) -> bool:
        """Return whether a session token is registered."""
        return _digest(token) in self._tokens

    def has_token(self, token: str) -> bool:
        """Return whether a session token is registered."""
        return _digest(token) in self._tokens

    def find_unix(self, connection: socket.socket) -> Origin | None:
        """Return the origin of a connection to a Unix socket; None if `of_unix` has to wait."""
        if not can_identify():
            return Origin(None)
        try:
            origin = self._of_peer(unix_peer(connection))
        except _Starting:
            return None
        return Origin(UNKNOWN) if has_exited(connection) else origin

    async def of_unix(self, connection: socket.socket) -> Origin:
        """Return the origin of a connection to a Unix socket."""
        while (origin := self.find_unix(connection)) is None:
            await self._child_started()
        return origin

    async def of_tcp(self, connection: socket.socket) -> Origin:
        """Return the origin of a connection from this machine. Takes milliseconds."""
        if not can_identify():
            return Origin(None)
        try:
            client, server = connection.getpeername(), connection.getsockname()
        except OSError:
            return Origin(UNKNOWN)  # the client has disconnected
        if self._executor is None:
            # Not needed for the start of the daemon.
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(1, "peers")
        likely = tuple(reversed(self._recent_owners))
        peer = await asyncio.get_running_loop().run_in_executor(
            self._executor, tcp_peer, client, server, likely
        )
        if peer.pid:
            self._recent_owners[peer.pid] = None
            self._recent_owners.move_to_end(peer.pid)
            if len(self._recent_owners) > RECENT_OWNERS:
                self._recent_owners.popitem(last=False)
        while True:
            try:
                return self._of_peer(peer)
            except _Starting:
                await self._child_started()

    def watch(self, origin: Origin, close: Callable[[], None]) -> Callable[[], None]:
        """Call `close` when the child at the root of a connection's tree has ended.

        Returns:
            A function that ends the watch.
        """
        if origin.root is None:
            return _do_nothing
        closers = self._closers.setdefault(origin.root, set())
        closers.add(close)
        return lambda: closers.discard(close)

    def admit(
        self, origin: Origin, outside: Actor, token: str | None, program: Identity | None = None
    ) -> Actor:
        """Return the actor of a connection.

        Args:
            origin: The origin of the connection.
            outside: The actor if the origin is outside of all trees and there is no token.
            token: The session token that the connection sent.
            program: The program that the token was given to. It becomes the root of a tree.

        Raises:
            Unauthenticated: The token is not registered.
        """
        if token is None:
            return origin.actor or outside
        actor = self._tokens.get(_digest(token))
        if actor is None:
            raise Unauthenticated(
                INVALID_TOKEN, suggestion="Create the configuration of the client again"
            )
        if origin.actor is not None:
            # A process in an agent's tree never becomes another actor.
            return origin.actor
        # The first process of the system and hubd are above others.
        if (
            program is not None
            and program not in self._roots
            and program.pid not in (1, os.getpid())
        ):
            self._forget_ended()
            self._roots[program] = actor
        return actor

    async def _start(self, child: "ChildProcess") -> None:
        self._starting += 1
        try:
            await child.__aenter__()
            self._roots[child.identity] = child.actor
        finally:
            self._starting -= 1
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_result(None)
            self._waiting.clear()

    async def _child_started(self) -> None:
        """Wait until a child is in `_roots`, or has failed to start."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(started)
        await started

    def _of_peer(self, peer: Peer) -> Origin:
        """Return the origin of a connection by its process.

        Raises:
            _Starting: The process may belong to a child that is just being started.
        """
        if peer.uid is not None and peer.uid != os.getuid():
            return Origin(None, is_other_user=peer.uid != 0)
        if not peer.pid:
            return Origin(UNKNOWN)
        for _ in range(ATTEMPTS):
            try:
                return self._of_process(peer.pid)
            except Lost:
                continue
        return Origin(UNKNOWN)

    def _of_process(self, pid: int) -> Origin:
        processes: list[Identity] = []
        for process in ancestors(pid):
            if process in self._roots:
                return Origin(self._roots[process], root=process)
            if process.pid == os.getpid() and not processes:
                return Origin(None, process)  # a plugin or a test
            if process.pid == os.getpid() and is_adopting():
                if self._starting:
                    raise _Starting
                return Origin(UNKNOWN)
            processes.append(process)
        process, parent, *_ = *processes, None, None
        return Origin(None, process, parent)

    def _forget_ended(self) -> None:
        """Remove programs with a token that have ended. The system does not report that."""
        for process in [root for root in self._roots if not is_running(root)]:
            del self._roots[process]


def process_id(process: Identity | None) -> str:
    """Return the id of an MCP client by its process; empty if the process is not known."""
    return f"process:{process.pid}@{process.started}" if process is not None else ""


def _do_nothing() -> None:
    """Do nothing."""


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="surrogatepass")).digest()
