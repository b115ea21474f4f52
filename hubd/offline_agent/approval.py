"""The approval of a tool call: by the rules, or by a question over the pipes."""

from typing import Final

from hubd.offline_agent.directives import Call
from hubd.offline_agent.lines import INTERACTIVE, Line, new_id, system
from hubd.offline_agent.permission import Permissions, Verdict, suggestions
from hubd.offline_agent.pipes import Exit, Pipes

STDIO: Final = "stdio"

_INVALID: Final = (
    "The permission prompt returned an invalid permission result. Expected {behavior: 'allow', "
    "updatedInput?: object} or {behavior: 'deny', message: string}."
)


class Approver:
    """Decides whether a call may run."""

    def __init__(self, pipes: Pipes, permissions: Permissions, tool: str) -> None:
        self._pipes = pipes
        self._permissions = permissions
        # The value of --permission-prompt-tool; empty if questions are not possible.
        self._tool = tool

    def verdict(self, call: Call, tool_use_id: str, agent_id: str = "") -> Verdict:
        """Return whether a call may run. Wait for the answer if the rules require a question.

        Args:
            call: The call.
            tool_use_id: The id of the call.
            agent_id: The subagent that makes the call, if it is not the agent itself.

        Raises:
            Interrupted: The turn was interrupted while the question was open.
            Exit: The tool for the question does not exist.
        """
        verdict = self._permissions.decide(call)
        if verdict.behavior != "ask":
            return verdict
        if not self._tool and call.tool in INTERACTIVE:
            text = f"Error: No such tool available: {call.tool}"
            return Verdict("deny", text, is_failure=True)
        if not self._tool:
            action = f"write to {call.input['file_path']}" if call.tool == "Write" else "use Bash"
            text = f"Claude requested permissions to {action}, but you haven't granted it yet."
            return Verdict("deny", text, kind="user-rejected")
        if self._tool != STDIO:
            raise Exit(
                1,
                f"Error: MCP tool {self._tool} (passed via --permission-prompt-tool) not found. "
                "The offline agent asks on its standard output: use stdio",
            )
        verdict = self._ask(call, tool_use_id, agent_id)
        if call.tool == "ExitPlanMode" and verdict.behavior == "allow":
            self._leave_plan_mode()
        return verdict

    def _leave_plan_mode(self) -> None:
        if self._permissions.mode == "plan":
            self._permissions.mode = "default"
            change = {"status": None, "permissionMode": "default"}
            self._pipes.emit(system(self._pipes.session_id, "status", **change))

    def _ask(self, call: Call, tool_use_id: str, agent_id: str) -> Verdict:
        if not self._pipes.open:
            return _failed("Tool permission request failed: AbortError: Stream closed")
        request_id = new_id()
        request = _request(call, tool_use_id, agent_id)
        line = {"type": "control_request", "request_id": request_id, "request": request}
        self._pipes.question = request_id
        try:
            self._pipes.emit(line)
            while request_id not in self._pipes.answers and self._pipes.open:
                self._pipes.wait(None)
        finally:
            self._pipes.question = None
        answer = self._pipes.answers.pop(request_id, None)
        if answer is None:
            closed = "AbortError: Tool permission stream closed before response received"
            return _failed(f"Tool permission request failed: {closed}")
        if answer.get("subtype") != "success":
            return _failed(f"Tool permission request failed: Error: {answer.get('error')}")
        return self._read_answer(answer.get("response"))

    def _read_answer(self, answer: object) -> Verdict:
        """Return the verdict of an answer. Any answer that is not a clear permission denies."""
        if not isinstance(answer, dict):
            return _failed(_INVALID)
        updates = answer.get("updatedPermissions") or ()
        if answer.get("behavior") == "allow":
            updated = answer.get("updatedInput")
            if updated is not None and not isinstance(updated, dict):
                return _failed(_INVALID)
            self._permissions.update(updates)
            # An empty object means the original input.
            return Verdict("allow", source="user_temporary", updated_input=updated or None)
        message = answer.get("message")
        if answer.get("behavior") != "deny" or not isinstance(message, str):
            return _failed(_INVALID)
        if answer.get("interrupt"):
            return Verdict("deny", message, source="user_reject", interrupts=True)
        return Verdict("deny", message, source="user_reject")


def _request(call: Call, tool_use_id: str, agent_id: str) -> Line:
    request: Line = {
        "subtype": "can_use_tool",
        "tool_name": call.tool,
        "display_name": call.tool,
        "input": call.input,
    }
    if call.tool not in INTERACTIVE:
        description = call.input.get("description", call.input.get("file_path", ""))
        request |= {"description": description, "permission_suggestions": suggestions(call)}
    request["tool_use_id"] = tool_use_id
    if agent_id:
        request["agent_id"] = agent_id
    if call.tool in INTERACTIVE:
        request["requires_user_interaction"] = True
    return request


def _failed(text: str) -> Verdict:
    return Verdict("deny", text, reason_type="other")
