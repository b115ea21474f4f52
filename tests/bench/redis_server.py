"""A local Redis for benchmarks. It answers when all data is on disk."""

import importlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MISSING = "redis-py is not installed: pip install redis"


@contextmanager
def redis_server(directory: Path) -> Iterator[int]:
    """Run it; yields its port.

    Raises:
        SystemExit: It is not installed.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("redis-server is not installed: apt install redis-server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
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
    with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            while b"eady to accept connections" not in (line := process.stdout.readline()):
                assert line, "redis-server did not start"
            yield port
        finally:
            process.terminate()


def redis_py(name: str = "redis") -> Any:
    """The client library, which only this benchmark needs.

    Raises:
        SystemExit: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise SystemExit(MISSING) from None
