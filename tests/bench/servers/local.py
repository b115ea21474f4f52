"""Find the programs, libraries and ports of local servers."""

import importlib
import shutil
import socket
from typing import Any

from tests.bench.row import Missing


def program(name: str, *, package: str, folders: str = "") -> str:
    """Return the path of a program.

    Args:
        name: The program.
        package: The package of the system that has it.
        folders: Directories in which to look beside PATH.

    Raises:
        Missing: It is not installed.
    """
    path = shutil.which(name) or (shutil.which(name, path=folders) if folders else None)
    if path is None:
        raise Missing(f"{name} is not installed: apt install {package}")
    return path


def library(name: str, *, package: str) -> Any:
    """Import a client library, which only benchmarks need.

    Raises:
        Missing: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Missing(f"{package} is not installed: pip install {package}") from None


def free_port() -> int:
    """Return a port of the loopback interface that nothing uses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
