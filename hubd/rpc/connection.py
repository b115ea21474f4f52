"""The calls of one client: start them, cancel them, send their items. Independent of framing."""

import asyncio
from dataclasses import replace
from time import monotonic
from typing import Any, Final, Protocol

from hubd.errors import HubError, Overloaded, Unavailable
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plexus.questions import Questions
from hubd.rpc.calls import Calls, RunningCall
from hubd.rpc.session import Answer, Cancel, Reply, Session, Start
from hubd.wire import jsonrpc
from hubd.wire.caller import Actor, Client, Context, read_context
from hubd.wire.item import Done, Item

# Methods that write to the connection wait while more than this is unsent.
MAX_UNSENT_BYTES: Final = 1024 * 1024
# Concurrent calls of one client.
MAX_CALLS: Final = 1024

# The caller context of a call without one.
NO_CONTEXT: Final = Context()


class FrameWriter(Protocol):
    """Sends frames; each is one message."""

    @property
    def is_full(self) -> bool:
        """Whether `drain` would wait."""

    def write(self, *messages: bytes) -> None:
        """Queue messages; do nothing if the peer is gone."""

    def hold(self, *messages: bytes) -> None:
        """Queue messages that may wait a moment, to be sent together with the next ones."""

    def flush(self) -> None:
        """Send the queued frames now."""

    def flush_soon(self) -> None:
        """Send the queued frames in the next turn of the event loop."""

    async def drain(self) -> None:
        """Wait until less than `MAX_UNSENT_BYTES` are unsent, or the peer is gone."""

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        """Set the future when the kernel has taken all frames; to False if the peer is gone."""


class Connection:
    """The calls of one client."""

    def __init__(
        self,
        hub: Hub,
        questions: Questions,
        writer: FrameWriter,
        calls: Calls,
        client: Client,
        *,
        trusts_context: bool,
    ) -> None:
        self._hub = hub
        self._questions = questions
        self._writer = writer
        # The owner of the tasks, which may outlive the connection.
        self._all_calls = calls
        self._client = client
        self.transport = client.transport
        # The time of the last message, or of the end of the last call.
        self.idle_since = monotonic()
        self._trusts_context = trusts_context
        self._session = Session(hub.name)
        # Set when the daemon stops: running calls may finish, new ones are refused.
        self.stopping = False
        # The running calls by subscription. Each entry is removed when its task ends.
        self._calls: dict[int, RunningCall] = {}

    def set_actor(self, actor: Actor) -> None:
        """Set the actor of the calls that follow."""
        self._client = replace(self._client, actor=actor)

    def receive(self, message: bytes) -> None:
        """Act on one message from the client.

        Raises:
            TooLarge: The message exceeds a limit. The caller replies and closes the connection.
        """
        self.idle_since = monotonic()
        action = self._session.receive(message)
        if isinstance(action, Start):
            self._start(action)
        elif isinstance(action, Reply):
            self._writer.write(action.frame)
        elif isinstance(action, Cancel):
            is_running = self.cancel(action.subscription)
            problem = None if is_running else f"no call {action.subscription} is running"
            self._acknowledge(action.request, problem)
        elif isinstance(action, Answer):
            problem = self._questions.answer(action.request_id, action.data, self._client.actor)
            self._acknowledge(action.request, problem)

    @property
    def is_busy(self) -> bool:
        """Whether a call is running."""
        return bool(self._calls)

    def cancel(self, subscription: int) -> bool:
        """Cancel one call; return False if it is not running."""
        if subscription not in self._calls:
            return False
        self._calls[subscription].cancel()
        return True

    def cancel_all(self, reason: str) -> None:
        """Cancel all calls, because the client disconnected."""
        for running in list(self._calls.values()):
            running.cancel(reason)

    def _start(self, start: Start) -> None:
        context = NO_CONTEXT
        if start.context is not None and self._trusts_context:
            context = read_context(start.context)
        caller = _Subscriber(self._writer, start.subscription, context, self._client)
        call = Call(self._hub, start.method, start.params, caller, large=start.large)
        refusal: HubError | None = None
        if self.stopping:
            refusal = Unavailable("the daemon is stopping")
        elif len(self._calls) >= MAX_CALLS:
            refusal = Overloaded(f"{MAX_CALLS} calls are running on this connection already")
        if refusal is not None:
            self._writer.write(start.reply)
            call.fail(refusal)
            self._writer.flush_soon()
            return
        # Most calls end soon, so the reply and their items are one write.
        self._writer.hold(start.reply)
        self._calls[start.subscription] = self._all_calls.start(call, self._ended)

    def _ended(self, running: RunningCall) -> None:
        caller = running.call.caller
        assert isinstance(caller, _Subscriber)
        del self._calls[caller.subscription]
        self.idle_since = monotonic()
        if self._calls:
            # Others may end in this turn too, and share the write.
            self._writer.flush_soon()
        else:
            self._writer.flush()

    def _acknowledge(self, request: jsonrpc.Request, problem: str | None) -> None:
        if request.wants_reply:
            result: dict[str, Any] = {"success": problem is None}
            if problem is not None:
                result["message"] = problem
            self._writer.write(jsonrpc.success(request.id, result))


class _Subscriber:
    """The caller of one subscription; it writes items as frames."""

    __slots__ = ("_writer", "client", "context", "subscription")

    unanswerable = None

    def __init__(
        self, writer: FrameWriter, subscription: int, context: Context, client: Client
    ) -> None:
        self.context = context
        self.client = client
        self.subscription = subscription
        self._writer = writer

    @property
    def has_room(self) -> bool:
        return not self._writer.is_full

    def offers(self, namespace: str) -> bool:
        return True

    async def send(self, item: Item) -> None:
        # Wait first, so that many concurrent calls do not each add an item to the unsent bytes.
        await self._writer.drain()
        self.post(item)

    def post(self, *items: Item) -> None:
        before, after = jsonrpc.item_envelope(self.subscription)
        messages = [item.encode(before, after) for item in items]
        if type(items[-1]) is Done:
            # The call ends now, which flushes the writer.
            self._writer.hold(*messages)
        else:
            self._writer.write(*messages)

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        self._writer.report_delivery(handed_over)
