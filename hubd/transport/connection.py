"""One client's calls: starts them, cancels them, passes their items on. Knows no framing."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from hubd.errors import Cancelled, HubError, Overloaded, Unavailable
from hubd.plexus.dispatch import Call
from hubd.plexus.host import Questions
from hubd.plexus.hub import Hub
from hubd.transport.session import Answer, Cancel, Reply, Session, Start
from hubd.wire import jsonrpc
from hubd.wire.context import Context, read_context
from hubd.wire.item import Item

log = logging.getLogger("hubd.transport")

# Once this much is unsent, the methods that write to the connection wait.
MAX_UNSENT_BYTES: Final = 1024 * 1024
# One client may run this many calls at once.
MAX_CALLS: Final = 1024
# How long a plugin's `finally` may take after its call was cancelled.
CLEANUP_SECONDS: Final = 5.0
# After so many items a call lets the others run, even if it never waits for anything.
ITEMS_PER_TURN: Final = 64

# Starts a task, and tells when it has ended.
Spawn = Callable[[Coroutine[Any, Any, None], Callable[[], None]], asyncio.Task[None]]


class FrameWriter(Protocol):
    """How a connection sends: one whole message a frame."""

    def write(self, frame: bytes) -> None:
        """Queue a frame; does nothing once the peer is gone."""

    async def drain(self) -> None:
        """Wait until less than `MAX_UNSENT_BYTES` are unsent, or the peer is gone."""


class Connection:
    """The calls of one client, over any framing."""

    def __init__(
        self,
        hub: Hub,
        questions: Questions,
        writer: FrameWriter,
        spawn: Spawn,
        *,
        trusts_context: bool,
    ) -> None:
        self._hub = hub
        self._questions = questions
        self._writer = writer
        # Starts a task whose owner outlives the connection.
        self._spawn = spawn
        self._trusts_context = trusts_context
        self._session = Session(hub.name)
        # Set when the daemon stops: what is running may finish, nothing new begins.
        self.stopping = False
        # The running calls by subscription; an entry goes when its task ends.
        self._calls: dict[int, tuple[Call, asyncio.Task[None]]] = {}

    def receive(self, message: str | bytes) -> None:
        """Act on one message from the client."""
        action = self._session.receive(message)
        if isinstance(action, Reply):
            self._writer.write(action.frame)
        elif isinstance(action, Start):
            self._start(action)
        elif isinstance(action, Cancel):
            known = self.cancel(action.subscription)
            problem = None if known else f"no call {action.subscription} is running"
            self._acknowledge(action.request, problem)
        elif isinstance(action, Answer):
            self._acknowledge(
                action.request, self._questions.answer(action.request_id, action.data)
            )

    def cancel(self, subscription: int) -> bool:
        """Cancel one call; False if it is not running."""
        if subscription not in self._calls:
            return False
        call, task = self._calls[subscription]
        if task.cancelling():
            return True  # once more would interrupt the plugin's clean-up
        task.cancel()
        # A plugin that does not let go must not keep its caller waiting.
        asyncio.get_running_loop().call_later(CLEANUP_SECONDS, _give_up, call, task)
        return True

    def cancel_all(self, reason: str) -> None:
        """Cancel everything, because the client is gone or the daemon ends."""
        for subscription, (call, _) in list(self._calls.items()):
            call.cancel_reason = reason
            self.cancel(subscription)

    def _start(self, start: Start) -> None:
        context = read_context(start.context) if self._trusts_context else Context()
        caller = _Subscriber(self._writer, start.subscription, context)
        call = Call(self._hub, start.method, start.params, caller)
        refusal: HubError | None = None
        if self.stopping:
            refusal = Unavailable("the daemon is stopping")
        elif len(self._calls) >= MAX_CALLS:
            refusal = Overloaded(f"{MAX_CALLS} calls are running on this connection already")
        if refusal is not None:
            self._writer.write(start.reply)
            call.fail(refusal)
            return
        # The task is scheduled first: its first items then go out in one write with the reply.
        task = self._spawn(call.run(), lambda: self._ended(start.subscription, call))
        self._writer.write(start.reply)
        self._calls[start.subscription] = (call, task)

    def _ended(self, subscription: int, call: Call) -> None:
        # A task that is cancelled before its first step has not run the call at all.
        call.fail(Cancelled(call.cancel_reason))
        del self._calls[subscription]

    def _acknowledge(self, request: jsonrpc.Request, problem: str | None) -> None:
        if request.wants_reply:
            result: dict[str, Any] = {"success": problem is None}
            if problem is not None:
                result["message"] = problem
            self._writer.write(jsonrpc.success(request.id, result))


class _Subscriber:
    """The caller of one subscription: its items become frames."""

    can_answer = True

    def __init__(self, writer: FrameWriter, subscription: int, context: Context) -> None:
        self.context = context
        self._writer = writer
        self._subscription = subscription
        self._sent = 0

    async def send(self, item: Item) -> None:
        # First the wait, so that many calls at once do not each add an item to what is unsent.
        await self._writer.drain()
        self.post(item)
        self._sent += 1
        if self._sent % ITEMS_PER_TURN == 0:
            await asyncio.sleep(0)

    def post(self, item: Item) -> None:
        self._writer.write(jsonrpc.notification(self._subscription, item.encode()))


def _give_up(call: Call, task: asyncio.Task[None]) -> None:
    """End the stream of a cancelled call whose plugin is still busy with itself."""
    if not task.done():
        log.warning("%s did not stop within %g s of being cancelled", call.method, CLEANUP_SECONDS)
        call.fail(Cancelled(call.cancel_reason))
