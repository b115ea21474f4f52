"""JSON Schemas that were made before: the hub's own plugins are not described anew at every start.

Only for modules of hubd itself, and only while none of its files has changed: what a third party
writes may depend on anything, so it is described when it is imported, always.
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


class Described:
    """The schemas of one installation, by what they describe."""

    def __init__(self) -> None:
        # None until a file was opened: nothing is remembered then.
        self._file: Path | None = None
        self._fingerprint = ""
        self._known: dict[str, Any] = {}
        # Whether something had to be described that the file does not have.
        self._grew = False

    def open(self, file: Path) -> None:
        """Use what an earlier start has left here, if it fits."""
        self._file, self._fingerprint = file, fingerprint()
        self._known, self._grew = {}, False
        with suppress(OSError, ValueError):
            kept = from_json(file.read_bytes())
            if isinstance(kept, dict) and kept.get("fingerprint") == self._fingerprint:
                self._known = kept["schemas"]

    def schema(self, module: str, name: str, make: Callable[[], JsonSchema]) -> JsonSchema:
        """The schema of something in a module."""
        if self._file is None or not module.startswith(PACKAGE):
            return make()
        key = f"{module}:{name}"
        if key not in self._known:
            self._known[key], self._grew = make(), True
        found: JsonSchema = self._known[key]
        return found

    def save(self) -> None:
        """Leave everything for the next start; a failure only costs time."""
        if self._file is None or not self._grew:
            return
        temporary = self._file.with_suffix(f".{os.getpid()}")
        content = {"fingerprint": self._fingerprint, "schemas": self._known}
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as written:
                written.write(to_json(content))
            temporary.replace(self._file)
        self._grew = False


def fingerprint() -> str:
    """Changes whenever a file of hubd does, and with Python and pydantic."""
    found = hashlib.sha256(f"{sys.version} {VERSION}".encode())
    waiting = [str(Path(__file__).parent.parent)]
    while waiting:
        directory = waiting.pop()
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            if entry.is_dir():
                waiting.append(entry.path)
            elif entry.name.endswith(".py"):
                facts = entry.stat()
                found.update(f"{entry.path} {facts.st_mtime_ns} {facts.st_size}\n".encode())
    return found.hexdigest()


# One for the process: plugins are described as they are imported.
DESCRIBED = Described()
