"""The settings of the daemon: options, environment variables, defaults, configuration file."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hubd.errors import InvalidParams
from hubd.wire.limits import MAX_MESSAGE_MIB
from hubd.wire.paths import HUB_NAME, MCP_PORT, WS_PORT, Paths

SEE_HELP: Final = "See: hubd run --help"

# The largest `max_message_mib`. The daemon keeps several copies of a message in memory.
LARGEST_MESSAGE_MIB: Final = 1024

LOOPS: Final = ("auto", "asyncio", "uvloop")

LEVELS: Final = ("debug", "info", "warning", "error")

# Option, variable, default and description, for `--help` and the documentation.
SETTINGS: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("--home DIR", "HUBD_HOME", "XDG directories", "directory for all files of the hub"),
    ("--port N", "HUBD_PORT", str(WS_PORT), "TCP port of the WebSocket; 0 for any free port"),
    ("--mcp-port N", "HUBD_MCP_PORT", str(MCP_PORT), "TCP port of MCP; 0 for any free port"),
    (
        "--mcp-tools NAMES",
        "HUBD_MCP_TOOLS",
        "all",
        "comma-separated namespaces for MCP clients",
    ),
    (
        "--max-message-mib N",
        "HUBD_MAX_MESSAGE_MIB",
        str(MAX_MESSAGE_MIB),
        "size limit of one request in MiB, 1 to 1024",
    ),
    ("--name NAME", "HUBD_NAME", HUB_NAME, "name of the hub, the first part of its own methods"),
    ("--log-level LEVEL", "HUBD_LOG_LEVEL", "info", "debug, info, warning or error"),
    (
        "--event-loop NAME",
        "HUBD_EVENT_LOOP",
        "auto",
        "asyncio, uvloop, or auto for uvloop if it is installed",
    ),
    ("--plugin MODULE:CLASS", "", "none", "plugin to load; repeatable"),
    ("--allow-origin ORIGIN", "", "none", "origin of a web page that may connect; repeatable"),
    ("--no-auth", "", "off", "let all local users connect over TCP, without the token"),
)


@dataclass(frozen=True)
class Settings:
    """The settings of one daemon."""

    paths: Paths
    # None for the default port if it is free, else any other.
    port: int | None = None
    mcp_port: int | None = None
    # None for all namespaces.
    mcp_tools: str | None = None
    # None for the value in the configuration file, or the default.
    max_message_mib: int | None = None
    name: str = HUB_NAME
    log_level: str = "info"
    # One of `LOOPS`.
    event_loop: str = "auto"
    plugins: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = field(default=())
    auth: bool = True


def read_file(path: str) -> dict[str, Any]:
    """Return the sections of the configuration file, one for each plugin; empty without a file.

    Raises:
        InvalidParams: The file is not readable or not TOML, or a setting is outside of a section.
    """
    file = Path(path)
    if not file.exists():
        return {}
    import tomllib  # Rarely needed, and it would delay every start.

    try:
        sections = tomllib.loads(file.read_text())
    except RecursionError:
        raise InvalidParams(
            f"{path} is nested too deeply", suggestion="Correct this file"
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidParams(
            f"{path} cannot be read: {error}", suggestion="Correct this file"
        ) from error
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise InvalidParams(
                f"{path}: {name!r} is not a section",
                suggestion=f"Write [{name}], and the settings of {name} on the lines below it",
            )
    return sections


def port_setting(given: int | None, variable: str) -> int | None:
    """Return a port from its option or its variable; None if neither is set.

    Raises:
        InvalidParams: The value is not a port.
    """
    text = os.environ.get(variable, "") if given is None else str(given)
    if not text:
        return None
    if not text.isdecimal() or int(text) > 65535:
        name = _name_of(given, variable)
        raise InvalidParams(f"{name} is {text!r}, not a port (0 to 65535)", suggestion=SEE_HELP)
    return int(text)


def size_setting(given: int | None, variable: str) -> int | None:
    """Return a size in MiB from its option or its variable; None if neither is set.

    Raises:
        InvalidParams: The value is out of range.
    """
    text = os.environ.get(variable, "") if given is None else str(given)
    if not text:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST_MESSAGE_MIB:
        raise InvalidParams(
            f"{_name_of(given, variable)} is {text!r}, not a size in MiB "
            f"(1 to {LARGEST_MESSAGE_MIB})",
            suggestion=SEE_HELP,
        )
    return int(text)


def _name_of(given: object, variable: str) -> str:
    """Return the option of a setting if it was given, else its variable."""
    options = {name: option.partition(" ")[0] for option, name, _, _ in SETTINGS}
    return variable if given is None else options[variable]


def text_setting(given: str | None, variable: str, default: str) -> str:
    """Return a text from its option, its variable or the default."""
    return given or os.environ.get(variable) or default


def choice_setting(
    what: str, given: str | None, variable: str, default: str, choices: Sequence[str]
) -> str:
    """Return one of some words, from its option, its variable or the default.

    Raises:
        InvalidParams: The value is another word.
    """
    value = text_setting(given, variable, default).lower()
    if value not in choices:
        raise InvalidParams(
            f"{what} {value!r} is not one of {', '.join(choices)}", suggestion=SEE_HELP
        )
    return value
