"""A plugin with features for MCP clients that no built-in plugin has."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any, Literal

from hubd.activation import Activation, Actor, Event, NotFound, method


class Allowed(Event):
    behavior: Literal["allow"] = "allow"
    updatedInput: dict[str, Any]


class Denied(Event):
    behavior: Literal["deny"] = "deny"
    message: str


class Said(Event):
    text: str


class Caller(Event):
    cwd: str | None
    greeting: str
    token_in_env: bool
    transport: str
    name: str
    session_token: str | None


class Porter(Activation, namespace="porter", version="1.0.0"):
    """Stands at the door."""

    @method(streaming=False, mcp={"text_only": True})
    async def permit(
        self, tool_name: str, input: dict[str, Any], tool_use_id: str | None = None
    ) -> AsyncIterator[Allowed | Denied]:
        """Decide whether an agent may use a tool: anything but what says it is forbidden.

        Args:
            tool_name: The tool.
            input: The params of the tool.
            tool_use_id: The call.
        """
        if "forbidden" in str(input):
            yield Denied(message=f"{tool_name}: the porter says no")
        else:
            yield Allowed(updatedInput=input)

    @method(streaming=False)
    async def chatter(self) -> AsyncIterator[Said]:
        """Write to the daemon's own output, by every way there is."""
        sys.stdout.write("stray text of a plugin\n")
        sys.stdout.flush()
        os.write(1, b"stray bytes of a plugin\n")
        subprocess.run(["echo", "stray line of a child"], check=True)  # noqa: ASYNC221 -- at once
        yield Said(text="done")

    @method
    async def register(self, token: str) -> Said:
        """Register a session token, for an agent that may call these plugins."""
        actor = Actor("session", "of a token", grants=("porter", "trouble"))
        self.host.register_token(token, actor)
        return Said(text="registered")

    @method(streaming=False, needs_context=True)
    async def describe(self) -> AsyncIterator[Caller]:
        """Describe the caller."""
        context, client = self.host.context, self.host.client
        yield Caller(
            cwd=context.cwd,
            # Byte by byte, because it need not be text.
            greeting=os.fsencode(context.env.get("GREETING", "")).decode("latin-1"),
            token_in_env="HUBD_SESSION_TOKEN" in {**os.environ, **context.env},
            transport=client.transport,
            name=client.name,
            session_token=client.session_token,
        )

    @method(streaming=False, needs_context=True)
    async def complain(self) -> AsyncIterator[Said]:
        """Fail with words that came from the caller's environment."""
        if True:
            raise NotFound(f"nothing is called {self.host.context.env.get('GREETING')}")
        yield Said(text="")
