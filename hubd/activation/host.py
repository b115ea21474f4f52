"""The hub as a plugin sees it: calls, handles, questions to the caller, progress.

`Host` is a protocol. plexus/host.py implements it, and a test may implement it too.
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
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, Protocol, TypeVar

from hubd.activation.templates import Style, TemplateSource
from hubd.errors import HubError
from hubd.wire.caller import Actor, Client, Context
from hubd.wire.checks import Finding
from hubd.wire.handle import WireHandle
from hubd.wire.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hubd.activation.base import Activation

P = ParamSpec("P")
T = TypeVar("T")

# Fields of resolved data that hold its text, in order of preference.
TEXT_FIELDS: Final = ("content", "text", "output", "prompt", "message")


@dataclass(frozen=True)
class Option:
    """One choice of a `select`."""

    value: str
    label: str
    # May have several lines.
    description: str | None = None
    # A letter that chooses this option at a terminal.
    key: str | None = None


class Resolved:
    """The data of a handle."""

    def __init__(self, handle: WireHandle, kind: str, json: bytes, summary: str) -> None:
        self.handle = handle
        self.kind = kind
        # The data as clients get it. It is parsed only if a plugin uses `data` or `text`.
        self.json = json
        # The data in one line.
        self.summary = summary

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """The parsed data."""
        # Pydantic's parser limits the nesting to that of a client's message. Data that a plugin
        # wraps around a message is nested a little deeper.
        data: dict[str, Any] = json.loads(self.json)
        return data

    @property
    def text(self) -> str:
        """The text of the data, for language models and other readers; else its JSON."""
        for name in TEXT_FIELDS:
            if isinstance(text := self.data.get(name), str):
                return text
        return self.json.decode()


class ChildProcess(Protocol):
    """A child process that `host.process` started."""

    @property
    def actor(self) -> Actor:
        """The actor of the calls that the process and its descendants make to this hub."""

    @property
    def identity(self) -> tuple[int, str]:
        """The pid and the start time, for `host.end_process` after the daemon was killed."""

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while the process runs."""

    @property
    def stderr_tail(self) -> str:
        """The last 16 KiB of stderr."""

    def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines of stdout without their ends, until it is closed; blank ones are skipped.

        The process waits while no reader asks. A cancelled reader loses nothing: the next one
        continues there.

        Raises:
            Timeout: The process printed nothing for `silence_seconds`. It still runs.
        """

    def stderr_lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines of stderr, as `lines` does; needs `stderr_lines=True`."""

    def output(self) -> AsyncGenerator[tuple[Literal["stdout", "stderr"], bytes], None]:
        """Yield all bytes of both outputs in order of arrival; needs `raw_output=True`.

        One event loop reads both pipes, so the order is that in which the system had the data.
        The process waits while no reader asks. A cancelled reader loses nothing: the next one
        continues there.

        Raises:
            Timeout: The process printed nothing for `silence_seconds`. It still runs.
        """

    async def write(self, data: bytes) -> None:
        """Write to the standard input, and wait until the system has taken it.

        Raises:
            Timeout: The process does not read its input.
            Unavailable: The input is closed.
        """

    def close_input(self) -> None:
        """Close the standard input."""

    async def wait(self) -> int:
        """Wait for the end of the process and return its exit status."""

    async def end(self, *, eof: bool = True) -> None:
        """End the process and all its descendants: SIGTERM first, then SIGKILL.

        Args:
            eof: Close the standard input before, and give the process time to end by itself.
        """


