"""The caller of a tool call: collects the items, and reports progress to the client."""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from mcp.server import ServerRequestContext

from hubd.mcp.access import ACCESS, Access
from hubd.mcp.progress import MAX_MESSAGE, Message, Meter, one_line
from hubd.mcp.results import Collected, printable
from hubd.mcp.transports.delivery import Delivery
from hubd.wire.item import Data, Done, Error, Guidance, Item, Progress, Request, RequestClosed

log = logging.getLogger("hubd.transport")

# Clients time out on a silent call; the shortest timeout in use is one minute.
HEARTBEAT_SECONDS: Final = 10.0

Ctx = ServerRequestContext[Any, Any]


def access_of(ctx: Ctx) -> Access:
    """Return the access of a request, with the name of its client."""
    request: Any = ctx.request
    access: Access = request if isinstance(request, Access) else request.scope[ACCESS]
    params = ctx.session.client_params
    if params is None:
        return access
    info = params.client_info
    return replace(access, client=replace(access.client, name=info.name, version=info.version))


class Caller:
    """The caller of one tool call, as the hub sees it."""

    # Events go through `send`, which collects them.
    has_room = False

    def __init__(
        self,
        access: Access,
        collected: Collected,
        unanswerable: str | None,
        summaries: Mapping[str, str],
    ) -> None:
        self.client = access.client
        self.context = access.context
        self.unanswerable = unanswerable
        self.collected = collected
        # Templates of the events' lines, by event type.
        self._summaries = summaries
        # Questions, and the end of the call, for the request that waits for them.
        self.signals: asyncio.Queue[Request | RequestClosed | Done] = asyncio.Queue()
        self.meter = Meter(time.monotonic(), HEARTBEAT_SECONDS)
        # Set when the meter has a new report.
        self.updated = asyncio.Event()
        self.offers = access.offers
        # Resolved when the result was sent; None if the method does not wait for that.
        self._sent: asyncio.Future[bool] | None = None

    async def send(self, item: Item) -> None:
        if isinstance(item, Data):
            self.collected.add(item.content)
            content, content_type = item.content, item.content_type
            self._note(lambda: one_line(content, content_type, self._summaries))
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
        elif isinstance(item, RequestClosed | Done):
            self.signals.put_nowait(item)

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        self._sent = handed_over
        # The method has ended and its result is complete. The call ends when it is sent.
        self.signals.put_nowait(Done(b""))

    def finish(self, delivery: Delivery | None = None) -> None:
        """Report the delivery of the complete result; None if the hub itself takes it."""
        if self._sent is None or self._sent.done():
            return
        if delivery is None:
            self._sent.set_result(True)
        else:
            delivery.report_to(self._sent)

    def _note(self, message: Message, percentage: float | None = None) -> None:
        self.meter.note(message, percentage)
        self.updated.set()


class Reporter:
    """Reports the progress of a call to one request.

    It runs in a separate task, so that a slow client delays its reports and not the method.
    """

    def __init__(self, ctx: Ctx, caller: Caller) -> None:
        self._session = ctx.session
        self._caller = caller
        # Set when the request is about to be answered.
        self._finishing = asyncio.Event()
        wanted = ctx.meta is not None and ctx.meta.get("progress_token") is not None
        self._task = asyncio.create_task(self._run()) if wanted else None

    async def finish(self) -> None:
        """Send the last report, if it was held back."""
        self._finishing.set()
        self._caller.updated.set()
        if self._task is not None:
            await self._task

    def cancel(self) -> None:
        """Send no more reports."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        meter, updated, finishing = self._caller.meter, self._caller.updated, self._finishing
        try:
            while not finishing.is_set() or meter.has_news:
                updated.clear()
                pause = meter.wait(time.monotonic())
                if pause > 0.0 and not finishing.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await (finishing if meter.has_news else updated).wait()
                    continue
                report = meter.take(time.monotonic())
                await self._session.report_progress(report.progress, report.total, report.message)
        except Exception:  # the call itself goes on
            log.exception("cannot report the progress of a call")
