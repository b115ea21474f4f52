"""The composition root: start and stop the database, the hub, the plugins and the transports.

Start: directories, lock, log, token, ports, database, plugins, Unix sockets, record, TCP.
Stop: in reverse order. Every wait is bounded, and a watchdog ends the process if a plugin blocks
the event loop or the interpreter.
"""

import asyncio
import gc
import importlib
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from hubd import __version__
from hubd.activation.schema_cache import SCHEMA_CACHE
from hubd.activation.settings import read_settings
from hubd.config import LARGEST_MESSAGE_MIB, Settings, read_file
from hubd.daemon import instance, log, watchdog
from hubd.daemon import token_file as token
from hubd.daemon.captured_output import captured_output, send_descriptors_to_log
from hubd.daemon.control import LOADING
from hubd.daemon.event_loop import loop_factory, report_blocking
from hubd.daemon.home_watch import HomeWatch
from hubd.errors import DatabaseUnusable, InvalidParams, StartupFailed
from hubd.mcp.access import McpOptions, check_profile, read_profile
from hubd.mcp.on_demand import LazyMcp
from hubd.mcp.transports.stdio import serve_mcp_stdio
from hubd.page.codes import Codes
from hubd.plexus.discovery import BUILT_IN_NAMES, Source, sources
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import RESERVED, Hub
from hubd.plexus.lifecycle import plugins
from hubd.plexus.root import build_hub
from hubd.plexus.unawaited import warnings_in_log
from hubd.process.tree import adopt_orphans
from hubd.rpc.clients import Clients
from hubd.rpc.gate import Gate
from hubd.rpc.unix import serve_unix
from hubd.storage.database import Database
from hubd.storage.maintenance import remove_unfinished_copies
from hubd.wire.limits import MAX_MESSAGE_MIB, MIB
from hubd.wire.paths import MCP_PORT, WS_PORT
from hubd.wire.text import did_you_mean

logger = logging.getLogger("hubd")

LOOPBACK: Final = "127.0.0.1"
# The longest time from SIGTERM to the exit. Each step of an orderly stop is bounded too.
STOP_SECONDS: Final = 9.0
OPEN_FILES: Final = 4096
STDERR: Final = 2
# The time for the first call, before the TCP transports are imported.
FIRST_CALL_SECONDS: Final = 0.03
# The longest turn of another thread while the TCP transports are imported.
TURN_SECONDS: Final = 0.0005
# Connections that the system keeps until they are accepted.
BACKLOG: Final = 512
# New objects after which the garbage collector looks for cycles. Calls form none, so the default of
# 700 would look at the objects of 64 running calls several times in each of their turns.
COLLECT_AFTER: Final = 10_000


def run(settings: Settings, *, options: list[str], detached: bool) -> None:
    """Run the daemon until SIGTERM or SIGINT.

    Args:
        settings: The settings of the daemon.
        options: The command line, for `hubd restart`.
        detached: Whether the daemon runs in the background, without a reader of stderr.

    Raises:
        HubError: The daemon cannot start, or its database is lost.
    """
    if settings.name in BUILT_IN_NAMES:
        raise InvalidParams(
            f"hub name '{settings.name}' is the name of a plugin",
            suggestion="Choose another --name",
        )
    instance.prepare_directories(settings.paths)
    try:
        with instance.exclusive(settings.paths):
            _allow_many_files()
            log.set_up(Path(settings.paths.log), level=settings.log_level, to_stderr=not detached)
            remove_unfinished_copies(Path(settings.paths.data))
            daemon = _Daemon(settings, options, detached=detached)
            output = captured_output() if detached else nullcontext()
            factory = loop_factory(settings.event_loop)
            with output, warnings_in_log(), asyncio.Runner(loop_factory=factory) as runner:
                runner.run(daemon.serve())
    except OSError as error:
        where = error.filename or settings.paths.data
        raise StartupFailed(f"{where} cannot be used: {error.strerror or error}") from error


