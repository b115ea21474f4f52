"""The lines that were typed in a conversation, kept in a file that only the user can read."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress

# The newest entries are kept; the file is shortened when it has twice as many.
MAX_ENTRIES = 500
# A longer text, such as a pasted file, is not kept.
MAX_LENGTH = 16_000


def history_file(cache_file: str, method: str, label: str) -> str:
    """Return the file of one conversation: of a hub, a method and the conversation's name."""
    text = "\0".join((cache_file, method, label))
    name = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]
    return os.path.join(os.path.dirname(cache_file), "history", f"{name}.jsonl")


def load(path: str) -> list[str]:
    """Return the newest entries, the oldest first; none if the file can't be read."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
    except (OSError, ValueError):
        return []
    if len(lines) > 2 * MAX_ENTRIES:
        lines = lines[-MAX_ENTRIES:]
        _replace(path, lines)
    entries = []
    for line in lines[-MAX_ENTRIES:]:
        # A line may be cut off, because another terminal writes at the same time.
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, str):
                entries.append(entry)
    return entries


def add(path: str, entry: str) -> None:
    """Add an entry. A history that can't be written is not an error."""
    if len(entry) > MAX_LENGTH:
        return
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "wb") as file:
            file.write(json.dumps(entry).encode() + b"\n")


def _replace(path: str, lines: list[str]) -> None:
    with suppress(OSError):
        temporary = f"{path}.{os.getpid()}"
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.writelines(lines)
        os.replace(temporary, path)
