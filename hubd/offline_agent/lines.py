"""The lines on standard output, in the format of claude. This module does no I/O.

Keys are in claude's order, so `type` is not the first key of a result.
"""

import time
from typing import Any, Final
from uuid import uuid4

from hubd import __version__

Line = dict[str, Any]

MODEL: Final = "offline"

TOOL_NAMES: Final = ("Task", "Bash", "Big", "Read", "Write")
# Tools whose result is the answer of a person; only offered if a person can be asked.
INTERACTIVE: Final = ("AskUserQuestion", "ExitPlanMode")

INTERRUPTED: Final = "[Request interrupted by user]"
INTERRUPTED_IN_TOOL: Final = "[Request interrupted by user for tool use]"

ABORTED: Final = "Tool permission request aborted"

# The prompt that continues a turn after a call of an earlier process was carried out.
CONTINUE: Final = "Continue from where you left off."

REJECTED: Final = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it "
    "was a file edit, the new_string was NOT written to the file). STOP what you are doing and "
    "wait for the user to tell you how to proceed."
)


def new_id() -> str:
    """Return a new UUID for a line."""
    return str(uuid4())


def message_id() -> str:
    """Return a new message id in the format of the API."""
    return f"msg_{uuid4().hex[:24]}"


def tool_use_id() -> str:
    """Return a new id of a tool call in the format of the API."""
    return f"toolu_{uuid4().hex[:24]}"


def timestamp() -> str:
    """Return the time in UTC with milliseconds, in claude's format."""
    now = time.time()
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    return f"{seconds}.{int(now * 1000) % 1000:03d}Z"


def init(session_id: str, cwd: str, mode: str, tools: list[str]) -> Line:
    """Return the first line of a turn."""
    return {
        "type": "system",
        "subtype": "init",
        "cwd": cwd,
        "session_id": session_id,
        "tools": tools,
        "mcp_servers": [],
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
    """Return another system line."""
    common = {"session_id": session_id, "uuid": new_id()}
    return {"type": "system", "subtype": subtype, **fields, **common}


def stream_event(session_id: str, message: str, event: Line, **more: Any) -> Line:
    """Return one event of a streamed message."""
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
    """Return the line of one complete block of the assistant."""
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
    """Return the message of an assistant line: one block, and the usage at the start."""
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
    """Return the message that claude writes if the API fails."""
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
    """Return a user line: a prompt, a tool result, or a note about an interrupt."""
    return {
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": parent,
        "session_id": session_id,
        "uuid": new_id(),
        "timestamp": timestamp(),
        **more,
    }


def lifecycle(session_id: str, command: str, state: str) -> Line:
    """Return the line about the state of a message with an id."""
    ids = {"uuid": new_id(), "session_id": session_id}
    return {"type": "command_lifecycle", "command_uuid": command, "state": state, **ids}


def blocked_prompt(session_id: str, text: str) -> Line:
    """Return the line about a prompt that a hook refused."""
    outcome = {"kind": "blocked_by_hook", "prompt_kept": False}
    fields = {"content": text, "level": "warning", "prevent_continuation": True}
    return system(session_id, "informational", **fields, prompt_submit_outcome=outcome)


def text_block(text: str) -> Line:
    """Return a text block."""
    return {"type": "text", "text": text}


def start_usage(input_tokens: int) -> Line:
    """Return the usage in message_start and in assistant lines."""
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    }


def broken_usage(usage: Line) -> Line:
    """Return the usage of an interrupted message: the same as at its start."""
    return {
        "output_tokens_details": {"thinking_tokens": 0},
        **usage,
        "iterations": [],
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "fallback_credit": None,
    }


def count_tokens(text: str) -> int:
    """Return an approximate number of tokens."""
    return max(1, len(text) // 4)
