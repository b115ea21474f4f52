"""The hub as an MCP server of an agent that has grants."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hubd.wire.paths import default_data

SERVER: Final = "plexus"


def with_hub(config: Mapping[str, Any] | None, home: Path) -> dict[str, Any]:
    """Return a configuration of MCP servers with this hub in it.

    The agent starts `hubd mcp`, so the hub knows the session by its processes. The tools are the
    granted methods.

    Args:
        config: The other servers, if there are any.
        home: The directory of this hub.
    """
    servers: dict[str, Any] = dict((config or {}).get("mcpServers", config or {}))
    command = ["-P", "-m", "hubd", "mcp"]
    if str(home) != default_data():
        command += ["--home", str(home)]
    servers[SERVER] = {"type": "stdio", "command": sys.executable, "args": command}
    return {"mcpServers": servers}
