"""One tool call, from its arguments to its result: waiting, questions, cancellation.

The call itself runs in a task that the daemon owns, and may outlive the request that started it:
since protocol 2026-07-28 a question ends the request, and the answer comes with the next one.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from hubd.errors import HubError, Overloaded, Unavailable
from hubd.mcp.access import Access
from hubd.mcp.caller import Caller, Ctx, Reporter, Signal, access_of, unanswerable
from hubd.mcp.questions import answer_of, form_of
from hubd.mcp.results import Collected, tool_result
from hubd.mcp.spool import MAX_RESULT_BYTES, Spool
from hubd.mcp.tools import HubTool
from hubd.mcp.transports.delivery import Delivery
from hubd.plexus.dispatch import Call
from hubd.rpc.calls import RunningCall
from hubd.rpc.clients import Clients
from hubd.wire.item import Done, Guidance, Request, RequestClosed
from hubd.wire.lazy_dataclass import dataclass

log = logging.getLogger("hubd.transport")

# The limit of concurrent calls of all MCP clients together.
MAX_CALLS: Final = 1024
# Seconds that a call may take without the SDK, which notices if its client disconnects.
SOON_SECONDS: Final = 0.1
# Seconds that a question waits for the request with its answer.
PARKED_SECONDS: Final = 600.0
# How many times a question is asked if its answers are invalid.
MAX_ATTEMPTS: Final = 3
# Characters kept of a client's own error message.
MAX_REASON: Final = 1000
# The name of the only question in a result that asks for input.
QUESTION: Final = "answer"

NOT_A_FORM: Final = Guidance(
    b"", "cancelled", "This question needs a client made for the plugin, so it was cancelled", []
)

NOT_WAITING: Final = "no call waits for this answer: it has ended, or the daemon was restarted"

ToolAnswer = CallToolResult | InputRequiredResult


@dataclass
class _Question:
    """A question of a call that is not answered yet."""

    request: Request
    form: ElicitRequestFormParams
    # The number of invalid answers so far.
    attempts: int = 0


@dataclass
class Run:
    """A call, which may outlive the request that started it."""

    tool: HubTool
    caller: Caller
    # None if the call failed at once.
    running: RunningCall | None
    # A signal that `ends_soon` took, for the request that follows the call.
    signal: Signal | None = None
    # Whether a request waits for the end of the call, or did.
    is_followed: bool = False
    # While it is parked: its question, and the timer that cancels it without an answer.
    question: _Question | None = None
    expiry: asyncio.TimerHandle | None = None

    async def ends_soon(self, *, reports: bool) -> bool:
        """Wait for a moment; return whether the call has ended, and its result is complete.

        Args:
            reports: Whether the client wants progress, so that the first event ends the wait.
        """
        caller = self.caller
        # The call has begun before this continues, and most calls never wait.
        await asyncio.sleep(0)
        if caller.signals.empty():
            with suppress(TimeoutError):
                async with asyncio.timeout(SOON_SECONDS):
                    await caller.wait_for_signal(or_event=reports)
        if caller.signals.empty():
            return False
        self.signal = caller.signals.get_nowait()
        return isinstance(self.signal, Done)

    async def next_signal(self) -> Signal:
        """Return the next question, the withdrawal of one, or the end of the call."""
        signal, self.signal = self.signal, None
        return signal if signal is not None else await self.caller.signals.get()

    def complete(self, delivery: Delivery) -> Collected:
        """Return the events of the call, which has ended.

        Args:
            delivery: Reports whether the response with the events was sent.
        """
        self.is_followed = True
        self.caller.finish(delivery)
        return self.caller.collected

    def abandon(self) -> None:
        """End the call if its request ended before it waited for the call."""
        if not self.is_followed:
            self.end("the client cancelled the call")

    def end(self, reason: str) -> None:
        """Cancel the call and drop its result."""
        if self.running is not None:
            self.running.cancel(reason)
        self.caller.collected.discard()


class ToolCalls:
    """The tool calls of all MCP clients."""

    def __init__(self, clients: Clients, spool: Spool) -> None:
        self._clients = clients
        self._spool = spool
        self._active = 0
        # Calls that wait for a request with an answer; the oldest first.
        self._parked: dict[str, Run] = {}
        # Tasks that ask clients of the older protocol.
        self._asking: set[asyncio.Task[None]] = set()

    async def call(
        self,
        ctx: Ctx,
        tool: HubTool,
        arguments: Mapping[str, Any],
        access: Access,
    ) -> ToolAnswer:
        """Call a method, or follow the call that was begun. Cancelling this cancels the method."""
        run = access.begun
        if not isinstance(run, Run):
            run = self.begin(tool, arguments, access, ctx.session.client_capabilities)
        return await self._follow(ctx, run)

    def begin(
        self,
        tool: HubTool,
        arguments: Mapping[str, Any],
        access: Access,
        capabilities: ClientCapabilities | None,
    ) -> Run:
        """Start the call of a method.

        Args:
            tool: The method.
            arguments: Its arguments.
            access: The access of the client.
            capabilities: The parts of the protocol that the client supports.
        """
        # A text-only result has no place for a link to the rest.
        collected = Collected(None, MAX_RESULT_BYTES) if tool.text_only else Collected(self._spool)
        caller = Caller(access, collected, unanswerable(capabilities), tool.summaries)
        running = self._start(tool.path, arguments, caller, large=access.large)
        return Run(tool, caller, running)

    async def collect(self, path: str, arguments: Mapping[str, Any], access: Access) -> Collected:
        """Return all events of a method that is read as a resource; it cannot ask questions."""
        unanswerable = "a method that is read as a resource cannot ask questions"
        caller = Caller(access, Collected(self._spool), unanswerable, {})
        running = self._start(path, arguments, caller)
        try:
            while running is not None and not isinstance(await caller.signals.get(), Done):
                pass
        except asyncio.CancelledError:
            assert running is not None
            running.cancel("the client cancelled the call")
            caller.collected.discard()
            raise
        caller.finish()
        return caller.collected

    def _start(
        self,
        path: str,
        arguments: Mapping[str, Any],
        caller: Caller,
        *,
        large: bool = False,
    ) -> RunningCall | None:
        """Start a call; return None if it failed at once."""
        call = Call(self._clients.hub, path, arguments, caller, large=large)
        refusal: HubError | None = None
        if self._clients.closing:
            refusal = Unavailable("the daemon is stopping")
        elif self._active >= MAX_CALLS:
            refusal = Overloaded(f"MCP clients already run {MAX_CALLS} calls, the most at once")
        if refusal is not None:
            call.fail(refusal)
            return None
        self._active += 1
        return self._clients.calls.start(call, self._count_down)

    async def resume(self, ctx: Ctx, state: str, responses: InputResponses | None) -> ToolAnswer:
        """Continue a call with the answer to its question.

        Raises:
            MCPError: No call waits for this answer.
        """
        run = self._unpark(state)
        if run is None:
            raise MCPError(
                INVALID_PARAMS,
                "no call waits for this answer: it has ended, or the daemon was restarted",
            )
        question = run.question
        assert question is not None
        response = (responses or {}).get(QUESTION)
        answer = response if isinstance(response, ElicitResult) else None
        if self._answer(run, question, answer):
            return await self._follow(ctx, run)
        return self._park(run, question)

    def close(self) -> None:
        """End all calls that wait for an answer."""
        for state in list(self._parked):
            self._expire(state)
        for task in self._asking:
            task.cancel()

    def _count_down(self, ended: RunningCall) -> None:
        self._active -= 1

    async def _follow(self, ctx: Ctx, run: Run) -> ToolAnswer:
        """Wait for the end of a call, or for a question that ends this request."""
        caller, reporter = run.caller, Reporter(ctx, run.caller)
        run.is_followed = True
        asking: asyncio.Task[None] | None = None
        asked = ""
        try:
            while not isinstance(signal := await run.next_signal(), Done):
                if asking is not None and (
                    isinstance(signal, Request) or signal.request_id == asked
                ):
                    # The method no longer waits for the answer. A second cancellation would
                    # interrupt the notification of the client.
                    asking.cancel()
                    asking = None
                if isinstance(signal, RequestClosed):
                    continue
                asked = signal.request_id
                form = form_of(signal.request_data)
                if form is None:
                    caller.collected.advice.append(NOT_A_FORM)
                    self._decline(caller, signal)
                    continue
                question = _Question(signal, form)
                if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    await reporter.finish()
                    return self._park(run, question)
                asking = asyncio.create_task(self._ask(ctx, run, question))
                self._asking.add(asking)
                asking.add_done_callback(self._asking.discard)
            await reporter.finish()
            collected = run.complete(access_of(ctx).delivery)
            return tool_result(collected, text_only=run.tool.text_only)
        except BaseException:
            run.end("the client cancelled the call")
            raise
        finally:
            reporter.cancel()
            if asking is not None:
                asking.cancel()

    async def _ask(self, ctx: Ctx, run: Run, question: _Question) -> None:
        """Send a question to a client of the older protocol, and its answer to the method."""
        answered = False
        try:
            async with asyncio.timeout(question.request.timeout_ms / 1000):
                while not answered:
                    result = await _elicit(ctx, question.form)
                    answered = self._answer(run, question, result)
        except TimeoutError:
            pass  # the method has its own timeout
        except Exception as error:  # the method must not wait for the answer any longer
            reason = error.message[:MAX_REASON] if isinstance(error, MCPError) else ""
            if not reason:
                log.exception("elicitation failed")
            # The user has not declined, and the result must not look like it.
            advice = f"The MCP client failed to ask the user: {reason or 'see the log'}"
            run.caller.collected.advice.append(Guidance(b"", "cancelled", advice, []))
            self._answer(run, question, ElicitResult(action="cancel"))

    def _answer(self, run: Run, question: _Question, result: ElicitResult | None) -> bool:
        """Pass an answer to the method; return False if the question must be asked again."""
        questions, asked = self._clients.questions, question.request
        problem: str | None = "the request had no answer"
        if result is not None:
            answer = answer_of(asked.request_data, result)
            problem = questions.answer(asked.request_id, answer, run.caller.client.actor)
        if problem is None or not questions.waits(asked.request_id):
            return True
        question.attempts += 1
        if question.attempts >= MAX_ATTEMPTS:
            advice = f"No valid answer after {MAX_ATTEMPTS} questions: {problem}"
            run.caller.collected.advice.append(Guidance(b"", "cancelled", advice, []))
            self._decline(run.caller, asked)
            return True
        form = form_of(asked.request_data, problem)
        assert form is not None
        question.form = form
        return False

    def _decline(self, caller: Caller, request: Request) -> None:
        declined = {"type": "cancelled"}
        self._clients.questions.answer(request.request_id, declined, caller.client.actor)

    def _park(self, run: Run, question: _Question) -> InputRequiredResult:
        if len(self._parked) >= MAX_CALLS:
            self._expire(next(iter(self._parked)))
        state = secrets.token_urlsafe(16)
        self._parked[state] = run
        run.question = question
        run.expiry = asyncio.get_running_loop().call_later(PARKED_SECONDS, self._expire, state)
        return InputRequiredResult(
            input_requests={QUESTION: ElicitRequest(params=question.form)}, request_state=state
        )

    def _unpark(self, state: str) -> Run | None:
        run = self._parked.pop(state, None)
        if run is not None and run.expiry is not None:
            run.expiry.cancel()
        return run

    def _expire(self, state: str) -> None:
        run = self._unpark(state)
        if run is not None:
            run.end("the client did not answer the question in time")


async def _elicit(ctx: Ctx, form: ElicitRequestFormParams) -> ElicitResult | None:
    """Return the client's answer; None if it is malformed."""
    try:
        return await ctx.session.elicit_form(
            form.message, form.requested_schema, related_request_id=ctx.request_id
        )
    except ValidationError:
        return None
