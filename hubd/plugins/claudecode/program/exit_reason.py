"""The reason for the end of an agent, from its exit status and its stderr, in one sentence."""

import signal
from collections.abc import Mapping
from typing import Final

from hubd.plugins.claudecode.protocol.messages import ResultLine

# The prefix of `claude`'s internal notes among the errors of an interrupted turn.
DIAGNOSTIC: Final = "[ede_diagnostic]"


def explain(status: int, stderr_tail: str) -> str:
    """Return a sentence on why the agent ended.

    Args:
        status: The exit status, negative for a signal.
        stderr_tail: The last part of stderr.
    """
    for text, sentence in _REASONS.items():
        if text in stderr_tail:
            return sentence
    lines = [line for line in map(str.strip, stderr_tail.splitlines()) if _is_reason(line)]
    sentence = _explain_status(status)
    return f"{sentence}: {lines[-1].removeprefix('Error: ')}" if lines else sentence


def explain_result(result: ResultLine) -> str:
    """Return why a turn failed: the errors that its result line lists, else its text."""
    listed = result.raw.get("errors")
    texts = [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    reasons = [text for text in texts if text and not text.startswith(DIAGNOSTIC)]
    return "; ".join(reasons) or result.result or result.subtype or "failed"


# Texts of `claude` on stderr, and sentences for readers that don't see the command line.
_REASONS: Final[Mapping[str, str]] = {
    "No conversation found with session ID": "the agent does not have the session to resume",
    "--resume requires a valid session ID": "the agent does not have the session to resume",
    " is already in use.": "the agent already has a session with this id",
    "cannot be used with root/sudo": "the agent refuses to bypass permissions for root",
}


def _explain_status(status: int) -> str:
    if status == 0:
        return "the agent has ended"
    if status in (126, 127):
        return "the agent's program could not be run"
    if status == -signal.SIGKILL:
        return "the agent was killed (SIGKILL), perhaps because memory ran out"
    number = -status if status < 0 else status - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"the agent ended with status {status}"
    return f"the agent was {'killed' if status < 0 else 'ended'} by {name}"


def _is_reason(line: str) -> bool:
    # Lines such as `[claude-code:unrecognized_model] {…}` are notes.
    return bool(line) and not line.startswith("[claude-code:")
