"""A hub in the test's own process, with a real database, for the tests of a plugin.

    from hubd.testing import hub

    async def test_an_added_note_is_listed() -> None:
        async with hub(Notes()) as h:
            added = await h.call_one("notes.add", text="milk")
            [note] = [event async for event in h.call("notes.latest")]
            assert note["ref"] == added["ref"]

Calls take the same path as a client's: JSON in, validation, JSON out. Plugins get their tables,
settings and `lifespan` as in the daemon. Only the sockets are missing.

With `pytest_plugins = ["hubd.testing"]` in a conftest.py, tests can use the fixture `plexus_hub`.
(PYTEST_DONT_REWRITE: tests may import this module before pytest loads it as a plugin.)
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from enum import Enum
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hubd.activation import Activation, Client, Context, Resolved, WireHandle
from hubd.client import Question
from hubd.client.contents import contents
from hubd.plexus.discovery import Source
from hubd.plexus.dispatch import Call
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.plexus.lifecycle import plugins
from hubd.plexus.params.json_values import to_json_values
from hubd.plexus.root import build_hub
from hubd.storage.database import Database
from hubd.wire.caller import PERSON, Actor
from hubd.wire.item import Data, Done, Item, Request
from hubd.wire.paths import HUB_NAME

__all__ = ["DECLINED", "NO_ANSWER", "InProcessHub", "Question", "hub"]

# Seconds that a cancelled method has to run its `finally` blocks.
CLEANUP_SECONDS: Final = 5.0


class Special(Enum):
    """An answer that is not a value."""

    # The caller declines to answer.
    DECLINED = "DECLINED"
    # The time limit of the question passes; the test does not wait for it.
    NO_ANSWER = "NO_ANSWER"


DECLINED: Final = Special.DECLINED
NO_ANSWER: Final = Special.NO_ANSWER


class InProcessHub:
    """A running hub and the caller that a test plays."""

    def __init__(
        self,
        hub: Hub,
        host: PlexusHost,
        script: "_Script",
        caller: Context,
        actor: Actor = PERSON,
    ) -> None:
        # The tree of plugins, for tests that look inside.
        self.hub = hub
        self._host = host
        self._script = script
        self._caller = caller
        self._actor = actor

    @property
    def database(self) -> Database:
        """The hub's database."""
        assert self.hub.database is not None
        return self.hub.database

    def calling(
        self,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        actor: Actor = PERSON,
    ) -> "InProcessHub":
        """Return the same hub, called from a working directory and with an environment.

        Args:
            cwd: The caller's working directory.
            env: The caller's environment variables, all of them.
            actor: The person or agent that calls; a person by default.
        """
        caller = Context(None if cwd is None else fspath(cwd), dict(env or {}))
        return InProcessHub(self.hub, self._host, self._script, caller, actor)

    async def items(self, method: str, /, **params: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Call a method and yield every item of its stream as a client sees it.

        The last item is `done`. A failure is the items `guidance` and `error`, not an exception.
        Closing the iterator cancels the call.

        Args:
            method: The path of the method, such as `notes.add`.
            params: The parameters of the method.
        """
        client = Client("test", actor=self._actor)
        caller = _Caller(self._caller, client, self._host, self._script, method)
        # A client's params arrive as JSON.
        call = Call(self.hub, method, to_json_values(params), caller)
        task = asyncio.create_task(call.run(), name=method)
        try:
            while not isinstance(item := await caller.next_item(), Done):
                yield json.loads(item.encode())
            # The plugin's `after_sent` callbacks have run.
            await task
            yield json.loads(item.encode())
        finally:
            task.cancel()
            await asyncio.wait([task], timeout=CLEANUP_SECONDS)

    async def call(self, method: str, /, **params: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Call a method and yield the content of its events.

        Raises:
            HubError: The error of the call, with its code, suggestion and available names.
            AssertionError: The method asked a question that has no scripted answer.
        """
        async with aclosing(contents(self.items(method, **params))) as events:
            async for event in events:
                yield event

    async def call_one(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Call a method and return the content of its only event.

        Raises:
            HubError: As `call`.
            AssertionError: As `call`, or there is not exactly one event.
        """
        events = [event async for event in self.call(method, **params)]
        if len(events) != 1:
            raise AssertionError(f"{method} yielded {len(events)} events, not one: {events}")
        return events[0]

    async def resolve(self, handle: str | WireHandle) -> Resolved:
        """Return the data of a handle.

        Raises:
            HubError: The handle cannot be resolved.
        """
        return await self._host.resolve(handle)

    def answers(self, *values: Any) -> None:
        """Add answers for the next questions, in the order of the questions.

        A test fails if a question has no answer, or if an answer is left at the end.

        Args:
            values: A bool for a `confirm`, a text for a `prompt`, a list of values (or one value)
                for a `select`, anything for a custom question; `DECLINED` and `NO_ANSWER` for any.
        """
        self._script.values.extend(values)


@asynccontextmanager
async def hub(
    *activations: Activation,
    path: str | PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    answer: Callable[[Question], Any] | None = None,
    name: str = HUB_NAME,
) -> AsyncIterator[InProcessHub]:
    """Run a hub with these plugins for as long as the block lasts.

    Args:
        activations: The plugins. Each belongs to one hub only.
        path: The file of the database, to be opened again later; a temporary one by default.
        settings: The configuration file's sections: `{"notes": {"limit": 3}}`.
        answer: Answers the questions that `answers()` has no answer for.
        name: The name of the hub.

    Raises:
        Exception: A plugin cannot be attached or started.
        AssertionError: A scripted answer was not used.
    """
    script = _Script(answer)
    with TemporaryDirectory(prefix="hubd-") as temporary:
        file = Path(temporary, "hub.db") if path is None else Path(path)
        async with Database(file) as database:
            built = build_hub(name, database=database, settings=settings)
            host = PlexusHost(built)
            async with plugins(built, host, ()) as running:
                for activation in activations:
                    target = f"{type(activation).__module__}:{type(activation).__qualname__}"
                    node = built.attach(activation, host)
                    await running.bring_up(node, Source(target, "test"))
                yield InProcessHub(built, host, script, Context())
    if script.values:
        raise AssertionError(f"no question asked for these answers: {list(script.values)}")


class _Script:
    """The answers of a test to the questions of the plugins."""

    def __init__(self, answer: Callable[[Question], Any] | None) -> None:
        # Taken from the left, one for each question.
        self.values: deque[Any] = deque()
        self._answer = answer

    def next_answer(self, question: Question) -> Any:
        if self.values:
            return self.values.popleft()
        if self._answer is None:
            raise AssertionError(f"no answer for the {question}; add one with answers(…)")
        return self._answer(question)


class _Caller:
    """The caller of one call: holds its items until the test takes them."""

    # A test can always answer.
    unanswerable: str | None = None
    # Events go through `send`, which waits until the test takes them.
    has_room = False

    def __init__(
        self, context: Context, client: Client, host: PlexusHost, script: _Script, method: str
    ) -> None:
        self.context = context
        self.client = client
        self._host = host
        self._script = script
        self._method = method
        self._items: asyncio.Queue[Item | Exception] = asyncio.Queue()
        # Room for one event, so that a method runs at most one event ahead of the test.
        self._room = asyncio.Semaphore(1)
        # Set when the test takes the last event, if the plugin waits for that.
        self._delivered: asyncio.Future[bool] | None = None

    def offers(self, namespace: str) -> bool:
        return True

    async def send(self, item: Item) -> None:
        if isinstance(item, Data):
            await self._room.acquire()
        self._items.put_nowait(item)
        if isinstance(item, Request):
            self._respond(item)

    def post(self, *items: Item) -> None:
        for item in items:
            self._items.put_nowait(item)

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        if self._room.locked():
            self._delivered = handed_over
        else:
            handed_over.set_result(True)

    async def next_item(self) -> Item:
        item = await self._items.get()
        if isinstance(item, Exception):
            raise item
        if isinstance(item, Data):
            self._room.release()
            if self._delivered is not None and not self._delivered.done():
                self._delivered.set_result(True)
        return item

    def _respond(self, request: Request) -> None:
        question = Question.from_item(self._method, json.loads(request.encode()))
        try:
            answer = self._script.next_answer(question)
            if answer is NO_ANSWER:
                self._host.questions.expire(request.request_id)
                return
            response = question.response(None if answer is DECLINED else answer)
            problem = self._host.questions.answer(request.request_id, response, self.client.actor)
            if problem is not None:
                raise AssertionError(f"{answer!r} does not answer the {question}: {problem}")
        except Exception as error:  # noqa: BLE001 -- the test's own code; it is raised in the test
            self._items.put_nowait(error)


with suppress(ImportError):
    import pytest

    @pytest.fixture
    def plexus_hub(
        tmp_path: Path,
    ) -> Callable[..., AbstractAsyncContextManager[InProcessHub]]:
        """Provide `hub(…)` with its database in the test's directory.

        A second hub in the same test opens the database of the first.
        """
        return partial(hub, path=tmp_path / "hub.db")
