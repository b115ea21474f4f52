"""The hub as a plugin sees it: calling, resolving, asking the caller, telling progress.

Only the surface; the hub implements it (plexus/host.py), and a test may implement it too.
"""

import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from hubd.errors import HubError
from hubd.wire.caller import Client, Context
from hubd.wire.handle import WireHandle

if TYPE_CHECKING:
    from hubd.activation.base import Activation

# The fields in which resolved data mostly says what it has to say, the best first.
SAYING: Final = ("content", "text", "output", "prompt", "message")


@dataclass(frozen=True)
class Option:
    """One choice of a `select`."""

    value: str
    label: str
    description: str | None = None


class Resolved:
    """What a handle pointed at."""

    def __init__(self, handle: WireHandle, kind: str, json: bytes, summary: str) -> None:
        self.handle = handle
        self.kind = kind
        # The data as any client sees it; most who resolve only pass it on.
        self.json = json
        # The data in one line.
        self.summary = summary

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """The data, to look into."""
        # Not pydantic's parser: it refuses what is nested deeper than a client may send, and
        # what a plugin makes of that is a little deeper.
        data: dict[str, Any] = json.loads(self.json)
        return data

    @property
    def text(self) -> str:
        """What it says, for readers of plain text such as language models; else its JSON."""
        for name in SAYING:
            if isinstance(said := self.data.get(name), str):
                return said
        return self.json.decode()


class Host(Protocol):
    """What `self.host` offers inside a method, a resolver or `lifespan`."""

    @property
    def context(self) -> Context:
        """The caller's working directory and environment; empty where it gave none."""

    @property
    def client(self) -> Client:
        """The program that calls: its transport, its name, and the session it speaks for."""

    def call(
        self, method: str, /, **params: Any
    ) -> AbstractAsyncContextManager[AsyncIterator[dict[str, Any]]]:
        """Call any method of the hub: `async with self.host.call("arbor.tree_get", …) as events`.

        Yields the contents of its data items. Leaving the block ends the call.

        Raises:
            HubError: What the method ended with, while iterating.
        """

    async def resolve(self, handle: str | WireHandle) -> Resolved:
        """What a handle of any plugin points at.

        Raises:
            HubError: As `plexus.resolve_handle`.
        """

    def resolve_each(
        self, handles: Iterable[str | WireHandle]
    ) -> AsyncGenerator[Resolved | HubError, None]:
        """Each of several handles in order, a few at a time; one that fails is its error.

        Use it inside `aclosing`, so that leaving early ends what is under way.
        """

    def named(self, handle: WireHandle) -> WireHandle:
        """The same handle with its plugin's name in place of an id, where the hub knows it."""

    async def add_child(self, parent: "Activation", child: "Activation") -> None:
        """Attach a child below a plugin: use `self.add_child(child)`."""

    async def remove_child(self, parent: "Activation", namespace: str) -> None:
        """Detach such a child: use `self.remove_child(namespace)`."""

    def unowned(self, handle: WireHandle) -> HubError | None:
        """Return the error that resolving would end with if no plugin owns a handle."""

    def prompts_changed(self) -> None:
        """Tell whoever shows prompts that this plugin offers others than before."""

    async def progress(self, message: str, percentage: float | None = None) -> None:
        """Tell the caller how far the method is."""

    async def advise(self, topic: str, suggestion: str) -> None:
        """Tell the caller something to know that is no error: a guidance item, a warning."""

    def when_delivered(self, callback: Callable[[bool], Awaitable[None]]) -> None:
        """Run `callback` once the caller has everything that this call yields.

        It runs exactly once, after the method has ended: with True when the kernel has taken
        the bytes, the MCP response was sent, or the calling code has taken the items; with
        False if the caller is gone, or the call fails or is cancelled before that. Over a
        socket, the call ends after the callback.

        Raises:
            Internal: No call is running.
        """

    async def confirm(
        self, message: str, *, default: bool | None = None, timeout_seconds: float = 30.0
    ) -> bool:
        """Ask yes or no.

        Without an answer in time the default stands, where there is one.

        Raises:
            Timeout: No answer, no default.
            Cancelled: The caller declined to answer, or cannot be asked.
        """

    async def prompt(
        self,
        message: str,
        *,
        default: str | None = None,
        placeholder: str | None = None,
        multiline: bool = False,
        timeout_seconds: float = 30.0,
    ) -> str:
        """Ask for a text. Raises as `confirm`."""

    async def select(
        self,
        message: str,
        options: Sequence[Option],
        *,
        multi: bool = False,
        timeout_seconds: float = 30.0,
    ) -> list[str]:
        """Ask to choose; the values chosen. Raises as `confirm`."""

    async def custom(self, data: Mapping[str, Any], *, timeout_seconds: float = 30.0) -> Any:
        """Ask something that only this plugin and its client understand. Raises as `confirm`."""
