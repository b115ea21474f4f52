"""One tool call, from its arguments to its result: collects, reports, asks, cancels.

The call itself runs in a task that the daemon owns. Whoever waits for it here may be a new
request each time: since 2026-07-28 a question to the user ends the request, and the answer
comes with the next one.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hubd.errors import HubError, Overloaded, Unavailable
from hubd.plexus.dispatch import Call
from hubd.transport.clients import Clients
from hubd.transport.mcp_facts import Facts, offered
from hubd.transport.mcp_progress import Meter, Report, one_line
from hubd.transport.mcp_questions import answer_of, form_of
from hubd.transport.mcp_results import INLINE_BYTES, Collected, tool_result
from hubd.transport.mcp_spool import MAX_RESULT_BYTES, Spool
from hubd.transport.mcp_tools import HubTool
from hubd.transport.running import RunningCall
from hubd.wire.item import Data, Done, Error, Guidance, Item, Progress, Request

# All MCP clients together may run this many calls at once.
MAX_CALLS: Final = 1024
# Clients give up on a call that says nothing; the shortest patience known is a minute.
HEARTBEAT_SECONDS: Final = 10.0
# How long a question waits for the request that brings its answer.
PARKED_SECONDS: Final = 600.0
# The name of the one question in a result that asks for input.
QUESTION: Final = "answer"

NOT_A_FORM: Final = Guidance(
    b"", "cancelled", "Only a client made for this plugin can answer what it asked", []
)

Ctx = ServerRequestContext[Any, Any]
ToolAnswer = CallToolResult | InputRequiredResult


class _Caller:
    """The caller of one tool call, as the hub sees it."""

    def __init__(self, facts: Facts, collected: Collected, unanswerable: str | None) -> None:
        self.client = facts.client
        self.context = facts.context
        self.unanswerable = unanswerable
        self.collected = collected
        # What whoever waits for the call must act upon: a question, or the end.
        self.signals: asyncio.Queue[Request | Done] = asyncio.Queue()
        # Sends a report to the request that waits now; None while none does.
        self.report: Callable[[Report], Awaitable[None]] | None = None
        self._profile = facts.profile
        self._meter = Meter()

    def allows(self, namespace: str, method: str) -> bool:
        return offered(namespace, self._profile)

    async def send(self, item: Item) -> None:
        if isinstance(item, Data):
            self.collected.add(item.content)
            await self.tell(lambda: one_line(item.content, item.content_type))
        elif isinstance(item, Progress):
            await self.tell(lambda: item.message, item.percentage)
        elif isinstance(item, Request):
            self.signals.put_nowait(item)
        else:
            self.post(item)

    def post(self, item: Item) -> None:
        if isinstance(item, Guidance):
            self.collected.advice.append(item)
        elif isinstance(item, Error):
            self.collected.error = item
        elif isinstance(item, Done):
            self.signals.put_nowait(item)

    async def tell(self, message: Callable[[], str], percentage: float | None = None) -> None:
        """Report that the call goes on, unless that was just done."""
        if self.report is not None:
            await self._send(self._meter.offer(time.monotonic(), message(), percentage))

    async def tell_last(self) -> None:
        """Report what was held back."""
        await self._send(self._meter.last(time.monotonic()))

    async def _send(self, report: Report | None) -> None:
        if report is not None and self.report is not None:
            await self.report(report)


@dataclass
class _Run:
    """A call under way, which may outlive the request that started it."""

    tool: HubTool
    caller: _Caller
    running: RunningCall
    # Set while the client is being asked.
    question: Request | None = None

    def end(self, reason: str) -> None:
        self.running.cancel(reason)
        self.caller.collected.discard()


class ToolCalls:
    """The tool calls of all MCP clients."""

    def __init__(self, clients: Clients, spool: Spool) -> None:
        self._clients = clients
        self._spool = spool
        self._active = 0
        # Calls whose question waits for the request that answers it.
        self._parked: dict[str, _Run] = {}

    async def call(
        self, ctx: Ctx, tool: HubTool, arguments: Mapping[str, Any], facts: Facts
    ) -> ToolAnswer:
        """Call a method. Cancelling this cancels the method."""
        room = MAX_RESULT_BYTES if tool.text_only else INLINE_BYTES
        caller = _Caller(facts, Collected(self._spool, room), _unanswerable(ctx))
        running = self._start(tool.path, arguments, caller)
        if running is None:
            return tool_result(caller.collected)
        return await self._follow(ctx, _Run(tool, caller, running))

    async def collect(self, path: str, arguments: Mapping[str, Any], facts: Facts) -> Collected:
        """Everything a method yields, for whoever is not a tool call; nobody can be asked."""
        caller = _Caller(facts, Collected(self._spool), "a resource cannot ask anything")
        running = self._start(path, arguments, caller)
        try:
            while running is not None and not isinstance(await caller.signals.get(), Done):
                pass
        except asyncio.CancelledError:
            assert running is not None
            running.cancel("the client cancelled the call")
            caller.collected.discard()
            raise
        return caller.collected

    def _start(
        self, path: str, arguments: Mapping[str, Any], caller: _Caller
    ) -> RunningCall | None:
        """Start a call, or fail it at once."""
        call = Call(self._clients.hub, path, arguments, caller)
        refusal: HubError | None = None
        if self._clients.closing:
            refusal = Unavailable("the daemon is stopping")
        elif self._active >= MAX_CALLS:
            refusal = Overloaded(f"{MAX_CALLS} calls are running already")
        if refusal is not None:
            call.fail(refusal)
            return None
        self._active += 1
        return self._clients.calls.start(call, self._one_less)

    async def resume(self, ctx: Ctx, state: str, responses: InputResponses | None) -> ToolAnswer:
        """Go on with a call that asked something.

        Raises:
            MCPError: No call waits under this state.
        """
        run = self._parked.pop(state, None)
        if run is None:
            raise MCPError(INVALID_PARAMS, "no call waits for this answer any more")
        given = (responses or {}).get(QUESTION)
        result = given if isinstance(given, ElicitResult) else ElicitResult(action="cancel")
        again = self._answer(run, result)
        return self._park(run, again) if again is not None else await self._follow(ctx, run)

    def close(self) -> None:
        """Nobody will answer any more."""
        for state in list(self._parked):
            self._expire(state)

    def _one_less(self) -> None:
        self._active -= 1

    async def _follow(self, ctx: Ctx, run: _Run) -> ToolAnswer:
        """Wait for the end of a call, or for a question that this request cannot carry."""
        caller = run.caller
        caller.report = lambda report: ctx.session.report_progress(
            report.progress, report.total, report.message
        )
        try:
            while True:
                signal = await _next(caller)
                if isinstance(signal, Done):
                    await caller.tell_last()
                    return tool_result(caller.collected, text_only=run.tool.text_only)
                run.question = signal
                form = form_of(signal.request_data)
                if form is None:
                    caller.collected.advice.append(NOT_A_FORM)
                    self._clients.questions.answer(signal.request_id, {"type": "cancelled"})
                elif ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    return self._park(run, form)
                else:
                    await self._ask(ctx, run, form)
        except asyncio.CancelledError:
            run.end("the client cancelled the call")
            raise
        finally:
            caller.report = None

    async def _ask(self, ctx: Ctx, run: _Run, form: ElicitRequestFormParams) -> None:
        """Ask a client of the older protocol, which takes requests within its own."""
        assert run.question is not None
        again: ElicitRequestFormParams | None = form
        try:
            async with asyncio.timeout(run.question.timeout_ms / 1000):
                while again is not None:
                    result = await ctx.session.elicit_form(
                        again.message, again.requested_schema, related_request_id=ctx.request_id
                    )
                    again = self._answer(run, result)
        except TimeoutError:
            pass  # the method knows by itself
        except MCPError:
            self._answer(run, ElicitResult(action="cancel"))

    def _answer(self, run: _Run, result: ElicitResult) -> ElicitRequestFormParams | None:
        """Hand an answer to the method; returns the form to show again if it does not fit."""
        question = run.question
        assert question is not None
        answer = answer_of(question.request_data, result)
        problem = self._clients.questions.answer(question.request_id, answer)
        if problem is None or not self._clients.questions.waits(question.request_id):
            run.question = None
            return None
        form = form_of(question.request_data)
        assert form is not None
        return form.model_copy(update={"message": f"{form.message} ({problem})"})

    def _park(self, run: _Run, form: ElicitRequestFormParams) -> InputRequiredResult:
        state = secrets.token_urlsafe(16)
        self._parked[state] = run
        asyncio.get_running_loop().call_later(PARKED_SECONDS, self._expire, state)
        return InputRequiredResult(
            input_requests={QUESTION: ElicitRequest(params=form)}, request_state=state
        )

    def _expire(self, state: str) -> None:
        run = self._parked.pop(state, None)
        if run is not None:
            run.end("the client did not come back with an answer")


async def _next(caller: _Caller) -> Request | Done:
    """What comes next; meanwhile the client learns that the call is alive."""
    while True:
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                return await caller.signals.get()
        except TimeoutError:
            await caller.tell(lambda: "still running")


def _unanswerable(ctx: Ctx) -> str | None:
    """Why the client cannot be asked anything; None if it can."""
    capabilities = ctx.session.client_capabilities
    asking = capabilities.elicitation if capabilities is not None else None
    # An empty capability is that of the time before there was more than forms.
    if asking is not None and (asking.form is not None or asking.url is None):
        return None
    return (
        "this method asks its caller, and this MCP client cannot be asked: it does not support "
        "elicitation. Call the method with synapse or over the WebSocket"
    )
