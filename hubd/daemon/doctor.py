"""`hubd doctor`: check the installation, the database and the running daemon.

The checks take the same time for any size of the database. `hubd check` reads all of it.
"""

import sqlite3
from pathlib import Path
from typing import Final

from hubd.daemon import control
from hubd.process.peer import missing_guarantees
from hubd.storage.maintenance import examine as examine_database
from hubd.wire import checks, client
from hubd.wire.checks import Finding
from hubd.wire.paths import Paths

# The first version with STRICT tables.
MIN_SQLITE: Final = (3, 37, 0)
# The longest wait for the list of plugins.
ANSWER_SECONDS: Final = 5.0
# The longest wait for the checks of all plugins, which may run programs.
EXAMINE_SECONDS: Final = 70.0


def examine(paths: Paths) -> list[Finding]:
    """Return the findings: the installation first, then the database, then the daemon."""
    findings = [checks.program("hubd"), _sqlite(), *checks.installation(paths), _token(paths)]
    findings += _agents()
    if Path(paths.database).exists():
        findings += examine_database(Path(paths.database))
    info = control.info(paths)
    findings += [checks.daemon(info, paths.socket), checks.versions("hubd", info)]
    if info:
        findings += [*_plugins(paths, info["backend"]), *_surroundings_of_plugins(paths)]
    return findings


def _surroundings_of_plugins(paths: Paths) -> list[Finding]:
    """Return what the plugins of the running daemon found on this machine."""
    try:
        items = list(
            client.call(
                paths.socket,
                "health.check",
                {"thorough": True},
                timeout_seconds=EXAMINE_SECONDS,
            )
        )
    except client.ClientError as error:
        return [Finding("checks of plugins", False, error.message)]
    reports = [item["content"] for item in items if item["type"] == "data"]
    return [Finding(**finding) for report in reports for finding in report.get("findings") or ()]


def _sqlite() -> Finding:
    is_new_enough = sqlite3.sqlite_version_info >= MIN_SQLITE
    return Finding("SQLite", is_new_enough, f"version {sqlite3.sqlite_version}")


def _token(paths: Paths) -> Finding:
    path = Path(paths.token)
    if not path.exists():
        return Finding("token", True, "none yet; the first start creates one")
    if path.stat().st_mode & 0o077:
        return Finding("token", False, f"others can read {path}; run: chmod 600 {path}")
    return Finding("token", True, "private")


def _agents() -> list[Finding]:
    """Return what this system does not protect against agents that hubd starts."""
    missing = missing_guarantees()
    if not missing:
        return [Finding("agents", True, "each connection of an agent is recognised")]
    # Not a failure: the user can't change the system.
    return [Finding("agents", True, f"not guaranteed here: {sentence}") for sentence in missing]


def _plugins(paths: Paths, root: str) -> list[Finding]:
    """Return the plugins that the running daemon loaded, and those that failed."""
    try:
        items = list(
            client.call(paths.socket, f"{root}.activations", {}, timeout_seconds=ANSWER_SECONDS)
        )
    except client.ClientError as error:
        return [Finding("plugins", False, error.message)]
    entries = [item["content"] for item in items if item["type"] == "data"]
    loaded = [
        entry["namespace"]
        for entry in entries
        if entry["type"] == "activation" and "." not in entry["namespace"]
    ]
    return [
        Finding("plugins", True, ", ".join(loaded)),
        *(
            Finding("plugin", False, f"{entry['source']}: {entry['reason']}")
            for entry in entries
            if entry["type"] == "broken_plugin"
        ),
    ]
