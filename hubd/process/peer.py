"""The process at the other end of a connection, and the processes above it."""

import errno
import os
import select
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

from hubd.process.tree import PROC, Identity, can_launch, read_stat

# A socket's option with a descriptor of its peer's process; Linux 6.5.
SO_PEERPIDFD: Final = 77
# Constants of netlink, and the longest wait for its answer.
NETLINK_SOCK_DIAG: Final = 4
SOCK_DIAG_BY_FAMILY: Final = 20
NLMSG_ERROR: Final = 2
DIAGNOSE_SECONDS: Final = 1.0
# A table of sockets may lack an entry if others change while it is read.
READS: Final = 5
# The longest chain of processes that is followed.
MAX_DEPTH: Final = 1000


class Peer(NamedTuple):
    """The process at the other end of a connection."""

    # 0 if the process can't be found.
    pid: int
    # None if the user is not known.
    uid: int | None


class Lost(Exception):
    """A process ended while it was looked at, so its ancestors are not known."""


@cache
def can_identify() -> bool:
    """Return whether the system reports the processes of connections and their parents."""
    return sys.platform == "linux" and (PROC / "self" / "stat").exists()


def unix_peer(connection: socket.socket) -> Peer:
    """Return the process that connected to a Unix socket; it may have ended."""
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII")
    )
    pid, uid, _ = struct.unpack("iII", credentials)
    return Peer(pid, uid)


def has_exited(connection: socket.socket) -> bool:
    """Return whether the process that connected to a Unix socket has ended.

    Another process may have its pid then. Always False on systems before Linux 6.5.
    """
    try:
        descriptor = connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        return error.errno != errno.ENOPROTOOPT
    try:
        # Readable after the end of the process.
        return bool(select.select([descriptor], [], [], 0)[0])
    finally:
        os.close(descriptor)


def tcp_peer(client: tuple[str, int], server: tuple[str, int], likely: Iterable[int] = ()) -> Peer:
    """Return the process that owns the client's end of a loopback connection. Takes milliseconds.

    Args:
        client: The address of the client's end.
        server: The address of the server's end.
        likely: The pids to try first.
    """
    entry = _socket_entry(client, server)
    if entry is None:
        return Peer(0, None)
    uid, inode = entry
    if uid != os.getuid():
        return Peer(0, uid)
    return Peer(_holder(inode, likely), uid)


def ancestors(pid: int) -> Iterator[Identity]:
    """Yield a process and the processes above it, up to the first of the system.

    Raises:
        Lost: A process on the way ended.
    """
    # Parents start before their children, so a later start is that of a reused pid.
    started_before = sys.maxsize
    for _ in range(MAX_DEPTH):
        stat = read_stat(pid)
        if stat is None or stat.ticks > started_before:
            raise Lost
        yield Identity(pid, stat.started)
        if stat.parent == 0:
            return
        pid, started_before = stat.parent, stat.ticks


def missing_guarantees() -> list[str]:
    """Return what this system does not protect against, as sentences; nothing on Linux."""
    missing = []
    if not can_identify():
        missing.append(
            "a program that an agent starts can act as a person, because this system does not "
            "report the processes of connections; use hubd with agents that you trust"
        )
    elif not _reports_descriptors():
        missing.append(
            "a program whose pid is reused while it connects may act as another one, because "
            "Linux reports the processes of sockets safely since version 6.5"
        )
    if not can_launch():
        missing.append(
            "a process that an agent detaches leaves the agent's process tree and can act as a "
            "person, because this system has no subreapers"
        )
    return missing


def _reports_descriptors() -> bool:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        try:
            os.close(one.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD))
        except OSError:
            return False
    return True


def _socket_entry(client: tuple[str, int], server: tuple[str, int]) -> tuple[int, int] | None:
    """Return the user and the inode of a socket; None if it is closed or does not exist."""
    try:
        entry = _diagnose(client, server)
    except OSError:
        entry = _search_tables(client, server)
    # A socket that its process has closed has no inode, and its user is reported as 0.
    return entry if entry is not None and entry[1] else None


def _diagnose(client: tuple[str, int], server: tuple[str, int]) -> tuple[int, int] | None:
    """Ask the kernel for one socket, by netlink's `sock_diag`.

    Raises:
        OSError: This kernel does not support it.
    """
    ports = struct.pack("!HH", client[1], server[1])
    addresses = b"".join(socket.inet_aton(host) + bytes(12) for host in (client[0], server[0]))
    # `inet_diag_req_v2`: IPv4, TCP, any state; then the socket, on any interface, by no cookie.
    wanted = struct.pack("=BBxxI", socket.AF_INET, socket.IPPROTO_TCP, 0xFFFFFFFF)
    wanted += ports + addresses + bytes(4) + b"\xff" * 8
    # The header before it and before the reply: size, type, flags, number, port.
    request = struct.pack("=IHHII", 16 + len(wanted), SOCK_DIAG_BY_FAMILY, 1, 0, 0) + wanted
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(DIAGNOSE_SECONDS)
        netlink.send(request)
        reply = netlink.recv(4096)
    if reply[4:6] == struct.pack("=H", NLMSG_ERROR):
        code = -int(struct.unpack_from("=i", reply, 16)[0])
        if code == errno.ENOENT:
            return None
        raise OSError(code, os.strerror(code))
    if reply[20:24] != ports:
        return None  # a listening socket on the client's port
    uid, inode = struct.unpack_from("=II", reply, 80)
    return uid, inode


def _search_tables(client: tuple[str, int], server: tuple[str, int]) -> tuple[int, int] | None:
    """Search the tables of all sockets, which takes the kernel milliseconds."""
    for _ in range(READS):
        # An IPv6 socket may have an IPv4 address.
        for table, prefix in (("tcp", ""), ("tcp6", "0000000000000000FFFF0000")):
            with suppress(OSError):
                ends = " ".join(prefix + _hexadecimal(*address) for address in (client, server))
                _, match, rest = (PROC / "net" / table).read_bytes().partition(f" {ends} ".encode())
                if match:
                    # State, queues, timer, retransmissions, user, timeout, inode.
                    fields = rest.split(maxsplit=7)
                    return int(fields[4]), int(fields[6])
    return None


def _hexadecimal(host: str, port: int) -> str:
    address = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{address:08X}:{port:04X}"


def _holder(inode: int, likely: Iterable[int]) -> int:
    """Return the pid of a process that has a socket open; 0 if there is none."""
    link = f"socket:[{inode}]"
    # The newest first: a client often connects as soon as it starts.
    with os.scandir(PROC) as entries:
        pids = sorted((int(entry.name) for entry in entries if entry.name.isdigit()), reverse=True)
    return next((pid for pid in (*likely, *pids) if _holds(pid, link)), 0)


def _holds(pid: int, link: str) -> bool:
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    # Faster than a Path: there may be thousands.
                    if os.readlink(entry.path) == link:  # noqa: PTH115
                        return True
    except OSError:
        pass  # the process has ended, or belongs to another user
    return False
