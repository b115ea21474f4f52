"""One tool call, from its arguments to its result: waits, asks, cancels.

The call itself runs in a task that the daemon owns. Whoever waits for it here may be a new
request each time: since 2026-07-28 a question to the user ends the request, and the answer
comes with the next one.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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
from pydantic import ValidationError

from hubd.errors import HubError, Overloaded, Unavailable
from hubd.mcp.access import Facts
from hubd.mcp.caller import Caller, Ctx, Reporter, facts_of
from hubd.mcp.questions import answer_of, form_of
from hubd.mcp.results import Collected, tool_result
from hubd.mcp.spool import MAX_RESULT_BYTES, Spool
from hubd.mcp.tools import HubTool
from hubd.plexus.dispatch import Call
from hubd.plexus.large import Source
from hubd.rpc.calls import RunningCall
from hubd.rpc.clients import Clients
from hubd.wire.item import Done, Guidance, Request

log = logging.getLogger("hubd.transport")

# All MCP clients together may run this many calls at once.
MAX_CALLS: Final = 1024
# How long a question waits for the request that brings its answer.
PARKED_SECONDS: Final = 600.0
# How often a question is asked that is answered with something that does not fit.
MAX_ATTEMPTS: Final = 3
# Of what a client says of its own failure to ask.
MAX_REASON: Final = 1000
# The name of the one question in a result that asks for input.
QUESTION: Final = "answer"

NOT_A_FORM: Final = Guidance(
    b"", "cancelled", "Only a client made for this plugin can answer what it asked", []
)

ToolAnswer = CallToolResult | InputRequiredResult


@dataclass
class _Question:
    """What a call asked, until it is answered."""

    request: Request
    form: ElicitRequestFormParams
    # Answers so far that did not fit.
    attempts: int = 0


@dataclass
class _Run:
    """A call under way, which may outlive the request that started it."""

    tool: HubTool
    caller: Caller
    running: RunningCall
    # While it is parked: what it asked, and what ends it if nobody answers.
    question: _Question | None = None
    expiry: asyncio.TimerHandle | None = None

    def end(self, reason: str) -> None:
        self.running.cancel(reason)
        self.caller.collected.discard()


class ToolCalls:
    """The tool calls of all MCP clients."""

    def __init__(self, clients: Clients, spool: Spool) -> None:
        self._clients = clients
        self._spool = spool
        self._active = 0
        # Calls whose question waits for the request that answers it; the oldest first.
        self._parked: dict[str, _Run] = {}
        # Questions that clients of the older protocol are being asked.
        self._asking: set[asyncio.Task[None]] = set()

    async def call(
        self,
        ctx: Ctx,
        tool: HubTool,
        arguments: Mapping[str, Any],
        facts: Facts,
        source: Source | None = None,
    ) -> ToolAnswer:
        """Call a method. Cancelling this cancels the method."""
        # A lone text block cannot say where the rest is.
        collected = Collected(None, MAX_RESULT_BYTES) if tool.text_only else Collected(self._spool)
        caller = Caller(facts, collected, _unanswerable(ctx))
        running = self._start(tool.path, arguments, caller, source)
        if running is None:
            return tool_result(collected)
        return await self._follow(ctx, _Run(tool, caller, running))

    async def collect(self, path: str, arguments: Mapping[str, Any], facts: Facts) -> Collected:
        """Everything a method yields, for whoever is not a tool call; nobody can be asked."""
        caller = Caller(facts, Collected(self._spool), "a resource cannot ask anything")
        running = self._start(path, arguments, caller)
        try:
            while running is not None and not isinstance(await caller.signals.get(), Done):
                pass
        except asyncio.CancelledError:
            assert running is not None
            running.cancel("the client cancelled the call")
            caller.collected.discard()
            raise
        caller.taken()
        return caller.collected

    def _start(
        self,
        path: str,
        arguments: Mapping[str, Any],
        caller: Caller,
        source: Source | None = None,
    ) -> RunningCall | None:
        """Start a call, or fail it at once."""
        call = Call(self._clients.hub, path, arguments, caller, source)
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
        run = self._unpark(state)
        if run is None:
            raise MCPError(INVALID_PARAMS, "no call waits for this answer any more")
        question = run.question
        assert question is not None
        given = (responses or {}).get(QUESTION)
        if self._answer(run, question, given if isinstance(given, ElicitResult) else None):
            return await self._follow(ctx, run)
        return self._park(run, question)

    def close(self) -> None:
        """Nobody will answer any more."""
        for state in list(self._parked):
            self._expire(state)
        for task in self._asking:
            task.cancel()

    def _one_less(self) -> None:
        self._active -= 1

    async def _follow(self, ctx: Ctx, run: _Run) -> ToolAnswer:
        """Wait for the end of a call, or for a question that this request cannot carry."""
        caller, reporter = run.caller, Reporter(ctx, run.caller)
        asking: asyncio.Task[None] | None = None
        try:
            while not isinstance(signal := await caller.signals.get(), Done):
                if asking is not None:
                    asking.cancel()  # the method has gone on without the answer
                form = form_of(signal.request_data)
                if form is None:
                    caller.collected.advice.append(NOT_A_FORM)
                    self._clients.questions.answer(signal.request_id, {"type": "cancelled"})
                    continue
                question = _Question(signal, form)
                if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    await reporter.finish()
                    return self._park(run, question)
                asking = asyncio.create_task(self._ask(ctx, run, question))
                self._asking.add(asking)
                asking.add_done_callback(self._asking.discard)
            await reporter.finish()
            caller.taken(facts_of(ctx).delivery)
            return tool_result(caller.collected, text_only=run.tool.text_only)
        except BaseException:
            run.end("the client cancelled the call")
            raise
        finally:
            reporter.cancel()
            if asking is not None:
                asking.cancel()

    async def _ask(self, ctx: Ctx, run: _Run, question: _Question) -> None:
        """Ask a client of the older protocol, which takes requests within its own."""
        answered = False
        try:
            async with asyncio.timeout(question.request.timeout_ms / 1000):
                while not answered:
                    result = await _elicit(ctx, question.form)
                    answered = self._answer(run, question, result)
        except TimeoutError:
            pass  # the method knows by itself
        except Exception as error:  # whatever it was, the method must not wait for the answer
            reason = error.message[:MAX_REASON] if isinstance(error, MCPError) else ""
            if not reason:
                log.exception("a client could not be asked")
            # Nobody declined, and whoever reads the result should not think so.
            advice = f"The MCP client failed when it was asked: {reason or 'see the log'}"
            run.caller.collected.advice.append(Guidance(b"", "cancelled", advice, []))
            self._answer(run, question, ElicitResult(action="cancel"))

    def _answer(self, run: _Run, question: _Question, result: ElicitResult | None) -> bool:
        """Hand an answer to the method; False if it must be asked for once more."""
        questions, asked = self._clients.questions, question.request
        problem: str | None = "there was no answer to the question"
        if result is not None:
            answer = answer_of(asked.request_data, result)
            problem = questions.answer(asked.request_id, answer)
        if problem is None or not questions.waits(asked.request_id):
            return True
        question.attempts += 1
        if question.attempts >= MAX_ATTEMPTS:
            advice = f"It was asked {MAX_ATTEMPTS} times, and no answer did fit: {problem}"
            run.caller.collected.advice.append(Guidance(b"", "cancelled", advice, []))
            questions.answer(asked.request_id, {"type": "cancelled"})
            return True
        form = form_of(asked.request_data, problem)
        assert form is not None
        question.form = form
        return False

    def _park(self, run: _Run, question: _Question) -> InputRequiredResult:
        if len(self._parked) >= MAX_CALLS:
            self._expire(next(iter(self._parked)))
        state = secrets.token_urlsafe(16)
        self._parked[state] = run
        run.question = question
        run.expiry = asyncio.get_running_loop().call_later(PARKED_SECONDS, self._expire, state)
        return InputRequiredResult(
            input_requests={QUESTION: ElicitRequest(params=question.form)}, request_state=state
        )

    def _unpark(self, state: str) -> _Run | None:
        run = self._parked.pop(state, None)
        if run is not None and run.expiry is not None:
            run.expiry.cancel()
        return run

    def _expire(self, state: str) -> None:
        run = self._unpark(state)
        if run is not None:
            run.end("the client did not come back with an answer")


async def _elicit(ctx: Ctx, form: ElicitRequestFormParams) -> ElicitResult | None:
    """What the client answers; None if that is no answer at all."""
    try:
        return await ctx.session.elicit_form(
            form.message, form.requested_schema, related_request_id=ctx.request_id
        )
    except ValidationError:
        return None


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
