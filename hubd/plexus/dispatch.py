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

from hubd.activation.base import Activation
from hubd.activation.handle import ORIGIN
from hubd.activation.method import Method
from hubd.errors import (
    ActivationNotFound,
    Cancelled,
    ExecutionError,
    HubError,
    Internal,
    InvalidMethod,
    InvalidParams,
    MethodNotFound,
    PermissionDenied,
)
from hubd.plexus.encode import encode
from hubd.plexus.grants import may_use, refusal, visible_hash, visible_methods
from hubd.plexus.hub import Hub, Node
from hubd.plexus.namespace import UNIVERSAL_METHODS, Namespace, find_method
from hubd.plexus.params.large import collection_paused, pause
from hubd.plexus.params.validate import validate
from hubd.wire.caller import Client, Context
from hubd.wire.item import Data, Done, Error, Guidance, Item, Stamp
from hubd.wire.text import did_you_mean, shorten, suggestion

log = logging.getLogger(__name__)

# How deep `call` may wrap `call`.
MAX_WRAPS: Final = 8
# The maximum length of a method path.
MAX_PATH: Final = 1000

# Seconds after which a method that never waits lets other calls run.
TURN_SECONDS: Final = 0.002

INFO: Final = "_info"


class Caller(Protocol):
    """The receiver of a call's items: a connection, an MCP request, a plugin or a test."""

    @property
    def context(self) -> Context:
        """The caller's working directory and environment."""

    @property
    def client(self) -> Client:
        """The calling program."""

    @property
    def unanswerable(self) -> str | None:
        """The reason why the caller can't answer questions; None if it can."""

    def offers(self, namespace: str) -> bool:
        """Return whether the connection offers a namespace. Grants are checked by the call."""

    async def send(self, item: Item) -> None:
        """Send an item. Waits if the caller reads slowly."""

    def post(self, item: Item) -> None:
        """Send an item without waiting: one of the last items, or a closed question."""

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        """Set the future to True when the items so far are sent; to False if they can't be."""


