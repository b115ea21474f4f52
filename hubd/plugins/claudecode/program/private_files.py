"""Options in private files, because a command line is public on its machine."""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hubd.plugins.claudecode.program.argv import ChatOptions
from hubd.storage.database import Database

log = logging.getLogger("hubd.claudecode")


def private_files(db: Database) -> Path:
    """Return the directory of the files that only one chat's program reads."""
    return db.path.parent / "claudecode" / "private"


@contextmanager
def in_files(
    options: ChatOptions,
    mcp_config: Mapping[str, Any] | None,
    directory: Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[ChatOptions]:
    """Return the same options with system prompt, MCP servers and settings in private files.

    The user's own MCP servers keep working; these servers are added to them. The files are removed
    at the end, or by `remove_left_over` at the next start.

    Args:
        options: The options of the chat.
        mcp_config: Additional MCP servers. Their headers and environments are secrets.
        directory: The directory for the files; by default the system's temporary directory.
        settings: Additional settings of the program.
    """
    if mcp_config is None and settings is None and not isinstance(options.system_prompt, str):
        yield options
        return
    if directory is not None:
        make_private(directory)
    # Only this user can enter a temporary directory.
    with tempfile.TemporaryDirectory(prefix="chat-", dir=directory) as name:
        if isinstance(options.system_prompt, str):
            file = _write(Path(name, "system-prompt.txt"), options.system_prompt)
            options = replace(options, system_prompt=file)
        if mcp_config is not None:
            servers = mcp_config if "mcpServers" in mcp_config else {"mcpServers": mcp_config}
            options = replace(
                options, mcp_config=_write(Path(name, "mcp.json"), json.dumps(servers))
            )
        if settings is not None:
            file = _write(Path(name, "settings.json"), json.dumps(settings))
            options = replace(options, settings=file)
        yield options


def make_private(directory: Path) -> None:
    """Create a directory and its parent, which only this user can enter."""
    for each in (directory.parent, directory):
        each.mkdir(exist_ok=True, mode=0o700)


def remove_left_over(directory: Path) -> None:
    """Remove the directory with files that a killed hub left behind. No chat may be running."""
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("%s cannot be removed: %s", error.filename, error.strerror)


def _write(file: Path, text: str) -> Path:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
    return file
