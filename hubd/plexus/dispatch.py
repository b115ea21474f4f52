"""One call, from its path and params to the last item.

The only place that consumes a method's generator, and the only place where an exception becomes
an error item. Knows nothing of sockets: items go to a `Caller`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from time import perf_counter
from typing import Any, Final, Protocol

from pydantic_core import to_json

from hubd.activation.base import Activation
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
    Unavailable,
)
from hubd.plexus.encode import encode
from hubd.plexus.grants import may_use, refusal, visible_hash, visible_methods
from hubd.plexus.hub import Hub
from hubd.plexus.namespace import Namespace, find_method
from hubd.plexus.params.large import collection_paused, pause
from hubd.plexus.routes import Route, add_route, provenance
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
PAGE: Final = "_page"
CANCELLED: Final = "the call was cancelled"


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

    @property
    def has_room(self) -> bool:
        """Whether events can be posted at once, because they would not wait in `send`."""

    def offers(self, namespace: str) -> bool:
        """Return whether the connection offers a namespace. Grants are checked by the call."""

    async def send(self, item: Item) -> None:
        """Send an item. Waits if the caller reads slowly."""

    def post(self, *items: Item) -> None:
        """Send items without waiting: if there is room, or the last ones."""

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        """Set the future to True when the items so far are sent; to False if they can't be."""


