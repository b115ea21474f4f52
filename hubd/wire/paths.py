"""Where a hub lives: directories, file names, the socket, the ports.

Both programs work these out alone from the same rules, so synapse finds a daemon without
asking. Only `os`: this is imported on every call of the command line.
"""

import os

HUB_NAME = "plexus"
WS_PORT = 4444
MCP_PORT = 4445

HOME_VARIABLE = "HUBD_HOME"

# The shortest limit among the systems we run on (macOS 104, Linux 108), less the final NUL.
MAX_SOCKET_PATH = 103


class Paths:
    """The files of one hub."""

    __slots__ = (
        "cache",
        "config",
        "data",
        "database",
        "lock",
        "log",
        "mcp_socket",
        "record",
        "results",
        "socket",
        "token",
    )

    def __init__(self, home: str | None = None) -> None:
        """Work out all paths.

        Args:
            home: One directory for everything; without it `HUBD_HOME`, and without that the
                XDG directories of the user.
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
        # A directory for what clients remember of hubs; it can be deleted at any time.
        self.cache = os.path.join(cache, "cache") if home is not None else cache
        self.config = os.path.join(config, "config.toml")
        self.data = data
        self.database = os.path.join(data, "hub.db")
        self.token = os.path.join(data, "token")
        self.lock = os.path.join(data, "hubd.lock")
        self.record = os.path.join(data, "hubd.json")
        self.log = os.path.join(state, "hubd.log")
        self.socket = _socket_path(data)
        # Where `hubd mcp` carries its client's messages; never longer than the other.
        self.mcp_socket = self.socket.removesuffix(".sock") + ".mcp"
        # Results too large for an MCP client to take at once; gone when the daemon ends.
        self.results = os.path.join(data, "results")

    @property
    def directories(self) -> tuple[str, ...]:
        """Every directory the daemon needs, none of them twice."""
        files = (self.database, self.log, self.socket)
        return tuple(dict.fromkeys(os.path.dirname(file) for file in files))


def default_data() -> str:
    """Return the data directory of the default hub, which runs if no home is named."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def _xdg(variable: str, fallback: str) -> str:
    root = os.environ.get(variable, "")
    # The specification says to ignore relative values.
    if not os.path.isabs(root):
        root = os.path.join(os.path.expanduser("~"), fallback)
    return os.path.join(root, "hubd")


def distrusted(socket: str) -> str | None:
    """Why a socket must not be spoken to: another user could have put it there."""
    directory = os.path.dirname(socket)
    try:
        entry, facts = os.lstat(directory), os.stat(directory)
    except OSError:
        return None  # there is nothing to speak to either
    mine = entry.st_uid == facts.st_uid == os.getuid()
    return None if mine and not facts.st_mode & 0o022 else f"{directory} can be written by others"


def _socket_path(data: str) -> str:
    """`hub.sock` beside the database, or a short path that `data` determines.

    Not in `$XDG_RUNTIME_DIR` by default: a cron job or an ssh session has another one, or none,
    and must find the same daemon.
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