class _Daemon:
    """One run of the daemon."""

    def __init__(self, settings: Settings, options: list[str], *, detached: bool) -> None:
        self._settings = settings
        self._options = options
        self._detached = detached
        self._directory = str(Path.cwd())
        self._started_at = time.time()
        # Set by a signal.
        self._stop = asyncio.Event()

    async def serve(self) -> None:
        """Start, serve until a signal, and stop.

        Raises:
            HubError: The daemon cannot start, or its database is lost.
        """
        settings, paths = self._settings, self._settings.paths
        self._watch_signals()
        secret = token.load_or_create(Path(paths.token)) if settings.auth else None
        if secret is None:
            logger.warning("--no-auth: all local users can use this hub over TCP")
        async with AsyncExitStack() as stack:
            # Removed last, because `hubd stop` may read it until the end.
            stack.callback(instance.remove_record, paths)
            listener = stack.enter_context(_bind(settings.port, WS_PORT, "--port"))
            mcp_listener = stack.enter_context(_bind(settings.mcp_port, MCP_PORT, "--mcp-port"))
            database = await stack.enter_async_context(Database(Path(paths.database)))
            config = read_file(paths.config)
            mcp_options = _mcp_options(settings, config)
            hub = build_hub(settings.name, database=database, settings=config)
            host = PlexusHost(hub)
            # Before plugins start programs, so that no orphan of theirs leaves this process.
            adopt_orphans()
            plugin_sources = sources(settings.plugins)
            if self._detached:
                plugin_sources = _announced(plugin_sources)
            await stack.enter_async_context(plugins(hub, host, plugin_sources))
            _check_mcp_tools(mcp_options, hub)
            _check_sections(paths.config, config, hub)
            max_bytes = _max_message_bytes(settings, config)
            clients = await stack.enter_async_context(Clients(hub, host.questions, max_bytes))
            port, mcp_port = (bound.getsockname()[1] for bound in (listener, mcp_listener))
            codes = Codes(mcp_port)
            hub.page_link = codes.link
            lazy = LazyMcp(clients, host, mcp_options, Path(paths.results))
            await stack.enter_async_context(lazy)
            sockets = [
                await stack.enter_async_context(serve_unix(clients, Path(paths.socket))),
                await stack.enter_async_context(serve_mcp_stdio(lazy, Path(paths.mcp_socket))),
            ]
            record = self._record(port, mcp_port)
            assert database.identity is not None
            watch = HomeWatch(
                Path(paths.record),
                lambda: instance.write_record(paths, record),
                sockets,
                database.identity.problem,
            )
            watch.write_record()
            # The program that started the hub calls it now, and an import would slow its call down.
            await asyncio.sleep(FIRST_CALL_SECONDS)
            # In a thread, so that clients of the open Unix socket don't wait.
            with _short_turns():
                await asyncio.to_thread(_import_transports)
            from hubd.mcp.transports.http import serve_mcp_http
            from hubd.page.site import PageSite
            from hubd.rpc.websocket import serve_websocket

            gate = Gate(secret, frozenset(settings.allowed_origins), hub.actors.has_token)
            await stack.enter_async_context(serve_websocket(clients, gate, listener))
            site = PageSite(clients, gate, mcp_port, codes)
            await stack.enter_async_context(serve_mcp_http(lazy, gate, mcp_listener, site))
            calls = clients.calls
            calls.started = report_blocking(asyncio.get_running_loop(), lambda: calls.are_running)
            logger.info(
                "ready on %s, ws://%s:%d and http://%s:%d/mcp",
                paths.socket,
                LOOPBACK,
                port,
                LOOPBACK,
                mcp_port,
                extra={"pid": os.getpid(), "plexus_hash": hub.hash},
            )
            await asyncio.to_thread(SCHEMA_CACHE.save)
            # The objects so far stay until the process ends, so the collector skips them.
            gc.freeze()
            gc.set_threshold(COLLECT_AFTER)
            gc.enable()
            if self._detached:
                _detach_from_terminal()
            problem = await self._stop_or(watch)
            logger.info("stopping")
        if problem is not None:
            raise DatabaseUnusable(problem, suggestion="Restore the file or a backup")
        logger.info("stopped")

    async def _stop_or(self, watch: HomeWatch) -> str | None:
        """Wait for a signal or a lost database; return the problem of the database."""
        watching = asyncio.create_task(watch.run())
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait((watching, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in (watching, stopping):
            task.cancel()
        if stopping.done() and not stopping.cancelled():
            return None
        problem = watching.result()
        logger.critical("%s; the daemon stops", problem)
        self._end_in_time()
        return problem

    def _record(self, port: int, mcp_port: int) -> dict[str, Any]:
        paths = self._settings.paths
        return {
            "pid": os.getpid(),
            "version": __version__,
            "socket": paths.socket,
            "ws_url": f"ws://{LOOPBACK}:{port}",
            "mcp_url": f"http://{LOOPBACK}:{mcp_port}/mcp",
            "token_file": paths.token if self._settings.auth else None,
            "started_at": self._started_at,
            "options": self._options,
            "directory": self._directory,
        }

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()

        def stop(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._stop.set)
            self._end_in_time()

        # `loop.add_signal_handler` would need a loop that is not blocked.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        watchdog.install(Path(self._settings.paths.log))

    def _end_in_time(self) -> None:
        """End the process soon, even if a plugin blocks the event loop."""
        timer = threading.Timer(STOP_SECONDS, os._exit, args=(1,))
        timer.daemon = True
        timer.start()


def _announced(plugin_sources: Iterable[Source]) -> Iterator[Source]:
    """Print each plugin for `hubd start` before it is loaded, because it may end the process."""
    for source in plugin_sources:
        if source.found_in != "built in":
            with suppress(OSError):  # `hubd start` was interrupted.
                os.write(STDERR, f"{LOADING}{source.target}\n".encode())
        yield source


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let the event loop interrupt other threads sooner. An import is long for the first client."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _import_transports() -> None:
    """Import the modules of TCP, which takes a while."""
    importlib.import_module("hubd.mcp.transports.http")
    importlib.import_module("hubd.page.site")


def _allow_many_files() -> None:
    """Raise the limit of open files for all connections and the pipes of chats."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _detach_from_terminal() -> None:
    """Release the directory and the output of `hubd start`. Output goes to the log."""
    os.chdir("/")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    send_descriptors_to_log()


class _HubSettings(BaseModel, defer_build=True):
    """The section `hub` of the configuration file."""

    max_message_mib: int = Field(MAX_MESSAGE_MIB, ge=1, le=LARGEST_MESSAGE_MIB)


def _max_message_bytes(settings: Settings, config: Mapping[str, Any]) -> int:
    """Return the size limit of a message: option, variable, configuration file, default."""
    section = config.get("hub", {})
    chosen = read_settings(_HubSettings, "hub", section if isinstance(section, dict) else {})
    return (settings.max_message_mib or chosen.max_message_mib) * MIB


class _McpSettings(BaseModel, defer_build=True):
    """The section `mcp` of the configuration file."""

    # Some clients do not allow dots in the name of a tool.
    tool_name_separator: Literal[".", "_"] = "."


def _mcp_options(settings: Settings, config: Mapping[str, Any]) -> McpOptions:
    section = config.get("mcp", {})
    chosen = read_settings(_McpSettings, "mcp", section if isinstance(section, dict) else {})
    profile = read_profile(settings.mcp_tools) if settings.mcp_tools is not None else None
    return McpOptions(chosen.tool_name_separator, profile)


def _check_mcp_tools(options: McpOptions, hub: Hub) -> None:
    """Report unknown names. They are not fatal, because a plugin may be broken or come later."""
    for name in sorted(options.profile or ()):
        try:
            check_profile([name], McpOptions(), hub)
        except InvalidParams as error:
            reason = f"{error.message}. {error.suggestion}"
            logger.warning("--mcp-tools: %s", reason)
            hub.broken.append((f"--mcp-tools {name}", reason))


def _check_sections(path: str, config: Mapping[str, Any], hub: Hub) -> None:
    """Report sections of the configuration file that no plugin reads."""
    for name in sorted(config.keys() - {*hub.root.children, *RESERVED}):
        advice = did_you_mean(name, hub.root.children)
        logger.warning(
            "%s: section [%s] is ignored, because no plugin has this name. %s", path, name, advice
        )


def _bind(wanted: int | None, default: int, option: str) -> socket.socket:
    """Listen on a TCP port of the loopback interface.

    Raises:
        StartupFailed: The requested port cannot be used.
    """
    try:
        return _listen(default if wanted is None else wanted)
    except OSError as error:
        if wanted is not None:
            raise StartupFailed(
                f"port {wanted} cannot be used: {error.strerror}",
                suggestion=f"Choose another {option}, or 0 for any free port",
            ) from error
    listener = _listen(0)
    logger.warning("port %d is in use; using %d instead", default, listener.getsockname()[1])
    return listener


def _listen(port: int) -> socket.socket:
    # The protocol is explicit, because asyncio then turns off Nagle's algorithm.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        # Clients can connect now, and get replies when the hub is ready.
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
