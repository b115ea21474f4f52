"""Every setting of the daemon: its option, its environment variable and its default."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hubd.errors import InvalidParams
from hubd.wire.limits import MAX_MESSAGE_MIB
from hubd.wire.paths import HUB_NAME, MCP_PORT, WS_PORT, Paths

SEE_HELP: Final = "See: hubd run --help"

# The largest value of `max_message_mib`. A message is kept in memory several times.
LARGEST_MESSAGE_MIB: Final = 1024

LEVELS: Final = ("debug", "info", "warning", "error")

# Option, variable, default and meaning, for --help and the README.
SETTINGS: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("--home DIR", "HUBD_HOME", "XDG directories", "one directory for everything"),
    ("--port N", "HUBD_PORT", str(WS_PORT), "TCP port of the WebSocket; 0 takes a free one"),
    ("--mcp-port N", "HUBD_MCP_PORT", str(MCP_PORT), "TCP port of MCP; 0 takes a free one"),
    ("--mcp-tools NAMES", "HUBD_MCP_TOOLS", "all", "the namespaces MCP clients see, by commas"),
    (
        "--max-message-mib N",
        "HUBD_MAX_MESSAGE_MIB",
        str(MAX_MESSAGE_MIB),
        "size limit of one request in MiB, 1 to 1024",
    ),
    ("--name NAME", "HUBD_NAME", HUB_NAME, "what the hub calls itself on the wire"),
    ("--log-level LEVEL", "HUBD_LOG_LEVEL", "info", "debug, info, warning or error"),
    ("--plugin MODULE:CLASS", "", "none", "a plugin to load; repeatable"),
    ("--allow-origin ORIGIN", "", "none", "a web page that may connect; repeatable"),
    ("--no-auth", "", "off", "let everybody on this machine in over TCP, without the token"),
)


@dataclass(frozen=True)
class Settings:
    """How one daemon runs."""

    paths: Paths
    # None: the default port if it is free, else any.
    port: int | None = None
    mcp_port: int | None = None
    # None: all of them.
    mcp_tools: str | None = None
    # None: the configuration file decides, else the default.
    max_message_mib: int | None = None
    name: str = HUB_NAME
    log_level: str = "info"
    plugins: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = field(default=())
    auth: bool = True


def read_file(path: str) -> dict[str, Any]:
    """Return the configuration file, if there is one: a section for each plugin, by its path.

    Raises:
        InvalidParams: It is not TOML, cannot be read, or has settings outside of a section.
    """
    file = Path(path)
    if not file.exists():
        return {}
    import tomllib  # seldom needed, and on the way of every start

    try:
        sections = tomllib.loads(file.read_text())
    except RecursionError:
        raise InvalidParams(
            f"{path} cannot be used: it is nested too deeply", suggestion="Correct it"
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidParams(f"{path} cannot be used: {error}", suggestion="Correct it") from error
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise InvalidParams(
                f"{path} cannot be used: {name!r} is not a section",
                suggestion=f"Write [{name}], and the settings of {name} on the lines below it",
            )
    return sections


def port_setting(given: int | None, variable: str) -> int | None:
    """A port from its option or its variable.

    Raises:
        InvalidParams: It is no port.
    """
    text = os.environ.get(variable, "") if given is None else str(given)
    if not text:
        return None
    if not text.isdecimal() or int(text) > 65535:
        raise InvalidParams(f"{variable} is {text!r}, not a port (0 to 65535)", suggestion=SEE_HELP)
    return int(text)


def size_setting(given: int | None, variable: str) -> int | None:
    """A size in MiB from its option or its variable; None if neither is given.

    Raises:
        InvalidParams: The value is out of range.
    """
    text = os.environ.get(variable, "") if given is None else str(given)
    if not text:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST_MESSAGE_MIB:
        raise InvalidParams(
            f"{variable} is {text!r}, not a size in MiB (1 to {LARGEST_MESSAGE_MIB})",
            suggestion=SEE_HELP,
        )
    return int(text)


def text_setting(given: str | None, variable: str, default: str) -> str:
    """A text from its option, its variable or the default."""
    return given or os.environ.get(variable) or default
