"""The messages that hubd writes to an agent's program."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hubd.activation import ChildProcess

# A tool's output of 50 MB occurs, and its line contains it twice.
MAX_LINE_BYTES: Final = 128 * 1024 * 1024
# An idle `claude` ends 0.03 s after its input. In the middle of a turn it continues.
EOF_SECONDS: Final = 0.5


async def send(child: ChildProcess, message: Mapping[str, Any]) -> None:
    """Write one line of JSON.

    Raises:
        HubError: As `ChildProcess.write`.
    """
    await child.write(json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n")


async def send_user(
    child: ChildProcess, content: str | Sequence[Mapping[str, Any]], *, uuid: str | None = None
) -> None:
    """Send the user's message: a text, or content blocks.

    Messages that are sent during a turn may become one: send the next after the result.

    Raises:
        HubError: As `ChildProcess.write`.
    """
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    message: dict[str, Any] = {"type": "user", "message": {"role": "user", "content": blocks}}
    await send(child, message if uuid is None else {**message, "uuid": uuid})


async def respond(child: ChildProcess, request_id: str, response: Mapping[str, Any]) -> None:
    """Answer a control request of the agent.

    Raises:
        HubError: As `ChildProcess.write`.
    """
    answer = {"subtype": "success", "request_id": request_id, "response": response}
    await send(child, {"type": "control_response", "response": answer})


async def interrupt(child: ChildProcess, request_id: str) -> None:
    """Ask the agent to stop the current turn; the control_response has the same id.

    Raises:
        HubError: As `ChildProcess.write`.
    """
    request = {"subtype": "interrupt"}
    await send(child, {"type": "control_request", "request_id": request_id, "request": request})
