"""One turn: from the messages of the user to the result line."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hubd.offline_agent import lines, result
from hubd.offline_agent.asking import Asker
from hubd.offline_agent.directives import Call, Plan, Step, read_plan
from hubd.offline_agent.lines import Line
from hubd.offline_agent.message import Speaker, pieces
from hubd.offline_agent.options import Options
from hubd.offline_agent.pipes import Interrupted, Pipes
from hubd.offline_agent.session import Session
from hubd.offline_agent.toolbox import Toolbox

# More of a prompt or of a tool's result is not repeated.
LONGEST_QUOTE: Final = 500


class _TooManyRounds(Exception):
    """--max-turns is used up."""


class _ApiError(Exception):
    """The API failed, as far as anybody can see."""


class Turn:
    """One turn. It is run once."""

    def __init__(
        self, pipes: Pipes, session: Session, asker: Asker, options: Options, cwd: Path
    ) -> None:
        self._pipes = pipes
        self._session = session
        self._options = options
        self._tally = result.Tally()
        self._speaker = Speaker(pipes, session, self._tally, options.partial_messages)
        self._toolbox = Toolbox(pipes, session, asker, self._tally, cwd)
        # What the tools gave since the last message.
        self._results: list[str] = []
        # How many messages have called tools.
        self._rounds = 0

    def run(self, prompts: list[Line], index: int) -> Line:
        """Answer the messages of the user; returns the result line, which is not written yet."""
        started = time.monotonic()
        history = self._session.history
        ids = [prompt["uuid"] for prompt in prompts if "uuid" in prompt]
        if ids:
            self._speaker.answering = {"user_message_uuid": ids[-1], "user_message_uuids": ids}
        self._speaker.request()
        for prompt in prompts:
            self._session.append(prompt)
            if self._options.replay_user_messages:
                self._replay(prompt)
        plan = read_plan("\n".join(_text_of(prompt) for prompt in prompts))

        def frame() -> dict[str, Any]:
            duration = int((time.monotonic() - started) * 1000)
            queued = len(self._pipes.prompts)
            known = {"session_id": self._session.id, "index": index, "queued": queued}
            return {**known, "duration_ms": duration}

        self._pipes.in_turn = True
        try:
            self._follow(plan, history)
            return result.success(self._tally, **frame())
        except Interrupted:
            reason = self._break_off()
            error = result.diagnostic(self._tally.stop_reason)
            kind = "error_during_execution"
            return result.failure(self._tally, kind, reason, error, **frame())
        except _TooManyRounds:
            error = f"Reached maximum number of turns ({self._options.rounds})"
            kind = "error_max_turns"
            return result.failure(self._tally, kind, "max_turns", error, **frame())
        except _ApiError as problem:
            return result.api_error(self._tally, str(problem), **frame())
        finally:
            self._pipes.in_turn = False

    def _replay(self, prompt: Line) -> None:
        line = lines.user(self._session.id, prompt["message"]["content"], isReplay=True)
        self._pipes.emit({**line, "uuid": prompt.get("uuid", line["uuid"])})

    def _follow(self, plan: Plan, history: int) -> None:
        steps = list(plan.steps)
        if plan.plain or not steps:
            steps.insert(0, Step("say", self._introduction(plan.plain, history)))
        for position, step in enumerate(steps):
            if step.kind == "slow":
                self._speaker.delay = step.number / _count_deltas(steps[position + 1 :])
            else:
                self._do(step)
        if self._speaker.is_open and self._tally.text:
            self._speaker.end("end_turn")
        else:
            said = "; ".join(self._results) or "done"
            self._speaker.text(pieces(f"offline agent: {said}"))
            self._speaker.end("end_turn")

    def _do(self, step: Step) -> None:
        speaker = self._speaker
        if step.kind == "say":
            speaker.text(pieces(step.text))
        elif step.kind == "think":
            speaker.thinking(step.text)
        elif step.kind == "repeat":
            speaker.text(step.text for _ in range(int(step.number)))
        elif step.kind == "tools":
            self._use(step.calls)
        elif step.kind == "hang":
            speaker.text(self._hanging())
        elif step.kind == "crash":
            speaker.text(self._crashing(int(step.number)))
        elif step.kind == "error":
            self._fail(step.text)
        elif step.kind == "broken":
            self._pipes.write(b"{this line is not JSON")
            unknown = {"type": "offline_unknown", "subtype": "broken", "reason": "as asked"}
            self._pipes.emit({**unknown, "session_id": self._session.id, "uuid": lines.new_id()})

    def _use(self, calls: tuple[Call, ...]) -> None:
        named = [(lines.tool_use_id(), call) for call in calls]
        for tool_use_id, call in named:
            self._speaker.tool_use(tool_use_id, call)
        self._speaker.end("tool_use")
        self._rounds += 1
        outcomes = self._toolbox.use(named)
        self._results = [
            f"{call.tool} {'failed' if outcome.is_error else 'said'}: {_quote(outcome.text)}"
            for (_, call), outcome in zip(named, outcomes, strict=True)
        ]
        if self._options.rounds is not None and self._rounds >= self._options.rounds:
            raise _TooManyRounds

    def _hanging(self) -> Iterator[str]:
        yield "offline agent: waiting, as asked, until somebody interrupts"
        while True:
            self._pipes.wait(None)

    def _crashing(self, status: int) -> Iterator[str]:
        yield "offline agent: crashing, as asked"
        os._exit(status)

    def _fail(self, text: str) -> None:
        if self._speaker.is_open:
            self._speaker.end("end_turn")
        self._speaker.request()
        said = f"API Error: 500 {text}"
        line = lines.assistant(
            self._session.id,
            lines.synthetic_message(said),
            error="server_error",
            is_api_error_message=True,
            api_error_status=500,
            api_error_type="api_error",
        )
        self._session.append(line, isApiErrorMessage=True)
        self._pipes.emit(line)
        raise _ApiError(said)

    def _break_off(self) -> str:
        """Tell what an interrupt left unfinished; returns the result's `terminal_reason`."""
        self._tally.num_turns += 1
        if self._toolbox.reject_open_calls():
            line = self._interruption(lines.INTERRUPTED_IN_TOOL)
            self._session.append(line)
            self._pipes.emit(line)
            return "aborted_tools"
        self._tally.stop_reason = None
        self._speaker.abandon(self._interruption(lines.INTERRUPTED))
        return "aborted_streaming"

    def _interruption(self, text: str) -> Line:
        return lines.user(self._session.id, [lines.text_block(text)])

    def _introduction(self, plain: str, history: int) -> str:
        about = f"history: {history} messages"
        prompt = len(self._options.system_prompt) + len(self._options.append_system_prompt)
        if prompt:
            about += f"; system prompt: {prompt} characters"
        return f"offline agent: you said: {_quote(plain)} ({about}; no model is asked)"


def _count_deltas(steps: list[Step]) -> int:
    """About how many deltas some steps give; each tool is followed by a closing text."""
    texts = [step.text for step in steps] + [str(step.calls) for step in steps if step.calls]
    repeats = sum(int(step.number) for step in steps if step.kind == "repeat")
    return max(1, repeats + sum(len(list(pieces(text))) for text in texts))


def _text_of(prompt: Line) -> str:
    content = prompt["message"]["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content if block.get("type") == "text")


def _quote(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
