"""Let a `claude` that this hub did not start ask the hub for approvals."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any, Final

from hubd.activation import Actor, Unavailable, method
from hubd.activation.params import Name
from hubd.plugins.loopback import approval_events as events
from hubd.plugins.loopback.methods.base import LoopbackBase
from hubd.plugins.loopback.settings import Settings

TOOL: Final = "mcp__plexus__loopback_permit"
GRANTS: Final = ("loopback.permit",)


class Configuration(LoopbackBase):
    """The method `configure`."""

    @method()
    async def configure(self, session: Name = "claude") -> events.Configured:
        """Write an MCP configuration with which another `claude` asks this hub for approvals.

        The configuration has a token that may ask for approvals and nothing else. Calling it
        again for the same name replaces the token.

        Args:
            session: The name that approvals of this `claude` show.
        """
        url = self._mcp_url()
        token = secrets.token_urlsafe(32)
        file = self._files / f"{session.encode().hex()}.json"
        # The program gives up after this time, so it is longer than the deadline.
        timeout_ms = (self.settings(Settings).deadline_secs + 60) * 1000
        server = {
            "type": "http",
            "url": url,
            "headers": {"Authorization": f"Bearer {token}"},
            "timeout": timeout_ms,
        }
        config = {"name": session, "mcpServers": {"plexus": server}}
        await self.host.in_thread(_write_private, file, json.dumps(config, indent=2))
        self._register(config)
        flags = [f"--mcp-config={file}", f"--permission-prompt-tool={TOOL}"]
        return events.Configured(file=str(file), flags=flags, command=" ".join(("claude", *flags)))

    def register_tokens(self) -> None:
        """Accept the tokens of earlier configurations."""
        for file in sorted(self._files.glob("*.json")):
            try:
                config = json.loads(file.read_text())
            except (OSError, ValueError):
                continue
            self._register(config)

    def _register(self, config: dict[str, Any]) -> None:
        bearer = config["mcpServers"]["plexus"]["headers"]["Authorization"]
        actor = Actor("client", f"configured:{config['name']}", GRANTS)
        self.host.register_token(bearer.removeprefix("Bearer "), actor)

    @property
    def _files(self) -> Path:
        return self.db.path.parent / "loopback"

    def _mcp_url(self) -> str:
        """Return the URL of the hub's MCP server, from the record of the running daemon."""
        try:
            record = json.loads((self.db.path.parent / "hubd.json").read_text())
            return str(record["mcp_url"])
        except (OSError, ValueError, KeyError):
            raise Unavailable("this hub has no MCP port") from None


def _write_private(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, exist_ok=True)
    temporary = file.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
    temporary.replace(file)
