"""The async client."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from hubd.client.connection import Connection, Transport
from hubd.client.contents import Item, contents, only
from hubd.client.question import Options, Question
from hubd.client.transports import connect_unix, connect_websocket
from hubd.errors import InvalidParams

# Seconds that a hub has to introduce itself.
INFO_SECONDS: Final = 10.0


class Hub:
    """A connection to a hub, for asyncio."""

    def __init__(self, connection: Connection, name: str, version: str) -> None:
        self._connection = connection
        self._options = Options()
        # The name of the hub: `plexus` unless it was started with another one.
        self.name = name
        # The version of hubd that runs there.
        self.version = version

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        *,
        home: str | PathLike[str] | None = None,
        url: str | None = None,
        token: str | None = None,
        token_file: str | PathLike[str] | None = None,
        autostart: bool = False,
    ) -> AsyncIterator["Hub"]:
        """Connect for as long as the block lasts; leaving it cancels the calls that still run.

        Args:
            home: The home of a hub on this machine; by default the hub of this user.
            url: The WebSocket of a hub, such as `ws://127.0.0.1:4444`, instead of a home.
            token: The token for the WebSocket.
            token_file: The file with the token, instead of the token.
            autostart: Start the daemon of the home if it does not run.

        Raises:
            Unavailable: No hub answers.
            Unauthenticated: The hub refused the token.
        """
        transport = await _transport(home, url, token, token_file, autostart=autostart)
        connection = Connection(transport)
        reading = asyncio.create_task(connection.read(), name="hubd client")
        try:
            async with asyncio.timeout(INFO_SECONDS):
                info = await anext(contents(connection.items("_info", {})))
            yield cls(connection, info["backend"], info["version"])
        finally:
            reading.cancel()
            await transport.close()
            await asyncio.wait([reading])

    def calling(
        self,
        *,
        answer: Callable[[Question], Any] | None = None,
        progress: Callable[[str, float | None], None] | None = None,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "Hub":
        """Return the same connection with other options for its calls.

        Args:
            answer: Returns the answer to a question, or None to decline: a bool, a text, or the
                values of a `select`. It may be a coroutine function. Without it, the client
                declines all questions.
            progress: Receives the message and the percentage (0 to 100, or None) of a method.
            cwd: The caller's working directory, for the Unix socket only.
            env: The caller's environment variables, for the Unix socket only.
        """
        hub = Hub(self._connection, self.name, self.version)
        hub._options = self._options.changed(answer, progress, cwd, env)
        return hub

    async def items(self, method: str, /, **params: Any) -> AsyncGenerator[Item, None]:
        """Call a method and yield every item of its stream, up to `done`."""
        request: dict[str, Any] = {"method": method, "params": params}
        if self._options.cwd is not None or self._options.env is not None:
            if not self._connection.carries_context:
                raise InvalidParams(
                    "only the Unix socket carries a caller context",
                    suggestion="Connect without url=, or call without cwd= and env=",
                )
            env = dict(self._options.env or {})
            request["context"] = {"cwd": self._options.cwd, "env": env}
        async with aclosing(self._connection.items(f"{self.name}.call", request)) as items:
            async for item in items:
                yield item

    async def respond(self, request_id: str, response: Mapping[str, Any]) -> None:
        """Send the answer to a request item; `Question.response` makes it from a value."""
        params = {"request_id": request_id, "response_data": response}
        await self._connection.send(f"{self.name}.respond", params)

    def is_closed(self, request_id: str) -> bool:
        """Return whether a request item needs no answer any more."""
        return self._connection.is_closed(request_id)

    async def call(self, method: str, /, **params: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Call a method and yield the content of its events.

        Args:
            method: The path of the method, such as `arbor.tree_list`.
            params: The parameters of the method.

        Raises:
            HubError: The error of the call, with its code, suggestion and available names.
        """
        async with aclosing(contents(self._answered(method, params))) as events:
            async for event in events:
                yield event

    async def call_one(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Call a method and return the content of its only event.

        Raises:
            HubError: The error of the call.
            ExecutionError: There is not exactly one event.
        """
        return only(method, [event async for event in self.call(method, **params)])

    async def resolve(self, handle: str) -> dict[str, Any]:
        """Return the kind and the data of a handle: `{"kind": …, "data": {…}, …}`."""
        return await self.call_one(f"{self.name}.resolve_handle", handle=handle)

    async def schema(self, namespace: str | None = None) -> dict[str, Any]:
        """Return the schema of a namespace, by default that of the hub."""
        return await self.call_one(f"{namespace or self.name}.schema")

    async def _answered(self, method: str, params: Mapping[str, Any]) -> AsyncGenerator[Item, None]:
        async with aclosing(self.items(method, **params)) as items:
            async for item in items:
                if item["type"] == "request":
                    question = Question.from_item(method, item)
                    answer = await self._answer(question, item["requestId"])
                    if not self.is_closed(item["requestId"]):
                        await self.respond(item["requestId"], question.response(answer))
                elif item["type"] == "progress" and self._options.progress is not None:
                    self._options.progress(item["message"], item.get("percentage"))
                yield item

    async def _answer(self, question: Question, request_id: str) -> Any:
        if self._options.answer is None or self.is_closed(request_id):
            return None
        answer = self._options.answer(question)
        if not inspect.isawaitable(answer):
            return answer
        # The hub waits no longer than the time limit, or until it closes the question.
        task = asyncio.ensure_future(answer)
        waiting = asyncio.create_task(self._connection.closed(request_id))
        try:
            await asyncio.wait(
                [task, waiting],
                timeout=question.timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            return task.result() if task.done() else None
        finally:
            waiting.cancel()
            task.cancel()


async def _transport(
    home: str | PathLike[str] | None,
    url: str | None,
    token: str | None,
    token_file: str | PathLike[str] | None,
    *,
    autostart: bool,
) -> Transport:
    if url is None:
        return await connect_unix(None if home is None else fspath(home), autostart=autostart)
    if token_file is not None:
        token = (await asyncio.to_thread(Path(token_file).read_text)).strip()
    return await connect_websocket(url, token)
