"""The tool calls of one message.

As in claude, calls are approved one by one, and a call that had to be approved ends before the next
question. Calls that the rules allow run in parallel.
"""

from pathlib import Path

from hubd.offline_agent import lines
from hubd.offline_agent.approval import Approver
from hubd.offline_agent.directives import Call
from hubd.offline_agent.lines import REJECTED, Line
from hubd.offline_agent.permission import Verdict
from hubd.offline_agent.pipes import Interrupted, Pipes
from hubd.offline_agent.result import Tally
from hubd.offline_agent.session import Session
from hubd.offline_agent.subagent import Subagent
from hubd.offline_agent.tools import Outcome, run_at_once, run_commands


class Toolbox:
    """The tools of one turn."""

    def __init__(
        self, pipes: Pipes, session: Session, approver: Approver, tally: Tally, cwd: Path
    ) -> None:
        self._pipes = pipes
        self._session = session
        self._approver = approver
        self._tally = tally
        self._cwd = cwd
        # The calls without a result.
        self._open: dict[str, Call] = {}

    def use(self, calls: list[tuple[str, Call]]) -> list[Outcome]:
        """Run calls and report their results. Return the results in the order of the calls.

        Of the calls that the rules allow, the last one is reported first. claude reports calls as
        they end, so clients must not depend on the order.

        Raises:
            Interrupted: The turn was interrupted, by a request or by an answer.
            Exit: The tool for permission prompts does not exist.
        """
        self._open = dict(calls)
        outcomes: dict[str, Outcome] = {}
        allowed: list[tuple[str, Call, Verdict]] = []
        for key, call in calls:
            verdict = self._ask(key, call)
            if verdict.was_asked:
                outcomes[key] = self._run_approved(key, _updated(call, verdict), verdict)
            elif verdict.behavior == "allow":
                allowed.append((key, _updated(call, verdict), verdict))
            else:
                outcomes[key] = self._refuse(key, call, verdict)
        results = self._run([(key, call) for key, call, _ in allowed])
        for key, call, verdict in reversed(allowed):
            outcomes[key] = results[key]
            self._report(key, call, results[key], verdict.meta(key))
        return [outcomes[key] for key, _ in calls]

    def carry_out(self, key: str, call: Call) -> Outcome:
        """Carry out a call of an earlier process, and report its result.

        Raises:
            Interrupted: The call was interrupted, by a request or by an answer.
        """
        try:
            verdict = self._approver.verdict(call, key)
        except Interrupted:
            self._refuse(key, call, Verdict("deny", lines.ABORTED, source="user_abort"))
            raise
        if verdict.behavior != "allow":
            outcome = self._refuse(key, call, verdict)
            if verdict.interrupts:
                raise Interrupted
            return outcome
        try:
            return self._run_approved(key, _updated(call, verdict), verdict)
        except Interrupted:
            outcome = Outcome.failed(f"Exit code 137\n{lines.INTERRUPTED_IN_TOOL}")
            meta = {**verdict.meta(key), "non_execution_kind": "interrupted"}
            self._report(key, call, outcome, meta)
            raise

    def reject_open_calls(self) -> bool:
        """Report the open calls as rejected. Return whether there were any."""
        rejected = list(self._open.items())
        for key, call in rejected:
            outcome = Outcome(REJECTED, True, "User rejected tool use")
            meta = {"id": key, "non_execution_kind": "user-rejected"}
            self._report(key, call, outcome, meta)
        return bool(rejected)

    def _ask(self, key: str, call: Call, agent_id: str = "") -> Verdict:
        try:
            verdict = self._approver.verdict(call, key, agent_id)
        except Interrupted:
            self._deny(key, call)
            raise
        if verdict.interrupts:
            self._deny(key, call)
            raise Interrupted
        return verdict

    def _refuse(self, key: str, call: Call, verdict: Verdict) -> Outcome:
        if verdict.is_failure:
            text = f"<tool_use_error>{verdict.message}</tool_use_error>"
            outcome = Outcome(text, True, verdict.message)
            self._report(key, call, outcome, None)
            return outcome
        outcome = Outcome.failed(verdict.message)
        self._deny(key, call)
        if verdict.source == "config" and verdict.reason_type != "other":
            reason = {"decision_reason_type": verdict.reason_type} if verdict.reason_type else {}
            fields = {"tool_name": call.tool, "tool_use_id": key, **reason}
            denied = {**fields, "message": verdict.message}
            self._pipes.emit(lines.system(self._session.id, "permission_denied", **denied))
        self._report(key, call, outcome, verdict.meta(key))
        return outcome

    def _deny(self, key: str, call: Call) -> None:
        denial = {"tool_name": call.tool, "tool_use_id": key, "tool_input": call.input}
        self._tally.denials.append(denial)

    def _run_approved(self, key: str, call: Call, verdict: Verdict) -> Outcome:
        outcome = self._run([(key, call)])[key]
        self._report(key, call, outcome, verdict.meta(key))
        return outcome

    def _run(self, calls: list[tuple[str, Call]]) -> dict[str, Outcome]:
        keys = [key for key, call in calls if call.tool == "Bash"]
        commands = [str(call.input.get("command", "")) for _, call in calls if call.tool == "Bash"]
        results = run_commands(self._pipes, commands, self._cwd)
        outcomes = dict(zip(keys, results, strict=True))
        for key, call in calls:
            if call.tool == "Task":
                self._tally.subagents += 1
                subagent = Subagent(self._pipes, self._session.id, call, key)
                outcomes[key] = subagent.run(self._use_inside)
            elif call.tool != "Bash":
                outcomes[key] = run_at_once(call, self._cwd)
        return outcomes

    def _use_inside(self, call: Call, key: str, agent_id: str) -> tuple[Outcome, Line | None]:
        """Run a call of a subagent, with the same permissions. The subagent reports it."""
        verdict = self._ask(key, call, agent_id)
        if verdict.behavior != "allow":
            if not verdict.is_failure:
                self._deny(key, call)
            meta = None if verdict.is_failure else verdict.meta(key)
            return Outcome.failed(verdict.message), meta
        return self._run([(key, _updated(call, verdict))])[key], verdict.meta(key)

    def _report(self, key: str, call: Call, outcome: Outcome, meta: Line | None) -> None:
        """Write the line of a result. Without a decision there is no `tool_result_meta`."""
        self._open.pop(key, None)
        self._tally.num_turns += 1
        block = outcome.block(key, call.tool)
        more: Line = {"tool_use_result": outcome.detail}
        if meta:
            more["tool_result_meta"] = [meta]
        line = lines.user(self._session.id, [block], **more)
        self._session.append(line, toolUseResult=outcome.detail)
        self._pipes.emit(line)


def _updated(call: Call, verdict: Verdict) -> Call:
    """Return the call with the input that was approved."""
    return call if verdict.updated_input is None else Call(call.tool, verdict.updated_input)
