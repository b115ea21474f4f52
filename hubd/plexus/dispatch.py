"""One call, from its path and params to the last item.

The only place that consumes a method's generator, and the only place where an exception becomes
an error item. Knows nothing of sockets: items go to a `Caller`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from time import perf_counter
from typing import Any, Final, Protocol

from pydantic_core import to_json

from hubd.activation.handle import ORIGIN
from hubd.activation.method import Method
from hubd.errors import (
    Cancelled,
    ExecutionError,
    HubError,
    Internal,
    InvalidMethod,
    InvalidParams,
    PermissionDenied,
)
from hubd.plexus.encode import encode
from hubd.plexus.hub import Hub, Node, did_you_mean
from hubd.plexus.large import Source, pause, without_contents
from hubd.plexus.namespace import UNIVERSAL_METHODS, Namespace, find_method
from hubd.plexus.validate import validate
from hubd.wire.caller import Client, Context
from hubd.wire.item import Data, Done, Error, Guidance, Item, Stamp

log = logging.getLogger("hubd.plexus")

# How deep `call` may wrap `call`.
MAX_WRAPS: Final = 8
# A method path longer than this names nothing.
MAX_PATH: Final = 1000

# A method that never waits lets other calls run after this long.
TURN_SECONDS: Final = 0.002

INFO: Final = "_info"


class Caller(Protocol):
    """Whoever started a call and takes its items."""

    @property
    def context(self) -> Context:
        """The caller's working directory and environment."""

    @property
    def client(self) -> Client:
        """The program that calls."""

    @property
    def unanswerable(self) -> str | None:
        """Why a question would reach nobody; None if it would reach somebody."""

    def allows(self, namespace: str, method: str) -> bool:
        """Whether it may call this method."""

    async def send(self, item: Item) -> None:
        """Take one item; waits while the caller reads too slowly."""

    def post(self, item: Item) -> None:
        """Take one of the few last items of a call, without waiting."""

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        """Set the future when the items so far are with the peer; to False if the peer is gone."""