class Call:
    """A running call."""

    def __init__(
        self,
        hub: Hub,
        method: str,
        params: Mapping[str, Any],
        caller: Caller,
        *,
        large: bool = False,
    ) -> None:
        self.hub = hub
        # The path of the request; later that of the method inside `call`.
        self.method = method
        self.params = params
        # Whether validating the params takes long enough to delay other clients.
        self.large = large
        self.caller = caller
        # Its grants limit the call. Later changes of the client do not.
        self.actor = caller.client.actor
        # Its provenance gets longer as the path is looked up.
        self.stamp = Stamp((hub.name,), visible_hash(hub.hash, self.actor))
        # Set when the method is found. host.py reads whether the method may ask its caller.
        self.spec: Method | None = None
        # The message of a cancelled call. A stop of the daemon replaces it.
        self.cancel_reason = "the call was cancelled"
        # The `await` that the method forgot; set by unawaited.py.
        self.unawaited = ""
        # True after `done`, which is the last item.
        self.ended = False
        # Callbacks of the plugin that run when the items of this call are sent.
        self._after_sent: list[Callable[[bool], Awaitable[None]]] = []

    async def run(self) -> None:
        """Run to the end. The caller always gets `done`, and no exception is raised.

        If the task is cancelled, the plugin's `finally` runs and the call ends as cancelled.
        """
        try:
            await self._run()
            if self._after_sent:
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
        except BaseException as error:  # SystemExit of a plugin must not end the hub.
            log.exception("%s failed", self.method)
            self.fail(ExecutionError(f"{type(error).__name__}: {error}"))
        else:
            self.finish()
        finally:
            if self._after_sent:
                # The call failed, so the items do not count as sent.
                await self._run_callbacks(delivered=False)

    def after_sent(self, callback: Callable[[bool], Awaitable[None]]) -> None:
        """As `Host.after_sent`."""
        self._after_sent.append(callback)

    def _own_error(self, error: HubError) -> HubError:
        """Return the error for the caller of this call, and log it if it points to the log."""
        is_defect = isinstance(error, InvalidParams | InvalidMethod) and error.nested_in
        if is_defect or (error.points_to_log and not error.logged):
            log.error("%s failed: %s", self.method, error.message, exc_info=error)
        if not is_defect:
            return error
        # The caller's own params are right; the plugin made the mistake.
        return ExecutionError(
            f"{error.nested_in}: {error.message}",
            suggestion=f"This is a defect of {self.method}, which called {error.nested_in}",
        )

    async def send(self, item: Item) -> None:
        """Send an item to the caller, unless the call has ended."""
        if not self.ended:
            await self.caller.send(item)

    async def advise(self, topic: str, suggestion: str) -> None:
        """Send a guidance item to the caller: see `Host.advise`."""
        await self.send(Guidance(self.stamp.metadata(), topic, suggestion, []))

    def post(self, item: Item) -> None:
        """Send an item without waiting, unless the call has ended."""
        if not self.ended:
            self.caller.post(item)

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
        path, params = _unwrap(self.hub, self.method, self.params)
        self.method = path
        task = asyncio.current_task()
        if task is not None:
            # The log names the task if it blocks the event loop.
            task.set_name(path)
        if self.large:
            await pause()
        if path == INFO:
            return await self._send_info()
        node, spec = self._look_up(path)
        arguments = self._validate(spec, params)
        target: Namespace | Activation = node.activation
        if spec.name in UNIVERSAL_METHODS:
            target = Namespace(self.hub, node, self.actor, self.advise)
        token = current_call.set(self)
        try:
            await self._stream(spec, node, spec.function(target, **arguments))
        finally:
            current_call.reset(token)

    def _look_up(self, path: str) -> tuple[Node, Method]:
        """Return a method that the caller may call, and its node."""
        *namespace, name = _split(self, path)
        try:
            node = self.hub.find(namespace)
            above = () if node is self.hub.root else tuple(node.path.split("."))
            self.stamp = Stamp((self.hub.name, *above), self.stamp.plexus_hash)
            spec = self.spec = find_method(node, name)
        except (ActivationNotFound, MethodNotFound):
            if self.actor.grants is None:
                raise
            # The names that exist are not for this caller.
            raise refusal(self.hub, self.actor, path) from None
        if self.actor.grants is not None and not may_use(self.actor, node, spec):
            raise refusal(self.hub, self.actor, path)
        if not self.caller.offers(node.path):
            raise PermissionDenied(
                f"this connection may not call {path}",
                suggestion="The connection is limited to other namespaces",
            )
        self.stamp = Stamp((self.hub.name, *above, spec.name), self.stamp.plexus_hash)
        return node, spec

    def _validate(self, spec: Method, params: Mapping[str, Any]) -> dict[str, Any]:
        if not self.large:
            return validate(spec, params)
        with collection_paused():
            return validate(spec, params)

    async def _stream(self, spec: Method, node: Node, events: AsyncGenerator[Any, None]) -> None:
        content_type = f"{node.path}.{spec.name}"
        context = {ORIGIN: node.activation.origin}
        task = asyncio.current_task()
        count = 0
        turn_began = perf_counter()
        async with aclosing(events):
            async for event in events:
                if task is not None and task.cancelling():
                    # The plugin caught the cancellation and continued.
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
        """Wait until the items are sent, then run the callbacks of `after_sent`."""
        handed_over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.caller.report_delivery(handed_over)
        try:
            await handed_over
        finally:
            # If a client takes the items and disconnects at once, the items are sent.
            delivered = handed_over.done() and not handed_over.cancelled() and handed_over.result()
            problem = await self._run_callbacks(delivered=delivered)
        if problem is not None:
            raise problem

    async def _run_callbacks(self, *, delivered: bool) -> HubError | None:
        """Run the callbacks to their end, also if the call is cancelled.

        Returns:
            The last error of a callback. Each is logged, because the caller may be gone.
        """
        callbacks, self._after_sent = self._after_sent, []
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
            "plexus_hash": self.stamp.plexus_hash,
        }
        if self.hub.failed_plugins:
            info["failed_plugins"] = [
                {"plugin": failed.plugin, "namespace": failed.namespace, "reason": failed.reason}
                for failed in self.hub.failed_plugins
            ]
        await self.send(Data(self.stamp.metadata(), INFO, to_json(info)))


# The running call, which host calls of its method belong to. Background tasks that a method starts
# keep it after the call has ended.
current_call: ContextVar[Call] = ContextVar("current_call")


def _unwrap(hub: Hub, path: str, params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the method inside of `call`, and its params."""
    for _ in range(MAX_WRAPS):
        if path != f"{hub.name}.call":
            return path, params
        unknown = sorted(params.keys() - {"method", "params"})
        if unknown:
            raise InvalidParams(f"unknown parameter '{unknown[0]}'", available=["method", "params"])
        inner, inner_params = params.get("method"), params.get("params")
        if not isinstance(inner, str):
            raise InvalidParams(f"{path} needs 'method', a string", available=["method", "params"])
        if inner_params is not None and not isinstance(inner_params, dict):
            raise InvalidParams(f"the 'params' of {inner} must be an object")
        path, params = inner, inner_params or {}
    raise InvalidParams(f"'call' wrapped in itself more than {MAX_WRAPS} times")


def _split(call: Call, path: str) -> list[str]:
    segments = path.split(".") if len(path) <= MAX_PATH else []
    if len(segments) > 1 and all(segments):
        return segments
    text = shorten(path, MAX_PATH)
    methods = [
        f"{node.path}.{name}"
        for node in call.hub.root.walk()
        for name in visible_methods(node, call.actor)
        if call.caller.offers(node.path)
    ]
    # Often only the namespace is missing.
    same = [name for name in methods if name.endswith(f".{path.strip('.')}")]
    nearest = suggestion(same[:1]) or did_you_mean(text, methods)
    raise InvalidMethod(
        f"'{text}' is not a method path",
        suggestion=f"{nearest} {InvalidMethod.advice}".strip(),
        available=methods,
    )
