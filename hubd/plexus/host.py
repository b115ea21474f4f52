"""The implementation of `self.host`: calls, handles, questions and progress of plugins."""

import asyncio
import inspect
import logging
import math
import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from pydantic_core import from_json, to_json

from hubd.activation.base import Activation
from hubd.activation.host import ChildProcess, Option, Resolved
from hubd.activation.templates import Style, TemplateSource
from hubd.errors import Cancelled, ExecutionError, HubError, Internal, Timeout
from hubd.plexus.dispatch import Call, current_call
from hubd.plexus.hub import Hub
from hubd.plexus.nested_call import NO_CALLER, Events, NestedCaller, NestedEvents
from hubd.plexus.params.json_values import to_json_values
from hubd.plexus.questions import Questions
from hubd.plexus.resolve import resolve, resolve_each
from hubd.plexus.templates import by_style
from hubd.storage.must_await import must_await
from hubd.wire.caller import Actor, Client, Context
from hubd.wire.checks import Finding
from hubd.wire.handle import WireHandle
from hubd.wire.item import ANSWERS, DECLINED, Progress

P = ParamSpec("P")
T = TypeVar("T")

# Seconds that a nested call has to end after its block was left.
CLEANUP_SECONDS: Final = 5.0
# The time that a plugin has to mark the nodes of a tree.
MARKS_SECONDS: Final = 2.0

log = logging.getLogger(__name__)


class ChildLifecycle(Protocol):
    """Starts and stops children at run time. lifecycle.py implements it."""

    async def add_child(self, parent: Activation, child: Activation) -> None:
        """Attach and start a child."""

    async def remove_child(self, parent: Activation, namespace: str) -> None:
        """Detach and stop a child."""