class Call:
    """One running call."""

    def __init__(
        self,
        hub: Hub,
        method: str,
        params: Mapping[str, Any],
        caller: Caller,
        source: Source | None = None,
    ) -> None:
        self.hub = hub
        # The path as it came; what `call` was wrapped around once that is known.
        self.method = method
        self.params = params
        # The large message that the params were parsed from; None for any other.
        self.source = source
        self.caller = caller
        # Narrowed down as the path is understood.
        self.stamp = Stamp((hub.name,), hub.hash)
        # Known once the method is found; host.py asks whether it may question the caller.
        self.spec: Method | None = None
        # What a cancelled call ends with; the daemon's end gives another reason.
        self.cancel_reason = "the call was cancelled"
        # The `await` that the method's code forgot, if any; unawaited.py sets it.
        self.unawaited = ""
        # Set when `done` was sent: nothing may follow it.
        self.ended = False
        # Callbacks of the plugin that wait until the caller has the items of this call.
        self._when_delivered: list[Callable[[bool], Awaitable[None]]] = []

    async def run(self) -> None:
        """Run to the end. Whatever happens, the caller gets `done`, and nothing is raised.

        Cancelling is safe: the plugin's `finally` runs, then the call ends as cancelled.
        """
        try:
            await self._run()
            if self._when_delivered:
                await self._await_delivery()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self.fail(Cancelled(self.cancel_reason))
            else:
                log.exception("%s was cancelled from within", self.method)
                self.fail(ExecutionError(f"{self.method} was cancelled from within"))
        except HubError as error:
            self.fail(self._own_error(error))
        except BaseException as error:  # a plugin's SystemExit must not end the hub
            log.exception("%s failed", self.method)
            self.fail(ExecutionError(f"{type(error).__name__}: {error}"))
        else:
            self.finish()
        finally:
            if self._when_delivered:
                # The call failed, so its caller can't rely on the items it got.
                await self._tell_delivery(delivered=False)

    def when_delivered(self, callback: Callable[[bool], Awaitable[None]]) -> None:
        """As `Host.when_delivered`."""
        self._when_delivered.append(callback)

    def _own_error(self, error: HubError) -> HubError:
        """Return the error for the caller of this call, and log it if it points to the log."""
        mistaken = isinstance(error, InvalidParams | InvalidMethod) and error.nested_in
        if mistaken or (error.points_to_log and not error.logged):
            log.error("%s failed: %s", self.method, error.message, exc_info=error)
        if not mistaken:
            return error
        # The caller's own parameters were right.
        return ExecutionError(
            f"{error.nested_in}: {error.message}",
            suggestion=f"{self.method} called {error.nested_in} wrongly; that is a defect of "
            f"{self.method}",
        )

    async def send(self, item: Item) -> None:
        """Pass an item on, unless the call was given up meanwhile."""
        if not self.ended:
            await self.caller.send(item)

    def fail(self, error: HubError) -> None:
        """End with guidance, the error and done."""
        if self.ended:
            return
        metadata = self.stamp.metadata()
        if not isinstance(error, Cancelled):
            self.caller.post(Guidance(metadata, error.code, error.suggestion, error.available))
        self.caller.post(Error(metadata, error.message, error.code, error.recoverable))
        self.finish()

    def finish(self) -> None:
        """End the stream."""
        if not self.ended:
            self.ended = True
            self.caller.post(Done(self.stamp.metadata()))

    async def _run(self) -> None:
        if self.source is not None:
            await pause()
        path, params, source = _unwrap(self.hub, self.method, self.params, self.source)
        self.method = path
        task = asyncio.current_task()
        if task is not None:
            # The log names the task if it blocks the event loop.
            task.set_name(path)
        if source is not None:
            # What was parsed is given up here: the params are validated from the text.
            params = self.params = without_contents(params)
            await pause()
        if path == INFO:
            return await self._send_info()
        *namespace, name = _split(self, path)
        node = self.hub.find(namespace)
        above = () if node is self.hub.root else tuple(node.path.split("."))
        self.stamp = Stamp((self.hub.name, *above), self.stamp.plexus_hash)
        spec = self.spec = find_method(node, name)
        if not self.caller.allows(node.path, spec.name):
            raise PermissionDenied(
                f"this connection may not call {path}",
                suggestion="It was opened for other namespaces only",
            )
        self.stamp = Stamp((self.hub.name, *above, spec.name), self.stamp.plexus_hash)
        arguments = validate(spec, params, source)
        target = Namespace(self.hub, node) if spec.name in UNIVERSAL_METHODS else node.activation
        token = current_call.set(self)
        try:
            await self._stream(spec, node, spec.function(target, **arguments))
        finally:
            current_call.reset(token)

    async def _stream(self, spec: Method, node: Node, events: AsyncGenerator[Any, None]) -> None:
        content_type = f"{node.path}.{spec.name}"
        context = {ORIGIN: node.activation.origin}
        task = asyncio.current_task()
        count = 0
        turn_began = perf_counter()
        async with aclosing(events):
            async for event in events:
                if task is not None and task.cancelling():
                    # The plugin swallowed the cancellation and went on.
                    raise asyncio.CancelledError
                count += 1
                if count > 1 and not spec.streaming:
                    raise Internal(f"{content_type} promises one event and yielded another")
                if self.unawaited:
                    break
                content = encode(event, spec.events, content_type, context)
                await self.send(Data(self.stamp.metadata(), content_type, content))
                if perf_counter() - turn_began > TURN_SECONDS:
                    await asyncio.sleep(0)
                    turn_began = perf_counter()
        if self.unawaited:
            raise Internal(f"{content_type}: {self.unawaited}")
        if count == 0 and not spec.streaming:
            raise Internal(f"{content_type} promises one event and yielded none")

    async def _await_delivery(self) -> None:
        """Wait until the caller has the items, then tell the plugin. `done` follows after it."""
        handed_over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.caller.report_delivery(handed_over)
        try:
            await handed_over
        finally:
            # A client may take the items and disconnect at once: then both have happened.
            delivered = handed_over.done() and not handed_over.cancelled() and handed_over.result()
            problem = await self._tell_delivery(delivered=delivered)
        if problem is not None:
            raise problem

    async def _tell_delivery(self, *, delivered: bool) -> HubError | None:
        """Run the callbacks to their end, also if the call is cancelled meanwhile.

        Returns:
            What went wrong in them. It is logged, because the caller may be gone.
        """
        callbacks, self._when_delivered = self._when_delivered, []
        work = asyncio.gather(*(call(delivered) for call in callbacks), return_exceptions=True)
        try:
            results = await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work])
            raise
        problem: HubError | None = None
        for error in results:
            if isinstance(error, BaseException):
                log.error("%s failed after its items were sent", self.method, exc_info=error)
                problem = (
                    error
                    if isinstance(error, HubError)
                    else ExecutionError(f"{type(error).__name__}: {error}")
                )
        return problem

    async def _send_info(self) -> None:
        from hubd import __version__

        info: dict[str, Any] = {
            "backend": self.hub.name,
            "version": __version__,
            "plexus_hash": self.hub.hash,
        }
        if self.hub.failed_plugins:
            info["failed_plugins"] = [
                {"plugin": failed.plugin, "namespace": failed.namespace, "reason": failed.reason}
                for failed in self.hub.failed_plugins
            ]
        await self.send(Data(self.stamp.metadata(), INFO, to_json(info)))


# The call whose method is running; what a plugin does through its host belongs to it.
current_call: ContextVar[Call] = ContextVar("current_call")


def _unwrap(
    hub: Hub, path: str, params: Mapping[str, Any], source: Source | None
) -> tuple[str, Mapping[str, Any], Source | None]:
    """Return the method that `call` calls, its params and their source."""
    for _ in range(MAX_WRAPS):
        if path != f"{hub.name}.call":
            return path, params, source
        unknown = sorted(params.keys() - {"method", "params"})
        if unknown:
            raise InvalidParams(f"unknown parameter '{unknown[0]}'", available=["method", "params"])
        inner, inner_params = params.get("method"), params.get("params")
        if not isinstance(inner, str):
            raise InvalidParams(f"{path} needs 'method', a string", available=["method", "params"])
        if inner_params is not None and not isinstance(inner_params, dict):
            raise InvalidParams(f"the 'params' of {inner} must be an object")
        path, params = inner, inner_params or {}
        source = source.below("params") if source is not None and inner_params else None
    raise InvalidParams(f"'call' wrapped in itself more than {MAX_WRAPS} times")


def _split(call: Call, path: str) -> list[str]:
    segments = path.split(".") if len(path) <= MAX_PATH else []
    if len(segments) > 1 and all(segments):
        return segments
    shown = path if len(path) <= MAX_PATH else f"{path[:MAX_PATH]}…"
    methods = [
        f"{node.path}.{name}"
        for node in call.hub.root.walk()
        for name in node.activation.methods
        if call.caller.allows(node.path, name)
    ]
    # Often only the namespace is missing.
    same = [name for name in methods if name.endswith(f".{path.strip('.')}")]
    nearest = f"Did you mean {same[0]}?" if same else did_you_mean(shown, methods)
    raise InvalidMethod(
        f"'{shown}' is not a method path",
        suggestion=f"{nearest} {InvalidMethod.advice}".strip(),
        available=methods,
    )
