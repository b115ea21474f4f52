"""The blocking client: the async one, run by a thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import closing, contextmanager
from os import PathLike
from typing import Any, TypeVar

from hubd.client.contents import ContentReader, Item, only
from hubd.client.hub import Hub
from hubd.client.question import Options, Question

T = TypeVar("T")


class LoopThread:
    """A thread that runs an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon thread: a program that ends without leaving the block is not held up.
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="hubd client", daemon=True
        )

    def __enter__(self) -> "LoopThread":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # An interrupt of the waiting thread; otherwise the work has ended already.
            future.cancel()
            raise


class SyncHub:
    """A connection to a hub for blocking code. Threads may share it."""

    def __init__(self, hub: Hub, loop: LoopThread) -> None:
        self._hub = hub
        self._loop = loop
        self._options = Options()
        self.name = hub.name
        self.version = hub.version

    @classmethod
    @contextmanager
    def connect(cls, **options: Any) -> Generator["SyncHub", None, None]:
        """Connect as `Hub.connect` does, with the same options."""
        with LoopThread() as loop:
            connecting = Hub.connect(**options)
            hub = loop.run(connecting.__aenter__())
            try:
                yield cls(hub, loop)
            finally:
                loop.run(connecting.__aexit__(None, None, None))

    def calling(
        self,
        *,
        answer: Callable[[Question], Any] | None = None,
        progress: Callable[[str, float | None], None] | None = None,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "SyncHub":
        """Return the same connection with other options, as `Hub.calling` does.

        `answer` and `progress` are plain functions. They run in the thread of the call.
        """
        hub = SyncHub(self._hub.calling(cwd=cwd, env=env), self._loop)
        hub._options = self._options.changed(answer, progress, cwd, env)
        return hub

    def items(self, method: str, /, **params: Any) -> Generator[Item, None, None]:
        """Call a method and yield every item of its stream, up to `done`."""
        items = self._hub.items(method, **params)
        try:
            while (item := self._loop.run(_next(items))) is not None:
                yield item
        finally:
            self._loop.run(items.aclose())

    def call(self, method: str, /, **params: Any) -> Generator[dict[str, Any], None, None]:
        """Call a method and yield the content of its events.

        Raises:
            HubError: The error of the call, with its code, suggestion and available names.
        """
        reader = ContentReader()
        with closing(self.items(method, **params)) as items:
            for item in items:
                if item["type"] == "request":
                    question = Question.from_item(method, item)
                    self._answer(question, item["requestId"])
                elif item["type"] == "progress" and self._options.progress is not None:
                    self._options.progress(item["message"], item.get("percentage"))
                elif (content := reader.read(item)) is not None:
                    yield content

    def _answer(self, question: Question, request_id: str) -> None:
        if self._hub.is_closed(request_id):
            return
        answer = self._options.answer(question) if self._options.answer else None
        if not self._hub.is_closed(request_id):
            self._loop.run(self._hub.respond(request_id, question.response(answer)))

    def call_one(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Call a method and return the content of its only event, as `Hub.call_one`."""
        return only(method, list(self.call(method, **params)))

    def resolve(self, handle: str) -> dict[str, Any]:
        """Return the kind and the data of a handle: `{"kind": …, "data": {…}, …}`."""
        return self.call_one(f"{self.name}.resolve_handle", handle=handle)

    def schema(self, namespace: str | None = None) -> dict[str, Any]:
        """Return the schema of a namespace, by default that of the hub."""
        return self.call_one(f"{namespace or self.name}.schema")


async def _next(items: AsyncGenerator[Item, None]) -> Item | None:
    return await anext(items, None)
