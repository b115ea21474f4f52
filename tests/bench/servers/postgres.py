"""A local PostgreSQL. It answers when all data is on disk, which is its default."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bench.row import Missing
from tests.bench.servers.local import free_port, library, program

START_SECONDS: Final = 30.0
# The account that runs it if this process is root, which PostgreSQL refuses.
ACCOUNT: Final = "postgres"
TABLES: Final = (
    "CREATE TABLE node (key bigserial PRIMARY KEY, id uuid NOT NULL UNIQUE, tree bigint NOT NULL, "
    "segment bigint NOT NULL, depth bigint NOT NULL, lane int NOT NULL, origin bigint NOT NULL, "
    "meta text, created_at bigint NOT NULL, UNIQUE (segment, depth))",
    "CREATE TABLE event (key bigint PRIMARY KEY, stream bigint NOT NULL, seq bigint NOT NULL, "
    "type text NOT NULL, data text NOT NULL, UNIQUE (stream, seq))",
    "CREATE TABLE head (stream bigint PRIMARY KEY, depth bigint NOT NULL)",
)


@contextmanager
def postgres_server() -> Iterator[int]:
    """Run it; yields its port.

    Raises:
        Missing: It, or its client library, is not installed.
    """
    asyncpg()
    folders = os.pathsep.join(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin"))))
    initdb = program("initdb", package="postgresql", folders=folders)
    postgres = program("postgres", package="postgresql", folders=folders)
    user = _account()
    directory = tempfile.mkdtemp(prefix="bench-postgres-")
    process: subprocess.Popen[bytes] | None = None
    try:
        if user is not None:
            shutil.chown(directory, user)
        data, port = f"{directory}/data", free_port()
        made = [initdb, "-D", data, "-A", "trust", "-U", "bench", "--no-locale", "-E", "UTF8"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, user=user, cwd="/")
        options = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on",
            "synchronous_commit": "on",
        }
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        process = subprocess.Popen(
            [postgres, "-D", data, *settings], stderr=subprocess.DEVNULL, user=user, cwd="/"
        )
        _wait(port, process)
        yield port
    finally:
        if process is not None:
            process.terminate()
            try:
                process.wait(START_SECONDS)
            finally:
                process.kill()
                process.wait()
        shutil.rmtree(directory)


def asyncpg() -> Any:
    """Import the client library.

    Raises:
        Missing: It is not installed.
    """
    return library("asyncpg", package="asyncpg")


def _account() -> str | None:
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(ACCOUNT).pw_name
    except KeyError:
        raise Missing(f"PostgreSQL refuses root, and there is no account {ACCOUNT}") from None


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, "postgres did not start"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < end, "postgres did not start in time"
            time.sleep(0.05)