class Call:
    """A running call."""

    __slots__ = (
        "__weakref__",
        "_after_sent",
        "_stamp",
        "actor",
        "caller",
        "cancel_reason",
        "ended",
        "hub",
        "is_started",
        "large",
        "method",
        "over",
        "params",
        "spec",
        "task",
        "unawaited",
    )

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
        # Set when the method is found. host.py reads whether the method may ask its caller.
        self.spec: Method | None = None
        # The message of a cancelled call. A stop of the daemon replaces it.
        self.cancel_reason = CANCELLED
        # The `await` that the method forgot; set by unawaited.py.
        self.unawaited = ""
        # The task of `run`, if its owner has set it; looking it up takes longer.
        self.task: asyncio.Task[None] | None = None
        # False until the first step of its task. A call that is cancelled before never runs.
        self.is_started = False
        # True after `done`, which is the last item.
        self.ended = False
        # Called at the end of `run`, when the method and its callbacks have ended too.
        self.over: Callable[[], None] | None = None
        # See `stamp`.
        self._stamp: Stamp | None = None
        # Callbacks of the plugin that run when the items of this call are sent.
        self._after_sent: list[Callable[[bool], Awaitable[None]]] | None = None

    @property
    def stamp(self) -> Stamp:
        """The metadata of the items. Its provenance gets longer as the path is looked up."""
        if self._stamp is None:
            self._stamp = self._stamp_for((self.hub.name,))
        return self._stamp

    async def run(self) -> None:
        """Run to the end. The caller always gets `done`, and no exception is raised.

        If the task is cancelled, the plugin's `finally` runs and the call ends as cancelled.
        """
        self.is_started = True
        token = current_call.set(self)
        try:
            path, params = _unwrap(self.hub.name, self.method, self.params)
            self.method = path
            task = self.task or asyncio.current_task()
            assert task is not None
            # The log names the task if it blocks the event loop.
            task.set_name(path)
            if self.large:
                await pause()
            if path == INFO:
                self.post(Data(self.stamp.metadata(), INFO, self._info()))
                return self.finish()
            if path == PAGE:
                self.post(Data(self.stamp.metadata(), PAGE, self._page()))
                return self.finish()
            route = self._route(path)
            if route.spec.returns:
                event = await self._begin(route, params)
                if task.cancelling():
                    raise asyncio.CancelledError  # The plugin caught the cancellation.
                item = self._item(route, event, 1)
                if self.caller.has_room and not self._after_sent:
                    return self.finish(item)
                await self.send(item)
            else:
                await self._stream(route, self._begin(route, params), task)
            if self.unawaited:
                raise Internal(f"{route.content_type}: {self.unawaited}")
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
            current_call.reset(token)
            if self._after_sent:
                # The call failed, so the items do not count as sent.
                await self._run_callbacks(delivered=False)
            if self.over is not None:
                self.over()

    async def _stream(
        self, route: Route, events: AsyncGenerator[Any, None], task: asyncio.Task[Any]
    ) -> None:
        """Send the events of a generator. If it never waits, other calls get turns."""
        count = 0
        turn: int | None = None
        turn_began = perf_counter()
        try:
            async for event in events:
                if task.cancelling():
                    raise asyncio.CancelledError  # The plugin caught the cancellation.
                count += 1
                item = self._item(route, event, count)
                if not self._post_if_room(item):
                    await self.send(item)
                if count > 1 and perf_counter() - turn_began > TURN_SECONDS:
                    if turn is None or turn == self.hub.turns.number():
                        await asyncio.sleep(0)
                    # If the method has waited, the others have had their turn.
                    turn, turn_began = self.hub.turns.number(), perf_counter()
        finally:
            await events.aclose()
        if count == 0 and not route.spec.streaming:
            raise Internal(f"{route.content_type} promises one event and yielded none")

    def after_sent(self, callback: Callable[[bool], Awaitable[None]]) -> None:
        """As `Host.after_sent`."""
        self._after_sent = [*(self._after_sent or ()), callback]

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

    def _post_if_room(self, item: Item) -> bool:
        """Send an item if that does not wait; return False if it would."""
        if not self.caller.has_room:
            return False
        if not self.ended:
            self.caller.post(item)
        return True

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

    def finish(self, last: Data | None = None) -> None:
        """End the stream, after a last event if there is one."""
        if self.ended:
            return
        self.ended = True
        if last is None:
            self.caller.post(Done(self.stamp.metadata()))
        else:
            self.caller.post(last, Done(last.metadata))

    def _stamp_for(self, names: tuple[str, ...]) -> Stamp:
        return Stamp(names, visible_hash(self.hub.hash, self.actor))

    def _route(self, path: str) -> Route:
        """Return the method at a path, unless the caller may not call it."""
        route = self.hub.routes.get(path) or self._look_up(path)
        self.spec = route.spec
        if self.actor.grants is None:
            self._stamp = route.stamp
        else:
            self._stamp = self._stamp_for(route.provenance)
            if not may_use(self.actor, route.node, route.spec):
                raise refusal(self.hub, self.actor, path)
        if not self.caller.offers(route.node.path):
            raise PermissionDenied(
                f"this connection may not call {path}",
                suggestion="The connection is limited to other namespaces",
            )
        return route

    def _look_up(self, path: str) -> Route:
        *namespace, name = _split(self, path)
        try:
            node = self.hub.find(namespace)
            self._stamp = self._stamp_for(provenance(self.hub, node))
            return add_route(self.hub, path, node, find_method(node, name))
        except (ActivationNotFound, MethodNotFound):
            if self.actor.grants is None:
                raise
            # The error must not list names that this caller may not see.
            raise refusal(self.hub, self.actor, path) from None

    def _begin(self, route: Route, params: Mapping[str, Any]) -> Any:
        """Validate the params, and call the method: a coroutine, or a generator of its events."""
        if self.large:
            with collection_paused():
                arguments = route.validate(params)
        else:
            arguments = route.validate(params)
        target: Namespace | Activation = route.node.activation
        if route.is_universal:
            target = Namespace(self.hub, route.node, self.actor, self.advise)
        return route.spec.function(target, **arguments)

    def _item(self, route: Route, event: object, count: int) -> Data:
        """Return the item of an event, the `count`th of the call."""
        if count > 1 and not route.spec.streaming:
            raise Internal(f"{route.content_type} promises one event and yielded another")
        if self.unawaited:
            raise Internal(f"{route.content_type}: {self.unawaited}")
        content = encode(event, route.spec.events, route.content_type, route.serialization)
        stamp = self._stamp or self.stamp
        return Data(stamp.metadata(), route.content_type, content)

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
        callbacks, self._after_sent = self._after_sent or [], None
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

    def _info(self) -> bytes:
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
        return to_json(info)

    def _page(self) -> bytes:
        if self.actor.is_agent:
            raise PermissionDenied(
                "only a person may open the page",
                suggestion="Run hubd open outside of an agent",
            )
        if self.hub.page_link is None:
            raise Unavailable("this hub has no page", suggestion="Start one with hubd start")
        return to_json(self.hub.page_link())


# The running call, which host calls of its method belong to. Background tasks that a method starts
# keep it after the call has ended.
current_call: ContextVar[Call] = ContextVar("current_call")


def _unwrap(root: str, path: str, params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the method inside of `call`, and its params."""
    for _ in range(MAX_WRAPS):
        if path != f"{root}.call":
            return path, params
        inner, inner_params = params.get("method"), params.get("params")
        if len(params) > ("method" in params) + ("params" in params):
            unknown = sorted(params.keys() - {"method", "params"})
            raise InvalidParams(f"unknown parameter '{unknown[0]}'", available=["method", "params"])
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
