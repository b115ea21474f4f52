"""The questions of one running program: ask loopback, and write its decision to the program."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hubd.activation import Actor, ChildProcess, Host
from hubd.errors import HubError
from hubd.plugins.claudecode.approvals import store
from hubd.plugins.claudecode.approvals.resumption import UNKNOWN_OUTCOME
from hubd.plugins.claudecode.approvals.store import Resolution
from hubd.plugins.claudecode.program import process
from hubd.plugins.claudecode.protocol.messages import ControlRequest, Message, Other
from hubd.plugins.claudecode.protocol.updates import MessageStarted, ToolResult, Update
from hubd.storage.database import Database, Tx

log = logging.getLogger("hubd.claudecode")


class Answer(NamedTuple):
    """The answer to one question, as the program reads it."""

    behavior: str
    message: str = ""
    updated_input: Mapping[str, Any] | None = None
    approval_id: str = ""

    def response(self) -> dict[str, Any]:
        """Return the fields of the program's control response."""
        if self.behavior == "allow":
            # An empty object means the original input; older versions require the field.
            return {"behavior": "allow", "updatedInput": self.updated_input or {}}
        return {"behavior": "deny", "message": self.message or "The call was denied."}


class Question:
    """A question that the program waits for."""

    def __init__(self, tool_use_id: str, agent_id: str | None) -> None:
        self.tool_use_id = tool_use_id
        self.agent_id = agent_id
        self.asked_at = time.monotonic()
        # True just before the answer is written to the program.
        self.is_answered = False
        self.task: asyncio.Task[None]


class Questions:
    """All open questions of one program. The program may ask several at once.

    Args:
        host: The hub.
        db: The database.
        write: Runs a transaction, and repeats it while the disk refuses it.
        stream: The key of the chat's stream.
        session: The session that asks.
        before_asking: Called with the id of a tool call before its question is stored.
        changed: Called when a question was opened or answered.
    """

    def __init__(
        self,
        host: Host,
        db: Database,
        write: Callable[[Callable[[Tx], Any]], Awaitable[Any]],
        stream: int,
        session: Actor,
        before_asking: Callable[[str], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        self._host = host
        self._db = db
        self._write = write
        self._stream = stream
        self._session = session
        self._before_asking = before_asking
        self._changed = changed
        self._open: dict[str, Question] = {}
        # The calls that run: they were allowed here, or their subagents work.
        self._running: set[str] = set()
        self._withdrawals: set[asyncio.Task[None]] = set()
        # The time at which the newest answer was written, for the limit of silence.
        self.last_answer = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether the program waits for an answer."""
        return any(not question.is_answered for question in self._open.values())

    @property
    def waiting_since(self) -> float:
        """The time of the oldest open question, on the monotonic clock."""
        return min((question.asked_at for question in self._open.values()), default=0.0)

    @property
    def can_park(self) -> bool:
        """Whether the program can end now, and its calls be carried out by a later one.

        No other call may run, because it would be cut off. A subagent's call has no place to
        continue from.
        """
        questions = self._open.values()
        return bool(questions) and not (
            self._running
            or any(question.is_answered or question.agent_id for question in questions)
        )

    def are_all_in(self, rows: Sequence[store.ApprovalRow]) -> bool:
        """Return whether every open question is among these approvals."""
        asked = {row.tool_use_id for row in rows}
        return all(question.tool_use_id in asked for question in self._open.values())

    def follow(self, updates: Sequence[Update]) -> None:
        """Note which calls run, from what the program prints."""
        for update in updates:
            match update:
                case MessageStarted(parent_tool_use_id=str(call)):
                    self._running.add(call)
                case ToolResult(tool_use_id=call):
                    self._running.discard(call)

    def take(self, child: ChildProcess, message: Message) -> bool:
        """Act on a message about a question; return False for any other message."""
        match message:
            case ControlRequest(request_id, "can_use_tool", request):
                question = Question(
                    str(request.get("tool_use_id") or ""), request.get("agent_id") or None
                )
                self._open[request_id] = question
                question.task = asyncio.create_task(
                    self._answer(child, request_id, question, request), name="approval"
                )
                self._changed()
                return True
            case Other("control_cancel_request", {"request_id": str(request_id)}):
                # The turn was interrupted: the program does not wait any more.
                withdrawn = self._open.pop(request_id, None)
                if withdrawn is not None:
                    withdrawn.task.cancel()
                    task = asyncio.create_task(self._withdraw(withdrawn.tool_use_id))
                    self._withdrawals.add(task)
                    task.add_done_callback(self._withdrawals.discard)
                    self._changed()
                return True
        return False

    def abandon(self) -> None:
        """Stop waiting. The approvals stay pending."""
        for question in self._open.values():
            question.task.cancel()

    async def close(self) -> None:
        """Stop waiting, and return when all tasks have ended."""
        self.abandon()
        tasks = [*(question.task for question in self._open.values()), *self._withdrawals]
        if tasks:
            await asyncio.wait(tasks)
        self._open.clear()

    async def _answer(
        self, child: ChildProcess, request_id: str, question: Question, request: dict[str, Any]
    ) -> None:
        try:
            await self._before_asking(question.tool_use_id)
            answer = await self._decide(question, request)
            question.is_answered = True
            if answer.behavior == "allow":
                if await self._start(answer):
                    self._running.add(question.tool_use_id)
                else:
                    answer = Answer("deny", UNKNOWN_OUTCOME)
            await process.respond(child, request_id, answer.response())
        except HubError as error:
            # The program has ended or does not read; its chat ends for that reason.
            log.warning("an answer did not reach the agent: %s", error.message)
        finally:
            self.last_answer = time.monotonic()
            self._open.pop(request_id, None)
            self._changed()

    async def _decide(self, question: Question, request: dict[str, Any]) -> Answer:
        tool_input = request.get("input")
        params: dict[str, Any] = {
            "tool_name": str(request.get("tool_name") or ""),
            "input": tool_input if isinstance(tool_input, dict) else {},
            "tool_use_id": question.tool_use_id,
        }
        if question.agent_id is not None:
            params["agent_id"] = question.agent_id
        try:
            with self._host.acting(self._session):
                decision = await self._host.call_one("loopback.permit", **params)
        except HubError as error:
            await self._withdraw(question.tool_use_id, f"the hub could not ask: {error.message}")
            return Answer("deny", f"The call could not be approved: {error.message}")
        return Answer(
            decision["behavior"],
            decision.get("message") or "",
            decision.get("updatedInput"),
            decision.get("approval_id") or "",
        )

    async def _start(self, answer: Answer) -> bool:
        """Note that a call starts. Return False if it has started before: it runs only once."""
        row = await store.look_up(self._db, answer.approval_id)
        return bool(await self._write(lambda tx: store.start_call(tx, row.key)))

    async def _withdraw(self, tool_use_id: str, reason: str = "the turn ended") -> None:
        now = int(time.time())

        def withdraw(tx: Tx) -> None:
            row = store.newest_of_call(tx, self._stream, tool_use_id)
            if row is not None:
                store.resolve(tx, row, Resolution("withdrawn", "hub", reason), now)

        await self._write(withdraw)
