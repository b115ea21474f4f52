"""The tool calls of one message: asked for one by one, run side by side, reported out of order."""

from pathlib import Path

from hubd.offline_agent import lines
from hubd.offline_agent.asking import Asker
from hubd.offline_agent.directives import Call
from hubd.offline_agent.lines import REJECTED, Line
from hubd.offline_agent.permission import Verdict
from hubd.offline_agent.pipes import Interrupted, Pipes
from hubd.offline_agent.result import Tally
from hubd.offline_agent.session import Session
from hubd.offline_agent.subagent import Subagent
from hubd.offline_agent.tools import Outcome, run_at_once, run_commands


class Toolbox:
    """Uses tools for one turn."""

    def __init__(
        self, pipes: Pipes, session: Session, asker: Asker, tally: Tally, cwd: Path
    ) -> None:
        self._pipes = pipes
        self._session = session
        self._asker = asker
        self._tally = tally
        self._cwd = cwd
        # The calls that have no result yet; an interrupt finds them here.
        self._open: dict[str, Call] = {}

    def use(self, calls: list[tuple[str, Call]]) -> list[Outcome]:
        """Use tools and report each result; returns them in the order of the calls.

        The last call is reported first: claude reports them as they end, and whoever counts on
        their order should find out here.

        Raises:
            Interrupted: The turn was interrupted, or an answer to a question ends it.
            Leave: The tool that should be asked is not there.
        """
        self._open = dict(calls)
        outcomes: dict[str, Outcome] = {}
        allowed: list[tuple[str, Call, Verdict]] = []
        for key, call in calls:
            verdict = self._ask(key, call)
            if verdict.behavior == "allow":
                allowed.append((key, _updated(call, verdict), verdict))
            else:
                outcomes[key] = self._refuse(key, call, verdict)
        given = self._run([(key, call) for key, call, _ in allowed])
        for key, call, verdict in reversed(allowed):
            outcomes[key] = given[key]
            self._report(key, call, given[key], verdict.meta(key))
        return [outcomes[key] for key, _ in calls]

    def reject_open_calls(self) -> bool:
        """Report the calls that an interrupt left open; returns whether there were any."""
        rejected = list(self._open.items())
        for key, call in rejected:
            outcome = Outcome(REJECTED, True, "User rejected tool use")
            meta = {"id": key, "non_execution_kind": "user-rejected"}
            self._report(key, call, outcome, meta)
        return bool(rejected)

    def _ask(self, key: str, call: Call) -> Verdict:
        try:
            verdict = self._asker.verdict(call, key)
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
            what = {"tool_name": call.tool, "tool_use_id": key, **reason}
            denied = {**what, "message": verdict.message}
            self._pipes.emit(lines.system(self._session.id, "permission_denied", **denied))
        self._report(key, call, outcome, verdict.meta(key))
        return outcome

    def _deny(self, key: str, call: Call) -> None:
        denial = {"tool_name": call.tool, "tool_use_id": key, "tool_input": call.input}
        self._tally.denials.append(denial)

    def _run(self, calls: list[tuple[str, Call]]) -> dict[str, Outcome]:
        keys = [key for key, call in calls if call.tool == "Bash"]
        commands = [str(call.input.get("command", "")) for _, call in calls if call.tool == "Bash"]
        given = run_commands(self._pipes, commands, self._cwd)
        outcomes = dict(zip(keys, given, strict=True))
        for key, call in calls:
            if call.tool == "Task":
                self._tally.subagents += 1
                subagent = Subagent(self._pipes, self._session.id, call, key)
                outcomes[key] = subagent.run(self._use_inside)
            elif call.tool != "Bash":
                outcomes[key] = run_at_once(call, self._cwd)
        return outcomes

    def _use_inside(self, call: Call, key: str) -> tuple[Outcome, Line | None]:
        """A tool for a subagent: the same permissions, but the report is the subagent's."""
        verdict = self._ask(key, call)
        if verdict.behavior != "allow":
            if not verdict.is_failure:
                self._deny(key, call)
            meta = None if verdict.is_failure else verdict.meta(key)
            return Outcome.failed(verdict.message), meta
        return self._run([(key, _updated(call, verdict))])[key], verdict.meta(key)

    def _report(self, key: str, call: Call, outcome: Outcome, meta: Line | None) -> None:
        """The line of a result: `tool_result_meta` is missing where nobody decided anything."""
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
    """The call as it was permitted, which may be another than was asked for."""
    return call if verdict.updated_input is None else Call(call.tool, verdict.updated_input)
