"""What `self.host` of a plugin does: calls and resolves through the hub, asks the caller."""

import asyncio
import math
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Final, Protocol
from uuid import uuid4

from pydantic_core import from_json, to_json

from hubd.activation.base import Activation
from hubd.activation.host import Option, Resolved
from hubd.errors import Cancelled, HubError, Internal, Timeout, by_code
from hubd.plexus.dispatch import Call, current_call
from hubd.plexus.hub import Hub
from hubd.plexus.resolve import resolve, resolve_each
from hubd.storage.must_await import must_await
from hubd.wire.caller import Client, Context
from hubd.wire.handle import WireHandle
from hubd.wire.item import Data, Done, Error, Guidance, Item, Progress, Request

# How long the end of a nested call may take once its caller has left.
CLEANUP_SECONDS: Final = 5.0

NOBODY: Final = "there is nobody to ask: no caller waits for this"

# Which answer fits which question.
ANSWERS: Final[Mapping[str, tuple[str, str]]] = {
    "confirm": ("confirmed", "value"),
    "prompt": ("text", "value"),
    "select": ("selected", "values"),
    "custom": ("custom", "data"),
}


class Questions:
    """The questions that wait for an answer, by ids nobody can guess."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}

    def answer(self, request_id: str, data: object) -> str | None:
        """Hand an answer to whoever asked; returns what is wrong with it, if anything."""
        if request_id not in self._waiting:
            return "no question with this request_id waits for an answer"
        request, future = self._waiting[request_id]
        if future.done():
            return "this question was answered already"
        problem = _misfit(request, data)
        if problem is None:
            assert isinstance(data, dict)
            future.set_result(data)
        return problem

    def waits(self, request_id: str) -> bool:
        """Whether a question is still without an answer."""
        entry = self._waiting.get(request_id)
        return entry is not None and not entry[1].done()

    async def ask(
        self, call: Call, request: dict[str, Any], timeout_seconds: float
    ) -> dict[str, Any]:
        """Ask the caller of a call. A time-out is an answer too: `{"type": "timeout"}`."""
        request_id = str(uuid4())
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = (request, future)
        try:
            timeout_ms = int(timeout_seconds * 1000)
            await call.send(Request(call.stamp.metadata(), request_id, request, timeout_ms))
            async with asyncio.timeout(timeout_seconds):
                return await future
        except TimeoutError:
            return {"type": "timeout"}
        finally:
            del self._waiting[request_id]


class Growing(Protocol):
    """The part of the life cycle that a host needs."""

    async def add_child(self, parent: Activation, child: Activation) -> None:
        """Attach a child and start it."""

    async def remove_child(self, parent: Activation, namespace: str) -> None:
        """Stop a child and detach it."""


class PlexusHost:
    """The one implementation of `Host`; all activations share it."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.questions = Questions()
        # Set by lifecycle.py for as long as plugins run.
        self.running: Growing | None = None

    @property
    def context(self) -> Context:
        """As `Host.context`."""
        call = current_call.get(None)
        return call.caller.context if call else Context()

    @property
    def client(self) -> Client:
        """As `Host.client`."""
        call = current_call.get(None)
        return call.caller.client if call else Client()

    @asynccontextmanager
    async def call(
        self, method: str, /, **params: Any
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """As `Host.call`."""
        outer = current_call.get(None)
        pipe = _Pipe(outer, method)
        # The params take the same road as a client's: JSON in, checked by the same rules.
        call = Call(self._hub, method, from_json(to_json(params)), pipe)
        task = asyncio.create_task(call.run(), name=f"nested {method}")
        try:
            yield pipe.contents()
        finally:
            task.cancel()
            await asyncio.wait([task], timeout=CLEANUP_SECONDS)

    @must_await
    async def resolve(self, handle: str | WireHandle) -> Resolved:
        """As `Host.resolve`."""
        _, found = await resolve(self._hub, handle)
        return found[0]

    async def resolve_each(
        self, handles: Iterable[str | WireHandle]
    ) -> AsyncGenerator[Resolved | HubError, None]:
        """As `Host.resolve_each`."""
        async with aclosing(resolve_each(self._hub, handles)) as answers:
            async for answer in answers:
                yield answer if isinstance(answer, HubError) else answer[1][0]

    def named(self, handle: WireHandle) -> WireHandle:
        """As `Host.named`."""
        try:
            owner = self._hub.owner_of(handle)
        except HubError:
            return handle
        return replace(handle, plugin=owner.path)

    @must_await
    async def add_child(self, parent: Activation, child: Activation) -> None:
        """As `Host.add_child`."""
        await self._growing.add_child(parent, child)

    @must_await
    async def remove_child(self, parent: Activation, namespace: str) -> None:
        """As `Host.remove_child`."""
        await self._growing.remove_child(parent, namespace)

    @property
    def _growing(self) -> "Growing":
        if self.running is None:
            raise RuntimeError("children can be added and removed only while the hub runs")
        return self.running

    def unowned(self, handle: WireHandle) -> HubError | None:
        """As `Host.unowned`."""
        try:
            self._hub.owner_of(handle)
        except HubError as error:
            return error
        return None

    def prompts_changed(self) -> None:
        """As `Host.prompts_changed`."""
        self._hub.tell("prompts")

    @must_await
    async def progress(self, message: str, percentage: float | None = None) -> None:
        """As `Host.progress`."""
        call = current_call.get(None)
        if call is not None:
            if percentage is not None:
                percentage = 0.0 if math.isnan(percentage) else min(max(percentage, 0.0), 100.0)
            await call.send(Progress(call.stamp.metadata(), message, percentage))

    @must_await
    async def advise(self, topic: str, suggestion: str) -> None:
        """As `Host.advise`."""
        call = current_call.get(None)
        if call is not None:
            await call.send(Guidance(call.stamp.metadata(), topic, suggestion, []))

    def when_delivered(self, callback: Callable[[bool], Awaitable[None]]) -> None:
        """As `Host.when_delivered`."""
        call = current_call.get(None)
        if call is None or call.ended:
            raise Internal("when_delivered needs a running call")
        call.when_delivered(callback)

    @must_await
    async def confirm(
        self, message: str, *, default: bool | None = None, timeout_seconds: float = 30.0
    ) -> bool:
        """As `Host.confirm`."""
        request = _request("confirm", message=message, default=default)
        return bool(await self._ask(request, default, timeout_seconds))

    @must_await
    async def prompt(
        self,
        message: str,
        *,
        default: str | None = None,
        placeholder: str | None = None,
        multiline: bool = False,
        timeout_seconds: float = 30.0,
    ) -> str:
        """As `Host.prompt`."""
        request = _request(
            "prompt",
            message=message,
            default=default,
            placeholder=placeholder,
            multiline=multiline or None,
        )
        return str(await self._ask(request, default, timeout_seconds))

    @must_await
    async def select(
        self,
        message: str,
        options: Sequence[Option],
        *,
        multi: bool = False,
        timeout_seconds: float = 30.0,
    ) -> list[str]:
        """As `Host.select`."""
        choices = [
            _drop_none(value=option.value, label=option.label, description=option.description)
            for option in options
        ]
        request = _request("select", message=message, options=choices, multiSelect=multi or None)
        values: list[str] = await self._ask(request, None, timeout_seconds)
        return values

    @must_await
    async def custom(self, data: Mapping[str, Any], *, timeout_seconds: float = 30.0) -> Any:
        """As `Host.custom`."""
        plain = from_json(to_json(data, inf_nan_mode="null"))
        return await self._ask(_request("custom", data=plain), None, timeout_seconds)

    async def _ask(self, request: dict[str, Any], default: object, timeout_seconds: float) -> Any:
        call = current_call.get(None)
        if call is None or call.ended:
            raise Cancelled(NOBODY)
        if (reason := call.caller.unanswerable) is not None:
            raise Cancelled(reason)
        if call.spec is None or not call.spec.bidirectional:
            raise Internal(f"{call.method} asks its caller; mark it @method(bidirectional=True)")
        answer = await self.questions.ask(call, request, timeout_seconds)
        if answer["type"] == "cancelled":
            raise Cancelled("the caller declined to answer")
        if answer["type"] == "timeout":
            if default is not None:
                return default
            raise Timeout(f"no answer within {timeout_seconds:g} s")
        return answer[ANSWERS[request["type"]][1]]


class _Pipe:
    """The caller of a nested call: hands its items to the code that called."""

    def __init__(self, outer: Call | None, method: str) -> None:
        # Questions go to its caller, as long as it has not ended.
        self._outer = outer
        # The path of the nested call.
        self._method = method
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        # Room for one data item, so that a slow consumer holds the inner method back.
        self._room = asyncio.Semaphore(1)
        # Set when the last data item is taken, if the inner method wants to know.
        self._handed_over: asyncio.Future[bool] | None = None

    @property
    def context(self) -> Context:
        return self._outer.caller.context if self._outer else Context()

    @property
    def client(self) -> Client:
        return self._outer.caller.client if self._outer else Client()

    @property
    def unanswerable(self) -> str | None:
        outer = self._outer
        return NOBODY if outer is None or outer.ended else outer.caller.unanswerable

    def allows(self, namespace: str, method: str) -> bool:
        # What a plugin calls, it calls by itself.
        return True

    async def send(self, item: Item) -> None:
        if isinstance(item, Data):
            await self._room.acquire()
            self._items.put_nowait(item)
        elif isinstance(item, Request) and self._outer is not None:
            await self._outer.send(item)

    def post(self, item: Item) -> None:
        self._items.put_nowait(item)

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        if self._room.locked():
            self._handed_over = handed_over
        else:
            handed_over.set_result(True)

    async def contents(self) -> AsyncIterator[dict[str, Any]]:
        advice = Guidance(b"", "", "", [])
        while not isinstance(item := await self._items.get(), Done):
            if isinstance(item, Data):
                self._room.release()
                if self._handed_over is not None and not self._handed_over.done():
                    self._handed_over.set_result(True)
                yield from_json(item.content)
            elif isinstance(item, Guidance):
                advice = item
            elif isinstance(item, Error):
                error = by_code(
                    item.code,
                    item.message,
                    suggestion=advice.suggestion,
                    available=advice.available,
                )
                error.nested_in = self._method
                # The nested call has logged it.
                error.logged = True
                raise error


def _request(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **_drop_none(**fields)}


def _drop_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _misfit(request: Mapping[str, Any], data: object) -> str | None:
    """What keeps `data` from being an answer to this question."""
    kind = request["type"]
    if not isinstance(data, dict):
        return "an answer is an object with a 'type'"
    if data.get("type") == "cancelled":
        return None
    wanted, field = ANSWERS[kind]
    if data.get("type") != wanted or field not in data:
        return f"a {kind} is answered by {{type: '{wanted}', {field}: …}} or {{type: 'cancelled'}}"
    value = data[field]
    fits = {
        "confirm": isinstance(value, bool),
        "prompt": isinstance(value, str),
        "select": isinstance(value, list) and all(isinstance(entry, str) for entry in value),
        "custom": True,
    }
    if not fits[kind]:
        return f"'{field}' has the wrong type for a {kind}"
    return _not_offered(request, value) if kind == "select" else None


def _not_offered(request: Mapping[str, Any], values: list[str]) -> str | None:
    offered = {option["value"] for option in request["options"]}
    strange = [value for value in values if value not in offered]
    if strange:
        return f"{strange[0]!r} is not one of the options"
    if not request.get("multiSelect") and len(values) != 1:
        return "exactly one option is to be chosen"
    return None
