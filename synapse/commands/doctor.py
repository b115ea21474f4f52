"""`synapse self doctor`: is everything there that a call needs?"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from hubd import __version__
from hubd.wire.paths import distrusted
from synapse.cache import load
from synapse.commands.status import ask_info
from synapse.errors import CommandError
from synapse.hubs import LocalHub

if TYPE_CHECKING:
    from synapse.hubs import Hub

LOW_DISK_BYTES = 500 * 1024 * 1024
# Whose keys language model providers read; only whether they are set is told.
PROVIDER_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


def examine(hub: Hub) -> list[dict[str, Any]]:
    """Findings, each `{what, ok, detail}`."""
    info, refusal = None, ""
    try:
        info = ask_info(hub)
    except CommandError as error:
        refusal = error.message
    findings = [
        _found("synapse", True, f"{__version__} on Python {sys.version.split()[0]}"),
        _found("daemon", False, refusal) if refusal else _daemon(hub, info),
        _versions(info),
        _cache(hub, info),
        _claude(),
        _providers(),
        _disk(hub),
        _terminal(),
    ]
    if isinstance(hub, LocalHub):
        reason = distrusted(hub.address)
        findings.insert(2, _found("socket", not reason, reason or hub.address))
    return findings


def _found(what: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"what": what, "ok": ok, "detail": detail}


def _daemon(hub: Hub, info: dict[str, Any] | None) -> dict[str, Any]:
    if info:
        return _found("daemon", True, f"{info.get('backend', 'a hub')} answers at {hub.address}")
    # A local one is started by the first call.
    if not isinstance(hub, LocalHub):
        return _found("daemon", False, f"no answer at {hub.address}")
    place = hub.paths.data
    while not os.path.exists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place) or not os.access(place, os.W_OK):
        return _found("daemon", False, f"not running, and {place} cannot be its home")
    return _found("daemon", True, "not running; hubd start, or a call, starts it")


def _versions(info: dict[str, Any] | None) -> dict[str, Any]:
    version = str(info.get("version") or "") if info else ""
    if not version:
        return _found("versions", True, f"synapse {__version__}, hub unknown")
    same = version.split(".")[0] == __version__.split(".")[0]
    return _found("versions", same, f"synapse {__version__}, hub {version}")


def _cache(hub: Hub, info: dict[str, Any] | None) -> dict[str, Any]:
    cache = load(hub.cache_file)
    if cache is None:
        return _found("schema cache", True, "empty; the next call fills it")
    if info and info.get("plexus_hash") not in (None, cache.hash):
        return _found("schema cache", True, "older than the hub; the next call renews it")
    return _found("schema cache", True, f"{len(cache.paths())} namespaces, {hub.cache_file}")


def _claude() -> dict[str, Any]:
    program = shutil.which("claude")
    return _found("claude program", True, program or "not on the PATH")


def _providers() -> dict[str, Any]:
    given = [name for name in PROVIDER_KEYS if os.environ.get(name)]
    return _found("providers", True, ", ".join(given) + " set" if given else "no key is set")


def _disk(hub: Hub) -> dict[str, Any]:
    directory = hub.paths.data
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    free = shutil.disk_usage(directory).free
    return _found("disk", free > LOW_DISK_BYTES, f"{free // 1024**2:,} MiB free")


def _terminal() -> dict[str, Any]:
    size = shutil.get_terminal_size()
    kind = "a terminal" if sys.stdout.isatty() else "no terminal"
    colour = "no colour" if os.environ.get("NO_COLOR") else "colour"
    term = os.environ.get("TERM", "unset")
    return _found("terminal", True, f"{kind}, {size.columns} columns, TERM={term}, {colour}")
