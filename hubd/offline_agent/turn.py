"""One turn, from the user's messages to the result line."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hubd.offline_agent import lines, result
from hubd.offline_agent.approval import Approver
from hubd.offline_agent.directives import Call, Step, read_plan
from hubd.offline_agent.lines import Line
from hubd.offline_agent.message import MessageWriter, pieces
from hubd.offline_agent.options import Options
from hubd.offline_agent.pipes import Interrupted, Pipes
from hubd.offline_agent.resuming import Deferred, rest_of_turn
from hubd.offline_agent.session import Session
from hubd.offline_agent.toolbox import Toolbox
from hubd.wire.text import shorten

# Characters of a prompt or of a tool result that a text repeats.
LONGEST_QUOTE: Final = 500


class _TooManyRounds(Exception):
    """--max-turns is reached."""


class _ApiError(Exception):
    """A simulated error of the API."""


class Turn:
    """One turn. `run` is called once."""

    def __init__(
        self, pipes: Pipes, session: Session, approver: Approver, options: Options, cwd: Path
    ) -> None:
        self._pipes = pipes
        self._session = session
        self._options = options
        self._tally = result.Tally()
        self._writer = MessageWriter(pipes, session, self._tally, options.partial_messages)
        self._toolbox = Toolbox(pipes, session, approver, self._tally, cwd)
        # Texts about the tool results since the last message.
        self._results: list[str] = []
        # The number of messages with tool calls.
        self._rounds = 0
        self._started = time.monotonic()

    def run(self, prompts: list[Line], index: int) -> Line:
        """Answer the user's messages. Return the result line, which is not written yet."""
        history = self._session.history
        ids = [prompt["uuid"] for prompt in prompts if "uuid" in prompt]
        if ids:
            self._writer.answering = {"user_message_uuid": ids[-1], "user_message_uuids": ids}
        self._writer.request()
        for prompt in prompts:
            self._session.append(prompt)
            if self._options.replay_user_messages:
                self._replay(prompt)
        plan = read_plan("\n".join(_texts_of(prompt)[-1] for prompt in prompts))
        steps = list(plan.steps)
        notes = [text for each in prompts for text in _texts_of(each)[:-1] if _is_note(text)]
        plain = "\n".join((*notes, plan.plain)).strip()
        if plain or not steps:
            steps.insert(0, Step("say", self._introduction(plain, history)))
        return self._complete(steps, index)

    def carry_out(self, deferred: Deferred) -> bool:
        """Carry out a call of an earlier process. Return whether it was interrupted."""
        if deferred.call is None:
            return False
        self._pipes.in_turn = True
        try:
            self._toolbox.carry_out(deferred.tool_use_id, deferred.call)
        except Interrupted:
            return True
        finally:
            self._pipes.in_turn = False
            # The result belongs to the earlier turn.
            self._tally.num_turns = 1
        return False

    def resume(self, prompt: Line, index: int, *, interrupted: bool) -> Line:
        """Continue the turn of an earlier process. Return the result line.

        Args:
            prompt: The prompt that continues it, which is not shown.
            index: The number of results before.
            interrupted: Whether the call was interrupted, so that the turn ends at once.
        """
        self._writer.request()
        rest = rest_of_turn(self._session.entries)
        self._session.append(prompt, isMeta=True)
        for place, step in enumerate(rest.done):
            if step.kind == "slow":
                self._slow_down(step, [*rest.done[place + 1 :], *rest.steps])
        self._results = [_report(*each) for each in rest.results]
        return self._complete(rest.steps, index, interrupted=interrupted)

    def blocked(self, text: str, index: int) -> Line:
        """Return the result line of a prompt that a hook refused."""
        return result.blocked(self._tally, text, **self._frame(index))

    def _frame(self, index: int) -> dict[str, Any]:
        duration = int((time.monotonic() - self._started) * 1000)
        queued = len(self._pipes.prompts)
        fields = {"session_id": self._session.id, "index": index, "queued": queued}
        return {**fields, "duration_ms": duration}

    def _complete(self, steps: list[Step], index: int, *, interrupted: bool = False) -> Line:
        """Follow the steps to the end of the turn. Return the result line."""

        def frame() -> dict[str, Any]:
            return self._frame(index)

        self._pipes.in_turn = True
        try:
            if interrupted:
                raise Interrupted
            self._follow(steps)
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

    def _slow_down(self, step: Step, later: list[Step]) -> None:
        self._writer.delay = step.number / _count_deltas(later)

    def _follow(self, steps: list[Step]) -> None:
        for position, step in enumerate(steps):
            if step.kind == "slow":
                self._slow_down(step, steps[position + 1 :])
            else:
                self._do(step)
        if self._writer.is_open and self._tally.text:
            self._writer.end("end_turn")
        else:
            report = "; ".join(self._results) or "done"
            self._writer.text(pieces(f"offline agent: {report}"))
            self._writer.end("end_turn")

    def _do(self, step: Step) -> None:
        writer = self._writer
        if step.kind == "say":
            writer.text(pieces(step.text))
        elif step.kind == "think":
            writer.thinking(step.text)
        elif step.kind == "repeat":
            writer.text(step.text for _ in range(int(step.number)))
        elif step.kind == "tools":
            self._use(step.calls)
        elif step.kind == "hang":
            writer.text(self._hanging())
        elif step.kind == "crash":
            writer.text(self._crashing(int(step.number)))
        elif step.kind == "error":
            self._fail(step.text)
        elif step.kind == "broken":
            self._pipes.write(b"{this line is not JSON")
            unknown = {"type": "offline_unknown", "subtype": "broken", "reason": "as asked"}
            self._pipes.emit({**unknown, "session_id": self._session.id, "uuid": lines.new_id()})

    def _use(self, calls: tuple[Call, ...]) -> None:
        keyed = [(lines.tool_use_id(), call) for call in calls]
        for tool_use_id, call in keyed:
            self._writer.tool_use(tool_use_id, call)
        self._writer.end("tool_use")
        self._rounds += 1
        outcomes = self._toolbox.use(keyed)
        self._results = [
            _report(call.tool, outcome.is_error, outcome.text)
            for (_, call), outcome in zip(keyed, outcomes, strict=True)
        ]
        if self._options.rounds is not None and self._rounds >= self._options.rounds:
            raise _TooManyRounds

    def _hanging(self) -> Iterator[str]:
        yield "offline agent: waiting, as asked, for an interrupt"
        while True:
            self._pipes.wait(None)

    def _crashing(self, status: int) -> Iterator[str]:
        yield "offline agent: crashing, as asked"
        os._exit(status)

    def _fail(self, text: str) -> None:
        if self._writer.is_open:
            self._writer.end("end_turn")
        self._writer.request()
        message = f"API Error: 500 {text}"
        line = lines.assistant(
            self._session.id,
            lines.synthetic_message(message),
            error="server_error",
            is_api_error_message=True,
            api_error_status=500,
            api_error_type="api_error",
        )
        self._session.append(line, isApiErrorMessage=True)
        self._pipes.emit(line)
        raise _ApiError(message)

    def _break_off(self) -> str:
        """Write the lines about an interrupt. Return the `terminal_reason` of the result."""
        self._tally.num_turns += 1
        if self._toolbox.reject_open_calls():
            line = self._interruption(lines.INTERRUPTED_IN_TOOL)
            self._session.append(line)
            self._pipes.emit(line)
            return "aborted_tools"
        self._tally.stop_reason = None
        self._writer.abandon(self._interruption(lines.INTERRUPTED))
        return "aborted_streaming"

    def _interruption(self, text: str) -> Line:
        return lines.user(self._session.id, [lines.text_block(text)])

    def _introduction(self, plain: str, history: int) -> str:
        notes = f"history: {history} messages"
        prompt = len(self._options.system_prompt) + len(self._options.append_system_prompt)
        if prompt:
            notes += f"; system prompt: {prompt} characters"
        return f"offline agent: you said: {_quote(plain)} ({notes}; no model is asked)"


def _count_deltas(steps: list[Step]) -> int:
    """Return the approximate number of deltas of some steps."""
    texts = [step.text for step in steps] + [str(step.calls) for step in steps if step.calls]
    repeats = sum(int(step.number) for step in steps if step.kind == "repeat")
    return max(1, repeats + sum(len(list(pieces(text))) for text in texts))


def _texts_of(prompt: Line) -> list[str]:
    """Return the texts of a message. The last is the prompt; others are context, such as a file."""
    content = prompt["message"]["content"]
    if isinstance(content, str):
        return [content]
    texts = [str(block.get("text", "")) for block in content if block.get("type") == "text"]
    return texts or [""]


def _is_note(text: str) -> bool:
    """Return whether a text is the hub's, about a call whose end the agent does not know."""
    return text.startswith("Your tool call ")


def _report(tool: str, is_error: bool, text: str) -> str:
    return f"{tool} {'failed' if is_error else 'said'}: {_quote(text)}"


def _quote(text: str) -> str:
    return shorten(text, LONGEST_QUOTE + 1)
