"""The directories, files, sockets and ports of a hub.

hubd and synapse compute them by the same rules, so synapse finds a daemon without asking. synapse
imports this module on every call, so it imports only `os`.
"""

import os

HUB_NAME = "plexus"
WS_PORT = 4444
MCP_PORT = 4445

HOME_VARIABLE = "HUBD_HOME"

# The smallest limit of the supported systems (macOS 104, Linux 108), without the final NUL.
MAX_SOCKET_PATH = 103


class Paths:
    """The files of one hub."""

    __slots__ = (
        "cache",
        "config",
        "data",
        "database",
        "defaults",
        "lock",
        "log",
        "mcp_socket",
        "record",
        "results",
        "socket",
        "token",
    )

    def __init__(self, home: str | None = None) -> None:
        """Compute all paths.

        Args:
            home: The directory for all files; by default `HUBD_HOME`, else the user's XDG
                directories.
        """
        home = home or os.environ.get(HOME_VARIABLE) or None
        if home is not None:
            home = os.path.abspath(os.path.expanduser(home))
            cache = config = data = state = home
        else:
            cache = _xdg("XDG_CACHE_HOME", ".cache")
            config = _xdg("XDG_CONFIG_HOME", ".config")
            data = default_data()
            state = _xdg("XDG_STATE_HOME", ".local/state")
        # The directory of clients' caches. It can be deleted at any time.
        self.cache = os.path.join(cache, "cache") if home is not None else cache
        self.config = os.path.join(config, "config.toml")
        # The default parameters that a user of synapse has stored.
        self.defaults = os.path.join(config, "synapse-defaults")
        self.data = data
        self.database = os.path.join(data, "hub.db")
        self.token = os.path.join(data, "token")
        self.lock = os.path.join(data, "hubd.lock")
        self.record = os.path.join(data, "hubd.json")
        self.log = os.path.join(state, "hubd.log")
        self.socket = _socket_path(data)
        # The socket of `hubd mcp`. Its path is never longer than the other.
        self.mcp_socket = self.socket.removesuffix(".sock") + ".mcp"
        # Results that are too large for one MCP message; removed when the daemon ends.
        self.results = os.path.join(data, "results")

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories that the daemon needs, without duplicates."""
        files = (self.database, self.log, self.socket)
        return tuple(dict.fromkeys(os.path.dirname(file) for file in files))


def default_data() -> str:
    """Return the data directory of the default hub, which is used without a home."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def _xdg(variable: str, fallback: str) -> str:
    root = os.environ.get(variable, "")
    # The XDG specification ignores relative values.
    if not os.path.isabs(root):
        root = os.path.join(os.path.expanduser("~"), fallback)
    return os.path.join(root, "hubd")


def distrusted(socket: str) -> str | None:
    """Return why a socket is not safe to use; None if no other user could have created it."""
    directory = os.path.dirname(socket)
    try:
        entry, target = os.lstat(directory), os.stat(directory)
    except OSError:
        return None  # The socket does not exist either.
    is_own = entry.st_uid == target.st_uid == os.getuid()
    return (
        None if is_own and not target.st_mode & 0o022 else f"{directory} can be written by others"
    )


def _socket_path(data: str) -> str:
    """Return `hub.sock` beside the database; if that path is too long, a short one.

    `$XDG_RUNTIME_DIR` is not used by default: a cron job or an ssh session may have another one,
    or none, and must find the same daemon.
    """
    wanted = os.path.join(data, "hub.sock")
    if len(os.fsencode(wanted)) <= MAX_SOCKET_PATH:
        return wanted
    from hashlib import sha256

    name = sha256(os.fsencode(os.path.realpath(data))).hexdigest()[:16] + ".sock"
    for root in (os.environ.get("XDG_RUNTIME_DIR", ""), os.environ.get("TMPDIR", "")):
        short = os.path.join(root, f"hubd-{os.getuid()}", name)
        if os.path.isabs(root) and len(os.fsencode(short)) <= MAX_SOCKET_PATH:
            return short
    return os.path.join("/tmp", f"hubd-{os.getuid()}", name)
