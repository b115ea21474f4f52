"""A cache of the JSON Schemas of the built-in plugins, so that the hub starts faster.

The cache is valid until a file of hubd changes. The schemas of other plugins may depend on
anything, so they are built at every import.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import VERSION
from pydantic_core import from_json, to_json

from hubd.wire.schema import JsonSchema

PACKAGE = "hubd."


class SchemaCache:
    """The cached schemas of one installation."""

    def __init__(self) -> None:
        # None until `open`; without a file, nothing is cached.
        self._file: Path | None = None
        self._fingerprint = ""
        # By module and name.
        self._schemas: dict[str, Any] = {}
        # True if the file lacks a schema.
        self._is_stale = False

    def open(self, file: Path) -> None:
        """Read the cache, unless it was written by another version of the files."""
        self._file, self._fingerprint = file, fingerprint()
        self._schemas, self._is_stale = {}, False
        with suppress(OSError, ValueError):
            content = from_json(file.read_bytes())
            if isinstance(content, dict) and content.get("fingerprint") == self._fingerprint:
                self._schemas = content["schemas"]

    def schema(self, module: str | None, name: str, make: Callable[[], JsonSchema]) -> JsonSchema:
        """Return a schema from the cache, or build it.

        Args:
            module: The module of the function that the schema describes; None for executed text.
            name: The name of the schema within the module.
            make: Builds the schema.
        """
        if self._file is None or module is None or not module.startswith(PACKAGE):
            return make()
        key = f"{module}:{name}"
        if key not in self._schemas:
            self._schemas[key], self._is_stale = make(), True
        schema: JsonSchema = self._schemas[key]
        return schema

    def save(self) -> None:
        """Write the cache. A failure only costs time at the next start."""
        if self._file is None or not self._is_stale:
            return
        temporary = self._file.with_suffix(f".{os.getpid()}")
        content = {"fingerprint": self._fingerprint, "schemas": self._schemas}
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as written:
                written.write(to_json(content))
            temporary.replace(self._file)
        self._is_stale = False


def fingerprint() -> str:
    """Return a hash over the files of hubd and the versions of Python and pydantic."""
    digest = hashlib.sha256(f"{sys.version} {VERSION}".encode())
    waiting = [str(Path(__file__).parent.parent)]
    while waiting:
        directory = waiting.pop()
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            if entry.is_dir():
                waiting.append(entry.path)
            elif entry.name.endswith(".py"):
                status = entry.stat()
                digest.update(f"{entry.path} {status.st_mtime_ns} {status.st_size}\n".encode())
    return digest.hexdigest()


# One for the process, because schemas are built at import.
SCHEMA_CACHE = SchemaCache()
