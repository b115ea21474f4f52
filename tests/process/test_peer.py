"""The processes behind connections, and the trees that they belong to."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Unavailable
from hubd.errors import Unauthenticated
from hubd.plexus import actors as actors_module
from hubd.plexus.actors import Actors, Origin, process_id
from hubd.process import peer
from hubd.process.child import ChildProcess
from hubd.process.peer import Lost, Peer, ancestors, has_exited, tcp_peer, unix_peer
from hubd.process.tree import Identity, identity
from hubd.wire.caller import PERSON, UNKNOWN, Actor
from tests.process.support import fake, linux_only

pytestmark = linux_only

AGENT = Actor("session", "one", ())
# Connects to the Unix socket of its argument, and waits for the end of its input.
CONNECTS = (
    "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
    "print('connected',flush=True); sys.stdin.read()"
)


@contextmanager
def tcp(family: int = socket.AF_INET, host: str = "127.0.0.1") -> Iterator[tuple[Any, Any]]:
    """A connection: the client's end and the server's end."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(family) as client:
        client.connect((host, server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            yield client, accepted


def owner(accepted: socket.socket) -> Peer:
    return tcp_peer(accepted.getpeername(), accepted.getsockname())


@pytest.fixture(params=["netlink", "tables"])
def lookup(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to find a socket."""
    if request.param == "tables":

        def unsupported(client: object, server: object) -> None:
            raise OSError("netlink is not supported")

        monkeypatch.setattr(peer, "_diagnose", unsupported)


@pytest.mark.usefixtures("lookup")
def test_the_owner_of_a_tcp_connection_is_found() -> None:
    own = Peer(os.getpid(), os.getuid())
    with tcp() as (_, accepted):
        assert owner(accepted) == own
        assert tcp_peer(accepted.getpeername(), accepted.getsockname(), [1, os.getpid()]) == own
    with tcp(socket.AF_INET6, "::ffff:127.0.0.1") as (_, accepted):
        assert owner(accepted) == own


@pytest.mark.usefixtures("lookup")
def test_a_closed_tcp_connection_has_no_owner() -> None:
    with tcp() as (client, accepted):
        client.close()
        # The kernel reports the user 0 now, which must not count as another user.
        assert owner(accepted) == Peer(0, None)


def test_a_connection_belongs_to_the_process_that_has_it_open() -> None:
    with (
        tcp() as (client, accepted),
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[client.fileno()]) as cat,
    ):
        client.close()
        assert owner(accepted).pid == cat.pid


def test_ancestors_lead_to_the_first_process() -> None:
    own, *above = ancestors(os.getpid())
    assert own == identity(os.getpid())
    assert above[0].pid == os.getppid()
    with subprocess.Popen(["true"]) as ended:
        pass
    with pytest.raises(Lost):
        list(ancestors(ended.pid))


class Listener:
    """A Unix socket, and the processes that connect to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen()

    @contextmanager
    def connected(self) -> Iterator[tuple[socket.socket, "subprocess.Popen[bytes]"]]:
        command = [sys.executable, "-I", "-S", "-c", CONNECTS, str(self.path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            accepted, _ = self.socket.accept()
            with accepted:
                yield accepted, process


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    opened = Listener(tmp_path / "socket")
    yield opened
    opened.socket.close()


def test_the_end_of_a_peer_is_noticed(listener: Listener) -> None:
    with listener.connected() as (accepted, process):
        assert unix_peer(accepted) == Peer(process.pid, os.getuid())
        assert not has_exited(accepted)
        process.kill()
        process.wait()
        assert has_exited(accepted)
        assert Actors().find_unix(accepted) == Origin(UNKNOWN)


def test_a_process_outside_of_all_trees_has_no_actor(listener: Listener) -> None:
    with listener.connected() as (accepted, process):
        origin = Actors().find_unix(accepted)
        assert origin == Origin(None, identity(process.pid), identity(os.getpid()))


def test_an_adopted_orphan_is_unknown(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actors_module, "is_adopting", lambda: True)
    with listener.connected() as (accepted, _):
        assert Actors().find_unix(accepted) == Origin(UNKNOWN)


class SlowStart(ChildProcess):
    """A child that runs for a while before its start is complete."""

    def __init__(self, pid: int, *, fails: bool) -> None:
        super().__init__(fake("echo"), cwd=Path("/"), env={}, actor=AGENT)
        self._pid = pid
        self._fails = fails
        self.complete = asyncio.Event()

    async def __aenter__(self) -> "SlowStart":
        await self.complete.wait()
        if self._fails:
            raise Unavailable("it cannot be started")
        self._identity = identity(self._pid)
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("fails", [False, True])
async def test_a_connection_of_a_child_that_is_being_started_waits(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    monkeypatch.setattr(actors_module, "is_adopting", lambda: True)
    actors = Actors()
    with listener.connected() as (accepted, process):
        child = SlowStart(process.pid, fails=fails)

        async def run() -> Origin | None:
            async with actors.running(child):
                return actors.find_unix(accepted)

        running = asyncio.create_task(run())
        await asyncio.sleep(0)
        assert actors.find_unix(accepted) is None
        finding = asyncio.create_task(actors.of_unix(accepted))
        await asyncio.sleep(0)
        child.complete.set()
        if fails:
            with pytest.raises(Unavailable):
                await running
            assert await finding == Origin(UNKNOWN)
        else:
            assert await running == Origin(AGENT, root=identity(process.pid))
            # When it has ended, its processes have no actor.
            assert actors.find_unix(accepted) == Origin(UNKNOWN)


def test_a_token_gives_a_program_its_actor(listener: Listener) -> None:
    actors = Actors()
    actors.register_token("secret", AGENT)
    with listener.connected() as (accepted, process):
        origin = actors.find_unix(accepted)
        assert origin is not None
        assert actors.admit(origin, PERSON, None, origin.process) == PERSON
        assert actors.admit(origin, PERSON, "secret", origin.process) == AGENT
        # It is an agent on all other connections too, with or without a token.
        assert actors.find_unix(accepted) == Origin(AGENT, root=identity(process.pid))
        actors.register_token("another", Actor("session", "two"))
        assert actors.admit(Origin(AGENT), PERSON, "another", None) == AGENT
        assert actors.admit(Origin(UNKNOWN), PERSON, "another", None) == UNKNOWN
        process.kill()
    actors.remove_token("secret")
    for token in ("secret", "", "unknown"):
        with pytest.raises(Unauthenticated):
            actors.admit(Origin(None), PERSON, token)


def test_the_first_process_and_hubd_never_become_agents() -> None:
    actors = Actors()
    actors.register_token("secret", AGENT)
    for pid in (1, os.getpid()):
        actors.admit(Origin(None), PERSON, "secret", identity(pid))
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert actors.find_unix(one) == Origin(None, identity(os.getpid()))


def test_a_client_is_named_by_its_process() -> None:
    assert process_id(Identity(7, "boot/1")) == "process:7@boot/1"
    assert process_id(None) == ""


def test_a_token_is_not_kept() -> None:
    actors = Actors()
    actors.register_token("a-secret-token", AGENT)
    assert "a-secret-token" not in str(vars(actors))


def test_linux_has_all_guarantees_and_other_systems_name_the_missing_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer, "_reports_descriptors", lambda: True)
    assert peer.missing_guarantees() == []
    monkeypatch.setattr(peer, "can_identify", lambda: False)
    monkeypatch.setattr(peer, "can_launch", lambda: False)
    assert len(peer.missing_guarantees()) == 2
    # Connections are not refused there.
    monkeypatch.setattr(actors_module, "can_identify", lambda: False)
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert Actors().find_unix(one) == Origin(None)
