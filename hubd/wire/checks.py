"""The checks that `hubd doctor` and `synapse self doctor` share."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from hubd import __version__
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.paths import Paths, distrusted

LOW_DISK_BYTES: Final = 500 * 1024 * 1024
# The variables from which language model providers read their keys. Keys are never shown.
PROVIDER_KEYS: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    ok: bool
    detail: str


def program(name: str) -> Finding:
    """Report the version of the program that runs the checks."""
    return Finding(name, True, f"{__version__} on Python {sys.version.split()[0]}")


def installation(paths: Paths) -> list[Finding]:
    """Check everything that a daemon of this user needs."""
    return [home(paths), socket(paths), *surroundings(paths)]


def surroundings(paths: Paths) -> list[Finding]:
    """Check the disk, and the programs and keys that plugins use."""
    return [disk(paths), claude(), providers()]


def home(paths: Paths) -> Finding:
    """Check that the daemon's directories are private and writable, or can be created."""
    for directory in map(Path, paths.directories):
        if not directory.exists():
            parent = _nearest(directory)
            if not parent.is_dir() or not os.access(parent, os.W_OK):
                return Finding("home", False, f"{directory} cannot be created in {parent}")
            continue
        if not directory.is_dir():
            return Finding("home", False, f"{directory} is not a directory")
        status = directory.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            return Finding(
                "home", False, f"other users can access {directory}; run: chmod 700 {directory}"
            )
        if not os.access(directory, os.W_OK):
            return Finding("home", False, f"{directory} is not writable")
    return Finding("home", True, paths.data)


def socket(paths: Paths) -> Finding:
    """Check that no other user could have created the daemon's socket."""
    reason = distrusted(paths.socket)
    return Finding("socket", not reason, reason or paths.socket)


def disk(paths: Paths) -> Finding:
    """Check that the disk with the database has space left."""
    free = shutil.disk_usage(_nearest(Path(paths.data))).free
    return Finding("disk", free > LOW_DISK_BYTES, f"{free // 1024**2:,} MiB free")


def claude() -> Finding:
    """Report where the `claude` program is; the offline agent works without it."""
    return Finding("claude program", True, shutil.which("claude") or "not on the PATH")


def providers() -> Finding:
    """Report which keys of language model providers are set."""
    names = [name for name in PROVIDER_KEYS if os.environ.get(name)]
    return Finding("providers", True, ", ".join(names) + " set" if names else "no key is set")


def daemon(info: Mapping[str, Any] | None, address: str) -> Finding:
    """Report whether the daemon of this user answers.

    Args:
        info: The daemon's answer to `_info`; None if it did not answer.
        address: Its socket.
    """
    if info is None:
        return Finding("daemon", True, "not running; hubd start, or a call, starts it")
    return Finding("daemon", True, f"{info.get('backend', 'a hub')} answers at {address}")


def versions(name: str, info: Mapping[str, Any] | None) -> Finding:
    """Check that a program and the hub have the same major version."""
    version = str(info.get("version") or "") if info else ""
    if not version:
        return Finding("versions", True, f"{name} {__version__}, hub unknown")
    same = version.split(".")[0] == __version__.split(".")[0]
    return Finding("versions", same, f"{name} {__version__}, hub {version}")


def as_rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the findings as JSON objects with `what`, `ok` and `detail`."""
    return [asdict(finding) for finding in findings]


def as_lines(findings: Sequence[Finding]) -> list[str]:
    """Return the findings as lines for a terminal."""
    return [
        f"{'ok  ' if finding.ok else 'FAIL'} {finding.what}: {finding.detail}"
        for finding in findings
    ]


def _nearest(path: Path) -> Path:
    """Return the path, or the closest directory above it that exists."""
    while not path.exists():
        path = path.parent
    return path
