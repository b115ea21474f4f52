"""A cache of the built-in plugins' JSON Schemas and hashes, so that the hub starts faster.

The cache is valid until a file of hubd changes. The schemas of other plugins may depend on
anything, so they are built at every import.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import VERSION
from pydantic_core import from_json, to_json

T = TypeVar("T")

PACKAGE = "hubd."


class SchemaCache:
    """The cached schemas of one installation."""

    def __init__(self) -> None:
        # None until `open`; without a file, nothing is cached.
        self._file: Path | None = None
        self._fingerprint = ""
        # JSON texts by module and name. They are parsed when they are needed, because a daemon
        # without clients needs few of them.
        self._texts: dict[str, str] = {}
        # True if the file lacks a text.
        self._is_stale = False

    def open(self, file: Path) -> None:
        """Read the cache, unless it was written by another version of the files."""
        self._file, self._fingerprint = file, fingerprint()
        self._texts, self._is_stale = {}, False
        with suppress(OSError, ValueError):
            content = from_json(file.read_bytes())
            if isinstance(content, dict) and content.get("fingerprint") == self._fingerprint:
                self._texts = content["texts"]

    def value(self, module: str | None, name: str, make: Callable[[], T]) -> T:
        """Return a schema or a hash from the cache, or build it.

        Args:
            module: The module of the function or class; None if it is executed text.
            name: The name of the value within the module.
            make: Builds the value, which is JSON.
        """
        if self._file is None or module is None or not module.startswith(PACKAGE):
            return make()
        key = f"{module}:{name}"
        if key not in self._texts:
            self._texts[key], self._is_stale = to_json(make()).decode(), True
        value: T = from_json(self._texts[key])
        return value

    def has(self, module: str, name: str) -> bool:
        """Return whether a value was built before, by the same files."""
        return f"{module}:{name}" in self._texts

    def save(self) -> None:
        """Write the cache. A failure only costs time at the next start."""
        if self._file is None or not self._is_stale:
            return
        temporary = self._file.with_suffix(f".{os.getpid()}")
        content = {"fingerprint": self._fingerprint, "texts": self._texts}
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as written:
                written.write(to_json(content))
            temporary.replace(self._file)
        self._is_stale = False


def fingerprint() -> str:
    """Return a hash over the files of hubd and the versions of Python and pydantic."""
    files: list[str] = []
    waiting = [str(Path(__file__).parent.parent)]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            if entry.name.endswith(".py"):
                status = entry.stat()
                files.append(f"{entry.path} {status.st_mtime_ns} {status.st_size}")
            elif not entry.name.startswith("__") and entry.is_dir():
                waiting.append(entry.path)
    content = "\n".join([sys.version, VERSION, *sorted(files)])
    return hashlib.sha256(content.encode()).hexdigest()


# One for the process, because schemas are built at import.
SCHEMA_CACHE = SchemaCache()
