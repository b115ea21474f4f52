"""A subagent of the offline agent: it calls one tool, or writes one text, for a Task call."""

import time
from collections.abc import Callable
from uuid import uuid4

from hubd.offline_agent import lines
from hubd.offline_agent.directives import Call, read_call
from hubd.offline_agent.lines import Line
from hubd.offline_agent.pipes import Pipes
from hubd.offline_agent.tools import Outcome

# Calls a tool for a subagent: (call, its id, the subagent) -> (outcome, entry of tool_result_meta).
UseTool = Callable[[Call, str, str], tuple[Outcome, Line | None]]


class Subagent:
    """One Task call. As in claude, a subagent has no stream events, only complete messages."""

    def __init__(self, pipes: Pipes, session_id: str, call: Call, tool_use_id: str) -> None:
        self._pipes = pipes
        self._session_id = session_id
        self._tool_use_id = tool_use_id
        self._prompt = str(call.input["prompt"])
        self._id = f"a{uuid4().hex[:16]}"
        kind = str(call.input["subagent_type"])
        description = str(call.input["description"])
        self._task_fields = {"subagent_type": kind, "task_description": description}
        self._started = time.monotonic()
        # The number of tool calls.
        self._uses = 0

    def run(self, use_tool: UseTool) -> Outcome:
        """Follow the prompt. Return the report.

        Raises:
            Interrupted: The turn was interrupted.
        """
        description = self._task_fields["task_description"]
        task = {"tool_use_id": self._tool_use_id, "description": description}
        self._system("task_started", **task, task_type="local_agent", prompt=self._prompt)
        self._user([lines.text_block(self._prompt)])
        report = self._work(use_tool)
        self._system("task_updated", patch={"status": "completed"})
        usage = self._usage()
        ending = {"status": "completed", "summary": report, "usage": usage}
        self._system("task_notification", tool_use_id=self._tool_use_id, **ending)
        content = [lines.text_block(report)]
        detail = {
            "status": "completed",
            "prompt": self._prompt,
            "agentId": self._id,
            "agentType": self._task_fields["subagent_type"],
            "content": content,
            "totalDurationMs": usage["duration_ms"],
            "totalTokens": usage["total_tokens"],
            "totalToolUseCount": usage["tool_uses"],
        }
        return Outcome(content, False, detail)

    def _work(self, use_tool: UseTool) -> str:
        call = read_call(self._prompt)
        # A subagent does not start subagents.
        if call is None or call.tool == "Task":
            answer = f"offline subagent: you said: {self._prompt}"
            self._assistant(lines.text_block(answer))
            return answer
        inner = lines.tool_use_id()
        self._uses += 1
        self._system(
            "task_progress",
            tool_use_id=self._tool_use_id,
            description=f"Running {call.tool}",
            usage=self._usage(),
            last_tool_name=call.tool,
        )
        block = {"type": "tool_use", "id": inner, "name": call.tool, "input": call.input}
        self._assistant(block)
        outcome, meta = use_tool(call, inner, self._id)
        metas: Line = {"tool_use_result": outcome.detail} if outcome.is_error else {}
        metas |= {"tool_result_meta": [meta]} if meta else {}
        self._user([outcome.block(inner, call.tool)], **metas)
        return f"offline subagent: {call.tool} said: {outcome.text}"

    def _system(self, subtype: str, **fields: object) -> None:
        line = lines.system(self._session_id, subtype, task_id=self._id, **fields)
        self._pipes.emit(line)

    def _assistant(self, block: Line) -> None:
        usage = lines.start_usage(lines.count_tokens(self._prompt))
        message = lines.assistant_message(lines.message_id(), [block], usage)
        fields = {"agent_id": self._id, **self._task_fields}
        self._pipes.emit(lines.assistant(self._session_id, message, self._tool_use_id, **fields))

    def _user(self, content: list[Line], **more: object) -> None:
        fields = {"agent_id": self._id, **more, **self._task_fields}
        self._pipes.emit(lines.user(self._session_id, content, self._tool_use_id, **fields))

    def _usage(self) -> Line:
        duration = int((time.monotonic() - self._started) * 1000)
        tokens = lines.count_tokens(self._prompt)
        return {"total_tokens": tokens, "tool_uses": self._uses, "duration_ms": duration}
