"""The approval of a tool call: by the rules, or by a question over the pipes or over MCP."""

import json
from typing import TYPE_CHECKING, Final

from hubd.offline_agent.directives import Call
from hubd.offline_agent.lines import REJECTED, new_id
from hubd.offline_agent.permission import Permissions, Verdict, suggestions
from hubd.offline_agent.pipes import Exit, Pipes

if TYPE_CHECKING:
    # Imported only if configured: http.client takes longer to import than the rest of the agent.
    from hubd.offline_agent.mcp import McpServer

STDIO: Final = "stdio"

_INVALID: Final = (
    "The permission prompt returned an invalid permission result. Expected {behavior: 'allow', "
    "updatedInput?: object} or {behavior: 'deny', message: string}."
)


class Approver:
    """Decides whether a call may run."""

    def __init__(
        self, pipes: Pipes, permissions: Permissions, tool: str, servers: "list[McpServer]"
    ) -> None:
        self._pipes = pipes
        self._permissions = permissions
        # The value of --permission-prompt-tool; empty if questions are not possible.
        self._tool = tool
        self._servers = servers

    def verdict(self, call: Call, tool_use_id: str) -> Verdict:
        """Return whether a call may run. Wait for the answer if the rules require a question.

        Raises:
            Interrupted: The turn was interrupted while the question was open.
            Exit: The tool for the question does not exist.
        """
        verdict = self._permissions.decide(call)
        if verdict.behavior != "ask":
            return verdict
        if not self._tool:
            action = f"write to {call.input['file_path']}" if call.tool == "Write" else "use Bash"
            text = f"Claude requested permissions to {action}, but you haven't granted it yet."
            return Verdict("deny", text, kind="user-rejected")
        if self._tool == STDIO:
            return self._ask_on_stdio(call, tool_use_id)
        return self._ask_over_mcp(call, tool_use_id)

    def _ask_on_stdio(self, call: Call, tool_use_id: str) -> Verdict:
        request_id = new_id()
        request = {
            "subtype": "can_use_tool",
            "tool_name": call.tool,
            "display_name": call.tool,
            "input": call.input,
            "description": call.input.get("description", call.input.get("file_path", "")),
            "permission_suggestions": suggestions(call),
            "tool_use_id": tool_use_id,
        }
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

    def _ask_over_mcp(self, call: Call, tool_use_id: str) -> Verdict:
        from hubd.offline_agent.mcp import McpError

        server = next((each for each in self._servers if self._tool in each.tools), None)
        if server is None:
            tools = ", ".join(tool for each in self._servers for tool in each.tools)
            raise Exit(
                1,
                f"Error: MCP tool {self._tool} (passed via --permission-prompt-tool) not found. "
                f"Available MCP tools: {tools or 'none'}",
            )
        arguments = {"tool_name": call.tool, "input": call.input, "tool_use_id": tool_use_id}
        name = self._tool.removeprefix(f"mcp__{server.name}__")
        try:
            result = server.call(self._pipes, name, arguments, tool_use_id)
        except McpError as problem:
            return Verdict("deny", f"Error calling tool ({call.tool}): {problem}", is_failure=True)
        content = result.get("content")
        if result.get("isError") or not content or "structuredContent" in result:
            text = f"Error calling tool ({call.tool}): the permission tool gave no plain answer"
            return Verdict("deny", text, is_failure=True)
        if len(content) != 1 or content[0].get("type") != "text":
            return _failed(_INVALID)
        try:
            return self._read_answer(json.loads(content[0]["text"]))
        except ValueError:
            return _failed(_INVALID)

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
            return Verdict("deny", REJECTED, kind="user-rejected", interrupts=True)
        return Verdict("deny", message, source="user_reject")


def _failed(text: str) -> Verdict:
    return Verdict("deny", text, reason_type="other")
