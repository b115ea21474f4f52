"""A local Redis. It answers when all data is on disk."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.servers.local import free_port, library, program


@contextmanager
def redis_server(directory: Path) -> Iterator[int]:
    """Run it; yields its port.

    Raises:
        Missing: It, or its client library, is not installed.
    """
    redis_py()
    path = program("redis-server", package="redis-server")
    port = free_port()
    options = {
        "port": str(port),
        "bind": "127.0.0.1",
        "dir": str(directory),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "always",
        # Its log is not written anew in the middle of a measurement.
        "auto-aof-rewrite-percentage": "0",
    }
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
    with subprocess.Popen([path, *arguments], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            while b"eady to accept connections" not in (line := process.stdout.readline()):
                assert line, "redis-server did not start"
            yield port
        finally:
            process.terminate()


def redis_py(name: str = "redis") -> Any:
    """Import the client library.

    Raises:
        Missing: It is not installed.
    """
    return library(name, package="redis")


def parser() -> str:
    """Return in words how the library reads answers."""
    has_hiredis = redis_py("redis.utils").HIREDIS_AVAILABLE
    return "with hiredis" if has_hiredis else "without hiredis (pip install hiredis)"
