"""The sessions of MCP's older protocol over HTTP: how many there are, and whose ends for another's.

Reaches into the SDK, which at its limit turns away whoever comes.
"""

import math
from typing import Any, Final

from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

# One user's clients; a session that is idle for half an hour ends by itself, and before that if
# there is no room for another: not every client says that it leaves.
MAX_SESSIONS: Final = 512


class Sessions(StreamableHTTPSessionManager):
    """The SDK's sessions of the older protocol; silence locks nobody out."""

    def __init__(self, server: Server[Any], max_message_bytes: int) -> None:
        super().__init__(server, max_sessions=MAX_SESSIONS, max_request_body_size=max_message_bytes)

    def _admit_session(
        self, requestor: AuthorizationContext | None
    ) -> StreamableHTTPServerTransport | None:
        admitted = super()._admit_session(requestor)
        if admitted is not None:
            return admitted
        # Whoever is being answered, or listens, has no deadline.
        ends = {
            session_id: session.idle_scope
            for session_id, session in self._server_instances.items()
            if session.idle_scope is not None and session.idle_scope.deadline < math.inf
        }
        if not ends:
            return None
        silent = min(ends, key=lambda session_id: ends[session_id].deadline)
        ends[silent].cancel()
        del self._server_instances[silent]
        return super()._admit_session(requestor)
