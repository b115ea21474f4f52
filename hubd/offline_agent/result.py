"""The result line of a turn, in the format of claude. This module does no I/O."""

from typing import Any, Final

from hubd.offline_agent.lines import MODEL, Line, new_id

CONTEXT_WINDOW: Final = 1_000_000
MOST_OUTPUT: Final = 128_000


class Tally:
    """The counts of a turn."""

    def __init__(self) -> None:
        # Tokens of all complete messages.
        self.input_tokens = 0
        self.output_tokens = 0
        # The prompt and all user lines.
        self.num_turns = 1
        # The denied calls.
        self.denials: list[Line] = []
        # The stop reason of the last complete message.
        self.stop_reason: str | None = None
        # The text of the last message.
        self.text = ""
        # The number of subagents.
        self.subagents = 0


def success(tally: Tally, **frame: Any) -> Line:
    """Return the result of a complete turn."""
    ending = {
        "is_error": False,
        "num_turns": tally.num_turns,
        "subtype": "success",
        "api_error_status": None,
        "result": tally.text,
    }
    return _result(tally, "completed", ending, **frame)


def blocked(tally: Tally, text: str, **frame: Any) -> Line:
    """Return the result of a prompt that a hook refused."""
    ending = {"is_error": False, "num_turns": 0, "subtype": "success", "result": text}
    line = _result(tally, "completed", ending, **frame)
    del line["terminal_reason"]
    return line


def api_error(tally: Tally, text: str, **frame: Any) -> Line:
    """Return the result after an error of the API: `is_error`, without an `error_…` subtype."""
    tally.stop_reason = "stop_sequence"
    ending = {
        "is_error": True,
        "num_turns": tally.num_turns,
        "subtype": "success",
        "api_error_status": 500,
        "api_error_type": "api_error",
        "result": text,
    }
    return _result(tally, "api_error", ending, **frame)


def failure(tally: Tally, subtype: str, reason: str, error: str, **frame: Any) -> Line:
    """Return the result of an incomplete turn."""
    ending = {
        "is_error": True,
        "num_turns": tally.num_turns,
        "subtype": subtype,
        "errors": [error],
    }
    return _result(tally, reason, ending, **frame)


def no_session(session_id: str, error: str) -> Line:
    """Return the only line of a run that can't resume its session; it has fewer fields."""
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "duration_ms": 0,
        "duration_api_ms": 0,
        "is_error": True,
        "num_turns": 0,
        "stop_reason": None,
        "session_id": session_id,
        "total_cost_usd": 0,
        "usage": _usage(Tally()),
        "modelUsage": {},
        "permission_denials": [],
        "uuid": new_id(),
        "errors": [error],
        "result_index": 0,
    }


def diagnostic(stop_reason: str | None) -> str:
    """Return the text that claude writes into `errors` after an interrupt."""
    reason = stop_reason or "null"
    return f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={reason}"


def _result(
    tally: Tally,
    reason: str,
    ending: Line,
    *,
    session_id: str,
    index: int,
    duration_ms: int,
    queued: int = 0,
) -> Line:
    models = _model_usage(tally)
    return {
        "duration_api_ms": duration_ms if models else 0,
        "stop_reason": tally.stop_reason,
        "session_id": session_id,
        "total_cost_usd": 0,
        "usage": _usage(tally),
        "modelUsage": models,
        "permission_denials": tally.denials,
        "terminal_reason": reason,
        "fast_mode_state": "off",
        "subagent_stats": _subagent_stats(tally.subagents),
        "safety_stops": 0,
        **ending,
        "type": "result",
        "duration_ms": duration_ms,
        "uuid": new_id(),
        "queued_turn_count": queued,
        "result_index": index,
        "model_usage_since_last_result": models,
    }


def _usage(tally: Tally) -> Line:
    return {
        "input_tokens": tally.input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": tally.output_tokens,
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
        "fallback_credit": None,
    }


def _model_usage(tally: Tally) -> Line:
    if not tally.output_tokens:
        return {}
    used = {
        "inputTokens": tally.input_tokens,
        "outputTokens": tally.output_tokens,
        "cacheReadInputTokens": 0,
        "cacheCreationInputTokens": 0,
        "webSearchRequests": 0,
        "costUSD": 0,
        "contextWindow": CONTEXT_WINDOW,
        "maxOutputTokens": MOST_OUTPUT,
        "thinkingTokens": 0,
        "cacheCreationEphemeral5mInputTokens": 0,
        "cacheCreationEphemeral1hInputTokens": 0,
        "canonicalModel": MODEL,
        "provider": "offline",
        "costBasis": "list",
    }
    return {MODEL: used}


def _subagent_stats(spawned: int) -> Line:
    return {
        "spawned": spawned,
        "requested": {"background": 0, "foreground": spawned, "unset": 0},
        "started_in_background": 0,
        "max_depth": min(spawned, 1),
        "spawned_by_subagents": 0,
        "completed": spawned,
        "failed": 0,
        "killed": {"parent": 0, "user": 0, "system": 0},
        "refused": {"depth_limit": 0, "concurrency_limit": 0, "budget": 0},
        "by_type": {"general-purpose": spawned} if spawned else {},
    }
