"""The shapes of the lines on standard output, as claude writes them. It does no I/O.

Keys are in claude's own order, which is why `type` is not the first of them in a result.
"""

import time
from typing import Any, Final
from uuid import uuid4

from hubd import __version__

Line = dict[str, Any]

MODEL: Final = "offline"

TOOL_NAMES: Final = ("Task", "Bash", "Big", "Read", "Write")

INTERRUPTED: Final = "[Request interrupted by user]"
INTERRUPTED_IN_TOOL: Final = "[Request interrupted by user for tool use]"

REJECTED: Final = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it "
    "was a file edit, the new_string was NOT written to the file). STOP what you are doing and "
    "wait for the user to tell you how to proceed."
)


def new_id() -> str:
    """A fresh UUID, as every line has one."""
    return str(uuid4())


def message_id() -> str:
    """An id as the API gives to messages."""
    return f"msg_{uuid4().hex[:24]}"


def tool_use_id() -> str:
    """An id as the API gives to tool calls."""
    return f"toolu_{uuid4().hex[:24]}"


def timestamp() -> str:
    """Now, as claude writes times: UTC with milliseconds."""
    now = time.time()
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    return f"{seconds}.{int(now * 1000) % 1000:03d}Z"


def init(
    session_id: str, cwd: str, mode: str, tools: list[str], servers: list[dict[str, str]]
) -> Line:
    """The first line of every turn."""
    return {
        "type": "system",
        "subtype": "init",
        "cwd": cwd,
        "session_id": session_id,
        "tools": tools,
        "mcp_servers": servers,
        "model": MODEL,
        "permissionMode": mode,
        "slash_commands": [],
        "apiKeySource": "none",
        "claude_code_version": f"offline-{__version__}",
        "output_style": "default",
        "agents": ["general-purpose"],
        "skills": [],
        "plugins": [],
        "capabilities": ["interrupt_receipt_v1", "msg_lifecycle_v1"],
        "analytics_disabled": True,
        "product_feedback_disabled": True,
        "uuid": new_id(),
        "original_cwd": cwd,
        "additional_directories": [],
        "fast_mode_state": "off",
        "view_mode": "default",
    }


def system(session_id: str, subtype: str, **fields: Any) -> Line:
    """Any other system line."""
    known = {"session_id": session_id, "uuid": new_id()}
    return {"type": "system", "subtype": subtype, **fields, **known}


def stream_event(session_id: str, message: str, event: Line, **more: Any) -> Line:
    """One event of a message that is being streamed."""
    return {
        "type": "stream_event",
        "event": event,
        "session_id": session_id,
        "parent_tool_use_id": None,
        "uuid": new_id(),
        **more,
        "api_message_id": message,
    }


def assistant(session_id: str, message: Line, parent: str | None = None, **more: Any) -> Line:
    """One content block of the assistant, complete."""
    return {
        "type": "assistant",
        "message": message,
        "parent_tool_use_id": parent,
        "session_id": session_id,
        "uuid": new_id(),
        "timestamp": timestamp(),
        **more,
    }


def assistant_message(identity: str, content: list[Line], usage: Line) -> Line:
    """The message inside an assistant line: one block, and the usage as it was at the start."""
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
        "context_management": None,
    }


def synthetic_message(text: str) -> Line:
    """What claude puts in the assistant's mouth when the API failed."""
    return {
        "diagnostics": None,
        "id": new_id(),
        "container": None,
        "model": "<synthetic>",
        "role": "assistant",
        "stop_details": None,
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "type": "message",
        "usage": {
            "output_tokens_details": None,
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": None,
            "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
            "inference_geo": None,
            "iterations": None,
            "speed": None,
            "fallback_credit": None,
        },
        "content": [{"type": "text", "text": text}],
        "context_management": None,
    }


def user(
    session_id: str, content: str | list[Line], parent: str | None = None, **more: Any
) -> Line:
    """A message in the user's name: a prompt, a tool's result, or a note about an interrupt."""
    return {
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": parent,
        "session_id": session_id,
        "uuid": new_id(),
        "timestamp": timestamp(),
        **more,
    }


def text_block(text: str) -> Line:
    """A text block."""
    return {"type": "text", "text": text}


def start_usage(input_tokens: int) -> Line:
    """The usage that message_start and the assistant lines carry."""
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    }


def broken_usage(usage: Line) -> Line:
    """The usage of a message that was broken off, which is what it was at the start."""
    return {
        "output_tokens_details": {"thinking_tokens": 0},
        **usage,
        "iterations": [],
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "fallback_credit": None,
    }


def count_tokens(text: str) -> int:
    """A rough count that grows with the text, so that sums mean something."""
    return max(1, len(text) // 4)
