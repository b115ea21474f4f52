"""Why an agent has ended, in a sentence: from its exit status and what it last said on stderr."""

import signal
from collections.abc import Mapping
from typing import Final

from hubd.plugins.claudecode.protocol.facts import TurnResult

# Notes of `claude` for its own makers, among the errors of a turn that was broken off.
DIAGNOSTIC: Final = "[ede_diagnostic]"


def explain(status: int, stderr_tail: str) -> str:
    """A sentence on why the agent has ended, from its exit status and its last words."""
    for words, sentence in _REASONS.items():
        if words in stderr_tail:
            return sentence
    said = [line for line in map(str.strip, stderr_tail.splitlines()) if _is_telling(line)]
    sentence = _explain_status(status)
    return f"{sentence}: {said[-1].removeprefix('Error: ')}" if said else sentence


def explain_result(result: TurnResult) -> str:
    """Return why a turn failed: the errors that its result line lists, else its text."""
    listed = result.raw.get("errors")
    texts = [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    told = [text for text in texts if text and not text.startswith(DIAGNOSTIC)]
    return "; ".join(told) or result.result or result.subtype or "failed"


# What `claude` says on stderr, and what it means to somebody who does not see the command line.
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


def _is_telling(line: str) -> bool:
    # `[claude-code:unrecognized_model] {…}` and the like are notes that end nothing.
    return bool(line) and not line.startswith("[claude-code:")
