"""Select the hub: the local one, or a remote one by its name or address."""

from __future__ import annotations

import os
import sys

from hubd.wire.paths import Paths
from synapse.argv import HUB_VARIABLE
from synapse.errors import CommandError, NoDaemon, UsageError, suggestion
from synapse.hub.cache import cache_path
from synapse.hub.client import UnixConnection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubd.wire.client import Connection
    from synapse.argv import Invocation

TOKEN_VARIABLE = "SYNAPSE_TOKEN"
# The longest wait for `hubd start`, which itself gives up after 20 s.
START_SECONDS = 30


class LocalHub:
    """The daemon of this user."""

    def __init__(self, home: str | None, *, autostart: bool) -> None:
        self.paths = Paths(home)
        self.address = self.paths.socket
        self.cache_file = cache_path(self.paths.cache)
        self._home = home
        self._autostart = autostart

    def connect(self, timeout: float | None = None) -> UnixConnection:
        """Return a connection; start the daemon if it does not run.

        Raises:
            NoDaemon: No daemon runs, and autostart is off or failed.
        """
        try:
            return UnixConnection(self.address, timeout)
        except NoDaemon:
            if not self._autostart:
                raise
        self._start()
        return UnixConnection(self.address, timeout)

    def connect_if_running(self, timeout: float | None = None) -> UnixConnection | None:
        """Return a connection; None if no daemon runs."""
        try:
            return UnixConnection(self.address, timeout)
        except NoDaemon:
            return None

    def _start(self) -> None:
        import subprocess

        home = ["--home", os.path.abspath(self._home)] if self._home else []
        # -P: modules in the current directory must not replace those of the daemon.
        command = [sys.executable, "-P", "-m", "hubd", "start", *home]
        try:
            result = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=START_SECONDS,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoDaemon("the daemon did not start in time", hint="See: hubd logs") from None
        if result.returncode:
            lines = result.stderr.strip().splitlines() or ["hubd start failed"]
            hint = lines[1].strip() if len(lines) > 1 else ""
            raise CommandError(
                f"the daemon could not be started: {lines[0].removeprefix('hubd: ')}",
                hint=hint,
                status=5,
            )


class RemoteHub:
    """A hub at a WebSocket address."""

    def __init__(self, url: str, token: str | None, paths: Paths) -> None:
        self.paths = paths
        self.address = url
        # A query may contain a secret.
        self.cache_file = cache_path(self.paths.cache, url.partition("?")[0])
        self._token = token

    def connect(self, timeout: float | None = None) -> Connection:
        """Return a connection.

        Raises:
            NoDaemon: No hub answers.
            CommandError: The token is missing or wrong.
        """
        from synapse.hub.websocket import WebSocketConnection

        return WebSocketConnection(self.address, self._token, timeout)

    def connect_if_running(self, timeout: float | None = None) -> Connection | None:
        """Return a connection; None if no hub answers."""
        try:
            return self.connect(timeout)
        except NoDaemon:
            return None


Hub = LocalHub | RemoteHub


def chosen(options: Invocation) -> Hub:
    """Return the hub that the options, the environment and the configuration select.

    Raises:
        UsageError: The hub's name is unknown, or the configuration is wrong.
    """
    named = options.value("--hub")
    if not named and not options.flag("--home"):
        named = os.environ.get(HUB_VARIABLE)
    if not named:
        return LocalHub(options.value("--home"), autostart=not options.flag("--no-autostart"))
    paths = Paths(options.value("--home"))
    entry = {"url": named} if "://" in named else _configured(named, paths)
    url = entry["url"]
    if not url.startswith(("ws://", "wss://")):
        raise UsageError(f"the hub's address {url!r} must begin with ws:// or wss://")
    if "?" in url:
        raise UsageError(
            "the hub's address has a query",
            hint="Give the token with --token-file FILE",
        )
    return RemoteHub(url, _token(options, entry), paths)


def _configured(name: str, paths: Paths) -> dict[str, str]:
    """Return the configured hub `[hubs.NAME]`, with its `url` and `token_file`."""
    import tomllib

    try:
        with open(paths.config, "rb") as file:
            hubs: Any = tomllib.load(file).get("hubs", {})
    except FileNotFoundError:
        hubs = {}
    except (OSError, ValueError) as error:  # The file is not TOML or not UTF-8.
        raise UsageError(f"{paths.config} cannot be read: {error}") from None
    names = list(hubs) if isinstance(hubs, dict) else []
    if name not in names:
        raise UsageError(
            f"no hub '{name}' in {paths.config}",
            hint=suggestion(name, names) or "Add [hubs.NAME] with a url there",
        )
    entry: Any = hubs[name]
    is_table = isinstance(entry, dict) and all(isinstance(text, str) for text in entry.values())
    if not is_table or "url" not in entry:
        raise UsageError(f"[hubs.{name}] in {paths.config} must have a url; all values are texts")
    return dict(entry)


def _token(options: Invocation, entry: dict[str, str]) -> str | None:
    """Return the token from its option, file or variable; `ps` shows only the option."""
    if options.value("--token"):
        return options.value("--token")
    name = options.value("--token-file") or entry.get("token_file")
    if not name:
        return os.environ.get(TOKEN_VARIABLE) or entry.get("token")
    try:
        with open(os.path.expanduser(name), encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"the token file {name} cannot be read: {reason}") from None