class PlexusHost:
    """The implementation of `Host`. All activations of a hub share it."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.questions = Questions()
        # Set by lifecycle.py while plugins run.
        self.running: ChildLifecycle | None = None
        # Set by lifecycle.py when all plugins have started.
        self.all_started = asyncio.Event()

    @property
    def context(self) -> Context:
        """As `Host.context`."""
        call = _current_call()
        return call.caller.context if call else Context()

    @property
    def client(self) -> Client:
        """As `Host.client`."""
        acting = _current_acting()
        if acting is not None:
            return Client(actor=acting)
        call = current_call.get(None)
        return call.caller.client if call else Client()

    @must_await
    async def hub_started(self) -> None:
        """As `Host.hub_started`."""
        await self.all_started.wait()

    async def examine(self) -> list[Finding]:
        """As `Host.examine`."""
        # lifecycle.py starts plugins with this host, so it imports this module.
        from hubd.plexus.lifecycle import examine_plugins

        return await examine_plugins(self._hub)

    @contextmanager
    def acting(self, actor: Actor) -> Iterator[None]:
        """As `Host.acting`."""
        token = _acting.set((actor, current_call.get(None)))
        try:
            yield
        finally:
            _acting.reset(token)

    def call(self, method: str, /, **params: Any) -> NestedEvents:
        """As `Host.call`."""
        return NestedEvents(self._calling(method, params), method)

    @asynccontextmanager
    async def _calling(self, method: str, params: dict[str, Any]) -> AsyncIterator[Events]:
        caller = NestedCaller(_current_call(), self.client, method)
        # Params of plugins are validated by the same rules as those of clients.
        call = Call(self._hub, method, to_json_values(params), caller)
        task = asyncio.create_task(call.run(), name=f"nested {method}")
        try:
            yield caller.events()
        finally:
            task.cancel()
            await asyncio.wait([task], timeout=CLEANUP_SECONDS)

    @must_await
    async def call_one(self, method: str, /, **params: Any) -> dict[str, Any]:
        """As `Host.call_one`."""
        async with self.call(method, **params) as events:
            first = await anext(events, None)
            if first is None:
                raise ExecutionError(f"{method} sent no event; call_one needs exactly one")
            if await anext(events, None) is not None:
                raise ExecutionError(
                    f"{method} sent more than one event; read them with `host.call`"
                )
        return first

    @must_await
    async def resolve(self, handle: str | WireHandle) -> Resolved:
        """As `Host.resolve`."""
        _, results = await resolve(self._hub, handle)
        return results[0]

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

    def handle_kinds(self) -> dict[str, str]:
        """As `Host.handle_kinds`."""
        return {
            f"{node.path}::{name}": entry.handle.kind
            for node in self._hub.root.walk()
            for name, entry in node.activation.resolvers.items()
        }

    def renderer(self, style: Style) -> Callable[[Resolved], Awaitable[str]]:
        """As `Host.renderer`."""
        return by_style(self._hub, style, self.advise)

    @contextmanager
    def providing_templates(self, source: TemplateSource) -> Iterator[None]:
        """As `Host.providing_templates`."""
        self._hub.template_sources.append(source)
        try:
            yield
        finally:
            self._hub.template_sources.remove(source)

    @must_await
    async def add_child(self, parent: Activation, child: Activation) -> None:
        """As `Host.add_child`."""
        await self._lifecycle.add_child(parent, child)

    @must_await
    async def remove_child(self, parent: Activation, namespace: str) -> None:
        """As `Host.remove_child`."""
        await self._lifecycle.remove_child(parent, namespace)

    @property
    def _lifecycle(self) -> ChildLifecycle:
        if self.running is None:
            raise RuntimeError("children can be added and removed only while the hub runs")
        return self.running

    @must_await
    async def marks(self, tree_id: str) -> dict[str, list[str]]:
        """As `Host.marks`."""
        marks: dict[str, list[str]] = {}
        for node in self._hub.root.walk():
            try:
                async with asyncio.timeout(MARKS_SECONDS):
                    names_by_node = await node.activation.marks(tree_id)
            except Exception:
                # A drawing without marks is better than none.
                log.exception("the marks of %s failed", node.path)
                continue
            for node_id, names in names_by_node.items():
                marks.setdefault(node_id, []).extend(names)
        return marks

    def unowned(self, handle: WireHandle) -> HubError | None:
        """As `Host.unowned`."""
        try:
            self._hub.owner_of(handle)
        except HubError as error:
            return error
        return None

    def may_resolve(self, handle: WireHandle) -> bool:
        """As `Host.may_resolve`."""
        namespaces = (self._hub.name, self.named(handle).plugin)
        return any(self.client.actor.is_granted(each, "resolve_handle") for each in namespaces)

    def prompts_changed(self) -> None:
        """As `Host.prompts_changed`."""
        self._hub.tell("prompts")

    @must_await
    async def progress(self, message: str, percentage: float | None = None) -> None:
        """As `Host.progress`."""
        call = _current_call()
        if call is not None:
            if percentage is not None:
                percentage = 0.0 if math.isnan(percentage) else min(max(percentage, 0.0), 100.0)
            await call.send(Progress(call.stamp.metadata(), message, percentage))

    @must_await
    async def advise(self, topic: str, suggestion: str) -> None:
        """As `Host.advise`."""
        call = _current_call()
        if call is not None:
            await call.advise(topic, suggestion)

    def after_sent(self, callback: Callable[[bool], Awaitable[None]]) -> None:
        """As `Host.after_sent`."""
        call = _current_call()
        if call is None or call.ended:
            raise Internal("after_sent needs a running call")

        async def run(delivered: bool) -> None:
            result: object = callback(delivered)
            if not inspect.isawaitable(result):
                name = getattr(callback, "__qualname__", repr(callback))
                raise TypeError(f"after_sent got {name}; write it with `async def`")
            await result

        call.after_sent(run)

    @must_await
    async def in_thread(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As `Host.in_thread`."""
        result = await asyncio.to_thread(function, *args, **kwargs)
        if inspect.iscoroutine(result) or inspect.isasyncgen(result):
            if inspect.iscoroutine(result):
                # Closed, so that Python does not also warn that it was never awaited.
                result.close()
            name = getattr(function, "__qualname__", repr(function))
            raise TypeError(f"in_thread got {name}, which is `async def`; call it without a thread")
        return result

    @asynccontextmanager
    async def process(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        acts_as: Actor | None = None,
        **options: Any,
    ) -> AsyncIterator[ChildProcess]:
        """As `Host.process`."""
        # Seldom needed, and on the way of every start.
        from hubd.process.child import ChildProcess as Child
        from hubd.process.environment import child_environment

        if isinstance(command, str):
            raise TypeError(
                f"host.process got the text {command[:80]!r}; write a list with the program and "
                'each argument, such as ["ls", "-l"]'
            )
        options.setdefault("stdin", b"")
        child = Child(
            command,
            cwd=Path(cwd or self.context.cwd or Path.home()),
            env=self.environment if env is None else child_environment(env, self._database_file),
            actor=acts_as or self.client.actor,
            **options,
        )
        async with self._hub.actors.running(child):
            yield child

    def register_token(self, token: str, actor: Actor) -> None:
        """As `Host.register_token`."""
        self._hub.actors.register_token(token, actor)

    def remove_token(self, token: str) -> None:
        """As `Host.remove_token`."""
        self._hub.actors.remove_token(token)

    @property
    def environment(self) -> dict[str, str]:
        """As `Host.environment`."""
        from hubd.process.environment import child_environment

        return child_environment(self.context.env or os.environ, self._database_file)

    @property
    def _database_file(self) -> Path | None:
        return None if self._hub.database is None else self._hub.database.path

    @must_await
    async def end_process(self, pid: int, started: str, mark: str | None = None) -> bool:
        """As `Host.end_process`."""
        from hubd.process.tree import reap

        return await reap(pid, started, mark)

    @must_await
    async def confirm(
        self, message: str, *, default: bool | None = None, timeout_seconds: float | None = 30.0
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
        timeout_seconds: float | None = 30.0,
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
        timeout_seconds: float | None = 30.0,
    ) -> list[str]:
        """As `Host.select`."""
        choices = [
            _drop_none(
                value=option.value,
                label=option.label,
                description=option.description,
                key=option.key,
            )
            for option in options
        ]
        request = _request("select", message=message, options=choices, multiSelect=multi or None)
        values: list[str] = await self._ask(request, None, timeout_seconds)
        return values

    @must_await
    async def custom(self, data: Mapping[str, Any], *, timeout_seconds: float | None = 30.0) -> Any:
        """As `Host.custom`."""
        plain = from_json(to_json(data, inf_nan_mode="null"))
        return await self._ask(_request("custom", data=plain), None, timeout_seconds)

    async def _ask(
        self, request: dict[str, Any], default: object, timeout_seconds: float | None
    ) -> Any:
        call = _current_call()
        if call is None or call.ended:
            raise Cancelled(NO_CALLER)
        if (reason := call.caller.unanswerable) is not None:
            raise Cancelled(reason)
        if call.spec is None or not call.spec.bidirectional:
            raise Internal(f"{call.method} asks its caller; mark it @method(bidirectional=True)")
        answer = await self.questions.ask(call, request, timeout_seconds)
        if answer["type"] == "cancelled":
            raise Cancelled(DECLINED)
        if answer["type"] == "timeout":
            if default is not None:
                return default
            limit = "in time" if timeout_seconds is None else f"within {timeout_seconds:g} s"
            raise Timeout(f"no answer {limit}")
        return answer[ANSWERS[request["type"]][1]]


# Set by `Host.acting`: the actor, and the call in which it was set. Calls below act for their own
# caller, which has this actor.
_acting: ContextVar[tuple[Actor, Call | None] | None] = ContextVar("acting", default=None)


def _current_acting() -> Actor | None:
    """Return the actor that the current code acts as by `Host.acting`; None without it."""
    acting = _acting.get()
    return acting[0] if acting is not None and acting[1] is current_call.get(None) else None


def _current_call() -> Call | None:
    """Return the call that the current code belongs to; None if it acts as another actor."""
    return current_call.get(None) if _current_acting() is None else None


def _request(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **_drop_none(**fields)}


def _drop_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
