"""`hubd doctor`: is everything there that the daemon needs?"""

import os
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Final

from hubd import __version__
from hubd.daemon import client as local
from hubd.daemon import control as launch
from hubd.errors import HubError
from hubd.storage.maintenance import Finding, check
from hubd.wire.paths import Paths

# STRICT tables came with this version.
MIN_SQLITE: Final = (3, 37, 0)
LOW_DISK_BYTES: Final = 500 * 1024 * 1024


def examine(paths: Paths) -> list[Finding]:
    """All findings, in the order in which they are read best."""
    findings = [
        Finding("hubd", True, f"{__version__} on Python {sys.version.split()[0]}"),
        Finding(
            "SQLite", sqlite3.sqlite_version_info >= MIN_SQLITE, f"version {sqlite3.sqlite_version}"
        ),
        _home(paths),
        _disk(paths),
        _token(paths),
    ]
    if Path(paths.database).exists():
        findings += check(Path(paths.database))
    info = launch.info(paths)
    if info is None:
        # Nothing is wrong with that: the first call starts one.
        return [*findings, Finding("daemon", True, "not running; start it with: hubd start")]
    findings.append(Finding("daemon", True, f"version {info['version']}, answers"))
    return [*findings, *_plugins(paths, info["backend"])]


def _home(paths: Paths) -> Finding:
    for name in paths.directories:
        directory = Path(name)
        if not directory.exists():
            above = next(parent for parent in directory.parents if parent.exists())
            if not above.is_dir() or not os.access(above, os.W_OK):
                return Finding("home", False, f"{directory} cannot be made: {above} is in the way")
            continue
        if not directory.is_dir():
            return Finding("home", False, f"{directory} is not a directory")
        facts = directory.stat()
        if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
            return Finding("home", False, f"{directory} can be used by others; chmod 700 it")
        if not os.access(directory, os.W_OK):
            return Finding("home", False, f"{directory} cannot be written")
    return Finding("home", True, paths.data)


def _disk(paths: Paths) -> Finding:
    directory = Path(paths.data)
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free
    return Finding("disk", free > LOW_DISK_BYTES, f"{free // 1024**2:,} MiB free")


def _token(paths: Paths) -> Finding:
    path = Path(paths.token)
    if not path.exists():
        return Finding("token", True, "none yet; the first start makes one")
    private = not path.stat().st_mode & 0o077
    return Finding("token", private, "private" if private else f"others can read {path}; chmod 600")


def _plugins(paths: Paths, root: str) -> list[Finding]:
    """What the running daemon could not load."""
    try:
        items = list(local.call(paths.socket, f"{root}.activations", {}, timeout_seconds=5.0))
    except HubError as error:
        return [Finding("plugins", False, error.message)]
    contents = [item["content"] for item in items if item["type"] == "data"]
    broken = [entry for entry in contents if entry["type"] == "broken_plugin"]
    loaded = [
        entry["namespace"]
        for entry in contents
        if entry["type"] == "activation" and "." not in entry["namespace"]
    ]
    return [
        Finding("plugins", True, ", ".join(loaded)),
        *(Finding("plugin", False, f"{entry['source']}: {entry['reason']}") for entry in broken),
    ]