class Host(Protocol):
    """The type of `self.host`, for use inside a method, a resolver or `lifespan`."""

    @property
    def context(self) -> Context:
        """The caller's working directory and environment; empty if the caller sent none."""

    @property
    def client(self) -> Client:
        """The calling program: its transport, its name, and the actor that it calls for.

        Outside of a call, the actor is the hub itself. A background task keeps the client of the
        call that started it, also after the call has ended.
        """

    async def hub_started(self) -> None:
        """Wait until all plugins have started: background work may then call any of them."""

    async def examine(self) -> list[Finding]:
        """Return the findings of all plugins: see `Activation.examine`."""

    def acting(self, actor: Actor) -> AbstractContextManager[None]:
        """Act as another actor inside the block: `with self.host.acting(actor)`.

        `client` and the calls inside have this actor and its grants. They have no caller to ask,
        and no caller context. Tasks that are started inside act as this actor too.
        """

    def call(
        self, method: str, /, **params: Any
    ) -> AbstractAsyncContextManager[AsyncIterator[dict[str, Any]]]:
        """Call any method of the hub: `async with self.host.call("arbor.tree_get", …) as events`.

        The iterator yields the events as dictionaries. Leaving the block cancels the call.

        Raises:
            HubError: The error of the method, while iterating.
        """

    async def call_one(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Call a method that returns one event, and return this event.

        Raises:
            HubError: The error of the method.
            ExecutionError: The method sent no event, or more than one.
        """

    async def resolve(self, handle: str | WireHandle) -> Resolved:
        """Return the data of a handle of any plugin.

        Raises:
            HubError: As `plexus.resolve_handle`.
        """

    def resolve_each(
        self, handles: Iterable[str | WireHandle]
    ) -> AsyncGenerator[Resolved | HubError, None]:
        """Yield the data of each handle, or its error, in the order of the handles.

        A few are resolved at a time. Use it inside `aclosing`, so that leaving the loop early
        cancels the rest.
        """

    def named(self, handle: WireHandle) -> WireHandle:
        """Return the handle with its plugin's name instead of its id, if the plugin is there."""

    def handle_kinds(self) -> dict[str, str]:
        """Return the kind of data of every handle type, by `plugin::method`."""

    def renderer(self, style: Style) -> Callable[[Resolved], Awaitable[str]]:
        """Return the function that renders data in a style, by the templates of its handle type.

        Without a template, or if the template fails, the text is the summary. A failure is sent to
        the caller as guidance, once for each handle type.
        """

    def providing_templates(self, source: TemplateSource) -> AbstractContextManager[None]:
        """Offer templates by name and by handle type to `resolve_handle` inside the block."""

    async def add_child(self, parent: "Activation", child: "Activation") -> None:
        """Implement `Activation.add_child`."""

    async def remove_child(self, parent: "Activation", namespace: str) -> None:
        """Implement `Activation.remove_child`."""

    async def marks(self, tree_id: str) -> dict[str, list[str]]:
        """Return the names that all plugins give to nodes of a tree (`Activation.marks`)."""

    def unowned(self, handle: WireHandle) -> HubError | None:
        """Return the error of resolving a handle that no plugin owns; None if one does."""

    def may_resolve(self, handle: WireHandle) -> bool:
        """Return whether the client was granted `resolve_handle`, of the hub or of the plugin.

        For a method that shows the data of a handle to its caller, or to a model.
        """

    def prompts_changed(self) -> None:
        """Notify MCP clients that the list of prompts changed."""

    async def progress(self, message: str, percentage: float | None = None) -> None:
        """Send progress to the caller.

        Args:
            message: One line of text.
            percentage: From 0 to 100, if it is known.
        """

    async def advise(self, topic: str, suggestion: str) -> None:
        """Send a warning to the caller, as a guidance item.

        Args:
            topic: A short name of the subject, for programs.
            suggestion: One sentence for people.
        """

    def after_sent(self, callback: Callable[[bool], Awaitable[None]]) -> None:
        """Run `callback` once the caller's connection has taken the events of this call.

        It runs exactly once, after the method has ended: with True when the kernel has taken
        the bytes, the MCP response was sent, or the calling code has taken the items; with
        False if the connection is closed, or the call fails or is cancelled before that. Over
        a socket, the call ends after the callback.

        Raises:
            Internal: No call is running.
        """

    async def in_thread(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function in a thread and return its result.

        Other calls continue meanwhile. The thread sees the context variables of the caller. If
        the call is cancelled, the thread still runs to its end, and its result is dropped.

        Raises:
            TypeError: The function is `async def`, which needs no thread.
        """

    def process(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = b"",
        acts_as: Actor | None = None,
        mark: str | None = None,
        name: str | None = None,
        stderr_lines: bool = False,
        raw_output: bool = False,
        max_line_bytes: int = 8 * 1024 * 1024,
        silence_seconds: float | None = None,
        eof_seconds: float = 0.0,
        term_seconds: float | None = None,
        guarded: bool = False,
    ) -> AbstractAsyncContextManager[ChildProcess]:
        """Run a program for as long as the block lasts.

            async with self.host.process(["ls", "-l"]) as child:
                async for line in child.lines():
                    yield Line(text=line.decode(errors="replace"))
                status = await child.wait()

        Leaving the block ends the program and all its descendants, also if the call is cancelled
        or the daemon stops. When the daemon is killed, the system sends SIGTERM to the program.
        With `guarded`, its descendants are ended too.

        Args:
            command: The program, looked up on the PATH of `env`, and its arguments.
            cwd: The working directory; by default the caller's, else the user's home.
            env: The whole environment, without the hub's secrets; by default `environment`.
            stdin: The standard input, empty by default; None keeps it open for `write`.
            acts_as: The actor of the calls that the program and its descendants make to this
                hub; by default that of the calling method's client.
            mark: A text that no other process on the machine has, such as a UUID. With it and
                the stored identity, `end_process` ends descendants too.
            name: The name of the program in messages.
            stderr_lines: Whether `stderr_lines` is read. Otherwise only the tail is kept.
            raw_output: Whether `output` is read, instead of `lines` and `stderr_lines`.
            max_line_bytes: The maximum size of a line; longer ones are logged and skipped.
            silence_seconds: The longest wait of a reader for output; by default without limit.
            eof_seconds: Seconds to end after the end of the input, before SIGTERM.
            term_seconds: Seconds to end after SIGTERM, before SIGKILL; 6 by default.
            guarded: Whether all processes of the program end too if the daemon is killed.

        Raises:
            Unavailable: The program does not exist, or cannot be started.
        """

    def register_token(self, token: str, actor: Actor) -> None:
        """Let connections with a session token act as an actor, until the daemon ends.

        MCP clients send it in the header `X-Plexus-Session`, or to `hubd mcp` in the variable
        `HUBD_SESSION_TOKEN`. The program that sends it, and its descendants, act as this actor on
        every connection. A process in the tree of `host.process` keeps the actor of the tree.

        Args:
            token: A random text of at least 128 bits. The hub keeps only its digest.
            actor: The actor.
        """

    def remove_token(self, token: str) -> None:
        """Refuse new connections with a session token."""

    @property
    def environment(self) -> dict[str, str]:
        """The caller's environment, or the daemon's, without the hub's secrets."""

    async def end_process(self, pid: int, started: str, mark: str | None = None) -> bool:
        """End a process that an earlier daemon left behind, and all its descendants.

        Args:
            pid: The pid of its identity.
            started: The start time of its identity.
            mark: Its mark.

        Returns:
            Whether it was running.
        """

    async def confirm(
        self, message: str, *, default: bool | None = None, timeout_seconds: float | None = 30.0
    ) -> bool:
        """Ask the caller a yes-or-no question and return the answer.

        The default is the answer if the caller does not answer in time. `timeout_seconds=None`
        waits without a limit. Cancelling the task withdraws the question: the client closes it,
        and shows the message of `task.cancel(message)` as the reason.

        Raises:
            Timeout: The caller did not answer in time, and the question has no default.
            Cancelled: The caller declined to answer, or can't be asked.
        """

    async def prompt(
        self,
        message: str,
        *,
        default: str | None = None,
        placeholder: str | None = None,
        multiline: bool = False,
        timeout_seconds: float | None = 30.0,
    ) -> str:
        """Ask the caller for a text and return it. Raises as `confirm`."""

    async def select(
        self,
        message: str,
        options: Sequence[Option],
        *,
        multi: bool = False,
        timeout_seconds: float | None = 30.0,
    ) -> list[str]:
        """Ask the caller to choose and return the chosen values. Raises as `confirm`."""

    async def custom(self, data: Mapping[str, Any], *, timeout_seconds: float | None = 30.0) -> Any:
        """Ask a question in a format of this plugin and its client. Raises as `confirm`."""
