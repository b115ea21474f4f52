"""The caller of a tool call: collects the items, and reports progress to the client."""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp_types import ClientCapabilities, Implementation

from hubd.mcp.access import ACCESS, Access
from hubd.mcp.progress import MAX_MESSAGE, Message, Meter, one_line
from hubd.mcp.results import Collected, printable
from hubd.mcp.transports.delivery import Delivery
from hubd.wire.item import Data, Done, Error, Guidance, Item, Progress, Request, RequestClosed

log = logging.getLogger("hubd.transport")

# Clients time out on a silent call; the shortest timeout in use is one minute.
HEARTBEAT_SECONDS: Final = 10.0

Ctx = ServerRequestContext[Any, Any]
# A question of a call, the withdrawal of one, or the end of the call.
Signal = Request | RequestClosed | Done


def access_of(ctx: Ctx) -> Access:
    """Return the access of a request, with the name of its client."""
    request: Any = ctx.request
    access: Access = request if isinstance(request, Access) else request.scope[ACCESS]
    params = ctx.session.client_params
    return access if params is None else with_name(access, params.client_info)


def with_name(access: Access, info: Implementation) -> Access:
    """Return the access with the name of the client."""
    return replace(access, client=replace(access.client, name=info.name, version=info.version))


def unanswerable(capabilities: ClientCapabilities | None) -> str | None:
    """Return why a client with these capabilities cannot answer questions; None if it can."""
    asking = capabilities.elicitation if capabilities is not None else None
    # An empty capability means forms: older clients know no other kind.
    if asking is not None and (asking.form is not None or asking.url is None):
        return None
    return (
        "this method asks a question, and this MCP client does not support elicitation. "
        "Call the method with synapse or over the WebSocket"
    )


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
        self.signals: asyncio.Queue[Signal] = asyncio.Queue()
        self.meter = Meter(time.monotonic(), HEARTBEAT_SECONDS)
        # Set when the meter has a new report, and at each signal.
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
            self._signal(item)
        else:
            self.post(item)

    def post(self, *items: Item) -> None:
        for item in items:
            if isinstance(item, Guidance):
                self.collected.advice.append(item)
            elif isinstance(item, Error):
                self.collected.error = item
            elif isinstance(item, RequestClosed | Done):
                self._signal(item)

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        self._sent = handed_over
        # The method has ended and its result is complete. The call ends when it is sent.
        self._signal(Done(b""))

    async def wait_for_signal(self, *, or_event: bool) -> None:
        """Wait until there is a signal, or also until the first event."""
        while self.signals.empty() and not (or_event and self.meter.has_news):
            self.updated.clear()
            await self.updated.wait()

    def finish(self, delivery: Delivery | None = None) -> None:
        """Report the delivery of the complete result; None if the hub itself takes it."""
        if self._sent is None or self._sent.done():
            return
        if delivery is None:
            self._sent.set_result(True)
        else:
            delivery.report_to(self._sent)

    def _signal(self, signal: Signal) -> None:
        self.signals.put_nowait(signal)
        self.updated.set()

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
