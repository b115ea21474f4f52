"""Who the hub sees behind a tool call: takes its items, and tells the client how it goes on."""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from mcp.server import ServerRequestContext

from hubd.mcp.access import FACTS, Facts
from hubd.mcp.delivery import Delivery
from hubd.mcp.progress import MAX_MESSAGE, Message, Meter, one_line
from hubd.mcp.results import Collected, printable
from hubd.wire.item import Data, Done, Error, Guidance, Item, Progress, Request

log = logging.getLogger("hubd.transport")

# Clients give up on a call that says nothing; the shortest patience known is a minute.
HEARTBEAT_SECONDS: Final = 10.0

Ctx = ServerRequestContext[Any, Any]


def facts_of(ctx: Ctx) -> Facts:
    """What is known of the connection a request came by, its client's name included."""
    request: Any = ctx.request
    facts: Facts = request if isinstance(request, Facts) else request.scope[FACTS]
    params = ctx.session.client_params
    if params is None:
        return facts
    info = params.client_info
    return replace(facts, client=replace(facts.client, name=info.name, version=info.version))


class Caller:
    """The caller of one tool call, as the hub sees it."""

    def __init__(self, facts: Facts, collected: Collected, unanswerable: str | None) -> None:
        self.client = facts.client
        self.context = facts.context
        self.unanswerable = unanswerable
        self.collected = collected
        # What whoever waits for the call must act upon: a question, or the end.
        self.signals: asyncio.Queue[Request | Done] = asyncio.Queue()
        self.meter = Meter(time.monotonic(), HEARTBEAT_SECONDS)
        # Set when the meter has news.
        self.stirred = asyncio.Event()
        self.allows = facts.allows
        # Set when the result is with the client, if the method wants to know.
        self.handed_over: asyncio.Future[bool] | None = None

    async def send(self, item: Item) -> None:
        if isinstance(item, Data):
            self.collected.add(item.content)
            content, content_type = item.content, item.content_type
            self._note(lambda: one_line(content, content_type))
        elif isinstance(item, Progress):
            message = item.message
            self._note(lambda: printable(message[:MAX_MESSAGE]), item.percentage)
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

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        self.handed_over = handed_over
        # The method has ended, so the result is complete; the call ends when it is sent.
        self.signals.put_nowait(Done(b""))

    def taken(self, delivery: Delivery | None = None) -> None:
        """The result is complete: it goes out with this answer, or is with the hub's own code."""
        if self.handed_over is None or self.handed_over.done():
            return
        if delivery is None:
            self.handed_over.set_result(True)
        else:
            delivery.report_to(self.handed_over)

    def _note(self, message: Message, percentage: float | None = None) -> None:
        self.meter.note(message, percentage)
        self.stirred.set()


class Reporter:
    """Tells one request how its call goes on.

    In a task of its own: a client that reads slowly holds up its reports, not the method.
    """

    def __init__(self, ctx: Ctx, caller: Caller) -> None:
        self._session = ctx.session
        self._caller = caller
        # Set when the request has waited long enough.
        self._enough = asyncio.Event()
        wanted = ctx.meta is not None and ctx.meta.get("progress_token") is not None
        self._task = asyncio.create_task(self._run()) if wanted else None

    async def finish(self) -> None:
        """Report what happened last and was held back."""
        self._enough.set()
        self._caller.stirred.set()
        if self._task is not None:
            await self._task

    def cancel(self) -> None:
        """Report nothing more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        meter, stirred, enough = self._caller.meter, self._caller.stirred, self._enough
        try:
            while not enough.is_set() or meter.has_news:
                stirred.clear()
                pause = meter.wait(time.monotonic())
                if pause > 0.0 and not enough.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await (enough if meter.has_news else stirred).wait()
                    continue
                report = meter.take(time.monotonic())
                await self._session.report_progress(report.progress, report.total, report.message)
        except Exception:  # the call itself is not harmed
            log.exception("the progress of a call cannot be reported")
