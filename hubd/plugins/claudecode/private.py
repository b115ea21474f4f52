"""What the program is told through files, because a command line is public on its machine."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hubd.plugins.claudecode.argv import ChatOptions


@contextmanager
def in_files(options: ChatOptions, mcp_config: Mapping[str, Any] | None) -> Iterator[ChatOptions]:
    """The same options with the system prompt and the MCP servers in files of this user alone.

    The user's own MCP servers keep working: these come on top of them.
    """
    if mcp_config is None and not isinstance(options.system_prompt, str):
        yield options
        return
    # A directory that is made so is nobody else's.
    with tempfile.TemporaryDirectory(prefix="hubd-chat-") as name:
        directory = Path(name)
        if isinstance(options.system_prompt, str):
            file = directory / "system-prompt.txt"
            file.write_text(options.system_prompt)
            options = replace(options, system_prompt=file)
        if mcp_config is not None:
            servers = mcp_config if "mcpServers" in mcp_config else {"mcpServers": mcp_config}
            file = directory / "mcp.json"
            file.write_text(json.dumps(servers))
            options = replace(options, mcp_config=file)
        yield options
