"""Many calls over one connection: sends their requests and hands out their items."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Protocol

from hubd.client.contents import Item
from hubd.errors import HubError, InvalidParams, Overloaded, Unavailable
from hubd.wire import jsonrpc

# The client stops reading while this much waits for its loops. The hub's methods then wait too.
PAUSE_BYTES: Final = 1024 * 1024
# It reads on if another call waits for an item. A call with more unread bytes than this fails.
MAX_UNREAD_BYTES: Final = 64 * 1024 * 1024
# Closed questions that are remembered, so that a call that reads late does not ask them.
MAX_CLOSED_QUESTIONS: Final = 1000


class Transport(Protocol):
    """Messages over a socket."""

    # Whether calls may carry the caller's working directory and environment.
    carries_context: bool

    async def send(self, message: bytes) -> None:
        """Send one message; does nothing once the hub is gone."""

    async def receive(self) -> bytes:
        """Return the next message.

        Raises:
            HubError: The connection is lost.
        """

    async def close(self) -> None:
        """Close the connection."""


class Connection:
    """The calls that run over one transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.carries_context = transport.carries_context
        # By request id, until the hub replies.
        self._starting: dict[int, _Call] = {}
        # By subscription, until the last item or until the caller leaves.
        self._running: dict[int, _Call] = {}
        self._last_id = 0
        # Cancellations of calls that were left before the hub replied.
        self._tasks: set[asyncio.Task[None]] = set()
        # The error of every call, once the connection is lost.
        self._lost: HubError | None = None
        self._unread = 0
        # Calls that wait for an item.
        self._hungry = 0
        # Set when a call takes an item or begins to wait for one.
        self._progress = asyncio.Event()
        # The questions that are being answered, by request id. Set if the hub closes one.
        self._open_questions: dict[str, asyncio.Event] = {}
        # The ids of the last questions that the hub closed, which a call may not have seen yet.
        self._closed_questions: deque[str] = deque(maxlen=MAX_CLOSED_QUESTIONS)

    async def read(self) -> None:
        """Read messages until the connection is lost."""
        try:
            while True:
                while self._unread > PAUSE_BYTES and not self._hungry:
                    self._progress.clear()
                    await self._progress.wait()
                self._route(await self._transport.receive())
        except HubError as error:
            self._lost = error
        except (ValueError, TypeError, AttributeError, KeyError):
            self._lost = Unavailable("the server at this address does not speak the hub's protocol")
        finally:
            lost = self._lost = self._lost or Unavailable("the connection was closed")
            for call in [*self._starting.values(), *self._running.values()]:
                call.fail(lost)

    async def send(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request and return its id."""
        self._last_id += 1
        request_id = self._last_id
        await self._transport.send(jsonrpc.request(request_id, method, params))
        return request_id

    def is_closed(self, request_id: str) -> bool:
        """Return whether the hub has closed a question."""
        return request_id in self._closed_questions

    async def closed(self, request_id: str) -> None:
        """Wait until the hub closes a question."""
        if self.is_closed(request_id):
            return
        closed = self._open_questions[request_id] = asyncio.Event()
        try:
            await closed.wait()
        finally:
            del self._open_questions[request_id]

    def _close_question(self, request_id: str) -> None:
        self._closed_questions.append(request_id)
        if request_id in self._open_questions:
            self._open_questions[request_id].set()

    async def items(self, method: str, params: Mapping[str, Any]) -> AsyncGenerator[Item, None]:
        """Call a method of the protocol and yield its items, up to `done`.

        Closing the generator cancels the call.

        Raises:
            HubError: The connection is lost, or the hub refused the request.
        """
        if self._lost is not None:
            raise self._lost
        call = _Call(method.partition(".")[0])
        # Before the request is sent: the reply may arrive while this task still waits.
        self._starting[self._last_id + 1] = call
        try:
            await self.send(method, params)
            while True:
                item = await self._take(call)
                if item["type"] == "done":
                    call.ended = True
                yield item
                if call.ended:
                    return
        finally:
            self._unread -= sum(size for size, _ in call.items)
            self._progress.set()
            await self._leave(call)

    async def _take(self, call: "_Call") -> Item:
        self._hungry += 1
        self._progress.set()
        try:
            while not call.items:
                if call.failure is not None:
                    raise call.failure
                call.arrived.clear()
                await call.arrived.wait()
        finally:
            self._hungry -= 1
        size, item = call.items.popleft()
        call.unread -= size
        self._unread -= size
        self._progress.set()
        return item

    async def _leave(self, call: "_Call") -> None:
        """Cancel a call that has not ended. Its remaining items are dropped."""
        call.left = True
        if call.subscription is not None:
            self._running.pop(call.subscription, None)
            if not call.ended:
                await self._cancel(call)

    async def _cancel(self, call: "_Call") -> None:
        await self.send(f"{call.root}.cancel", {"subscription": call.subscription})

    def _route(self, message: bytes) -> None:
        content = json.loads(message)
        if content.get("method") == "subscription":
            params = content["params"]
            call = self._running.get(params["subscription"])
            item = params["result"]
            if item.get("type") == "request_closed":
                self._close_question(item["requestId"])
            if call is not None and call.failure is None:
                self._unread += len(message)
                call.add(len(message), item)
                if call.unread > MAX_UNREAD_BYTES:
                    call.fail(_unread())
            return
        error = content.get("error")
        call = self._starting.pop(content.get("id"), None)
        if error is not None:
            failure = _refusal(error)
            if call is None:
                # The hub could not read the request, and closes the connection.
                raise failure
            call.fail(failure)
        elif call is not None:
            call.subscription = content["result"]
            if not call.left:
                self._running[content["result"]] = call
                return
            task = asyncio.create_task(self._cancel(call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


class _Call:
    """One call: its items that are not taken yet."""

    def __init__(self, root: str) -> None:
        # The namespace of `cancel`.
        self.root = root
        # None until the hub replies.
        self.subscription: int | None = None
        # Each with its size in bytes.
        self.items: deque[tuple[int, Item]] = deque()
        self.unread = 0
        # Set when an item or the failure arrives.
        self.arrived = asyncio.Event()
        self.failure: HubError | None = None
        # Whether the hub has no further items.
        self.ended = False
        # Whether the caller wants no further items.
        self.left = False

    def add(self, size: int, item: Item) -> None:
        self.items.append((size, item))
        self.unread += size
        self.arrived.set()

    def fail(self, error: HubError) -> None:
        """End with an error once the items so far are taken."""
        self.failure = self.failure or error
        self.arrived.set()


def _refusal(error: Mapping[str, Any]) -> HubError:
    message = str(error.get("message") or "the hub refused the request without a reason")
    return (Overloaded if error.get("code") == jsonrpc.OVERLOADED else InvalidParams)(message)


def _unread() -> HubError:
    return Overloaded(
        f"more than {MAX_UNREAD_BYTES:,} bytes of this call are unread",
        suggestion="Read it faster, or use a separate connection for it",
    )
