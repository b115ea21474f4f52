"""The `hubd` command: parse the command line, call the function of the command, print.

Imports only the standard library until a command needs more, because `hubd run` must start
quickly. Data goes to stdout, messages go to stderr.
"""

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from hubd import __version__
from hubd.config import (
    LEVELS,
    LOOPS,
    SEE_HELP,
    Settings,
    choice_setting,
    help_of,
    option_parsers,
    port_setting,
    size_setting,
    text_setting,
)
from hubd.errors import HubError, InvalidParams
from hubd.wire.paths import HOME_VARIABLE, HUB_NAME, Paths

if TYPE_CHECKING:
    from hubd.wire.checks import Finding

RUN: Final = "Run the daemon in the foreground"
NOT_RUNNING: Final = 3
FAILED: Final = 1

EXIT_STATUS: Final = """exit status:
  0 success   1 failure   2 usage error   3 not running or not found   4 not permitted
  5 daemon unavailable   6 timeout   7 conflict or already running   9 newer database
  130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    arguments = _parse(_with_command(sys.argv[1:] if argv is None else argv))
    gc.enable()
    try:
        status: int = arguments.command(arguments)
        sys.stdout.flush()
    except HubError as error:
        _message(f"hubd: {error.message}")
        if error.suggestion:
            _message(f"      {error.suggestion}")
        status = error.exit_code
    except BrokenPipeError:
        # The reader of the output has closed the pipe.
        status = 0
    except OSError as error:
        _discard_unwritable()
        _message(f"hubd: the output cannot be written: {error.strerror or error}")
        status = FAILED
    _discard_unwritable()
    return status


def _discard_unwritable() -> None:
    """Discard output without a reader; else the interpreter would exit with status 120."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _with_command(argv: Sequence[str]) -> list[str]:
    """Return the arguments with `mcp` in place of `--stdio`.

    Many MCP servers are started with `--stdio`.
    """
    words = list(argv)
    place = 2 if words[:1] == ["--home"] else int(bool(words) and words[0].startswith("--home="))
    if words[place : place + 1] == ["--stdio"]:
        words[place] = "mcp"
    return words


def _run(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    # Imports create hardly any garbage. The daemon turns collection on when it is ready.
    gc.disable()
    # The cache must be open before the first plugin is imported.
    from hubd.activation.schema_cache import SCHEMA_CACHE

    SCHEMA_CACHE.open(Path(settings.paths.data) / "schemas.json")
    from hubd.daemon import run as app

    if settings.plugins:
        # As with `python -m`, plugins may be in the current directory.
        sys.path.insert(0, str(Path.cwd()))
    app.run(settings, options=_daemon_options(arguments), detached=arguments.detached)
    return 0


def _mcp(arguments: argparse.Namespace) -> int:
    from hubd.daemon import control as launch
    from hubd.mcp.transports import bridge

    paths = _paths(arguments)
    tools = _mcp_tools(arguments)
    session_token = os.environ.pop(bridge.SESSION_VARIABLE, None)
    # Both are for this client only. A daemon that is started here serves other clients too.
    os.environ.pop("HUBD_MCP_TOOLS", None)
    launch.start(paths, _home_option(arguments))
    return bridge.run(paths, tools, session_token)


def _dev(arguments: argparse.Namespace) -> int:
    from hubd.daemon.dev import develop

    _settings(arguments)  # Report a mistake here and not in the child.
    # The default ports are for the hub of the user.
    for name in ("port", "mcp_port"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, 0)
    home = getattr(arguments, "home", None)
    options = _daemon_options(arguments)
    return develop(arguments.target, home, options, _message, reload=arguments.reload)


def _open(arguments: argparse.Namespace) -> int:
    from hubd.daemon import control as launch
    from hubd.wire import page_link

    paths = _paths(arguments)
    launch.start(paths, _home_option(arguments))
    try:
        url = launch.page_link(paths)
    except page_link.NoPage as error:
        _message(f"hubd: {error.message}")
        _message(f"      {error.suggestion}")
        return error.status
    _print(url)
    if arguments.no_browser or not page_link.show(url):
        _message(f"hubd: {page_link.HINT}")
    return 0


def _start(arguments: argparse.Namespace) -> int:
    from hubd.daemon import control as launch

    _settings(arguments)  # Report a mistake here and not in the child.
    paths = _paths(arguments)
    fresh = launch.start(paths, [*_home_option(arguments), *_daemon_options(arguments)])
    state = launch.status(paths)
    verb = "started" if fresh else "already running"
    _message(f"hubd: {verb} (pid {state['pid']}), {state['ws_url']} and {state['mcp_url']}")
    if arguments.no_auth and fresh:
        _message("hubd: --no-auth: all local users can use this hub over TCP")
    _print_failures(state)
    return 0


def _stop(arguments: argparse.Namespace) -> int:
    from hubd.daemon import control as launch

    stopped = launch.stop(_paths(arguments), force=arguments.force)
    _message("hubd: stopped" if stopped else "hubd: was not running")
    return 0


def _restart(arguments: argparse.Namespace) -> int:
    from hubd.daemon import control as launch

    paths = _paths(arguments)
    launch.restart(paths, _home_option(arguments), _daemon_options(arguments))
    state = launch.status(paths)
    _message(f"hubd: restarted (pid {state['pid']})")
    _print_failures(state)
    return 0


def _print_failures(state: dict[str, Any]) -> None:
    """Print the plugins that failed to load."""
    for failed in state["failed_plugins"]:
        _message(f"hubd: the plugin {failed['plugin']} failed: {failed['reason']}")
    if state["failed_plugins"]:
        _message("      See: hubd logs")


def _status(arguments: argparse.Namespace) -> int:
    from hubd.daemon import control as launch

    state = launch.status(_paths(arguments))
    if arguments.json:
        _print(json.dumps(state))
    else:
        failures = state.pop("failed_plugins")
        for name, value in state.items():
            _print(f"{name:<15} {'' if value is None else value}")
        for failed in failures:
            _print(f"{'failed_plugin':<15} {failed['plugin']}: {failed['reason']}")
    return 0 if state["running"] else NOT_RUNNING


def _logs(arguments: argparse.Namespace) -> int:
    from hubd.daemon.log_reader import last_lines, readable

    path = Path(_paths(arguments).log)
    if not path.exists():
        _message(f"hubd: no log at {path} yet; the first start creates it")
        return NOT_RUNNING
    for line in last_lines(path, arguments.lines, follow=arguments.follow):
        if line is None:
            sys.stdout.flush()
        else:
            _print(line if arguments.json else readable(line))
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from hubd.daemon.doctor import examine

    return _report(examine(_paths(arguments)), arguments)


def _check(arguments: argparse.Namespace) -> int:
    from hubd.daemon.progress import Progress
    from hubd.storage.maintenance import check

    paths = _paths(arguments)
    with Progress("check") as progress:
        findings = check(Path(paths.database), report=progress.report)
        if arguments.rebuild_search:
            from hubd.daemon.search_rebuild import rebuild

            findings.append(rebuild(paths, progress.report))
    return _report(findings, arguments)


def _report(findings: "Sequence[Finding]", arguments: argparse.Namespace) -> int:
    from hubd.wire.checks import as_lines, as_rows

    if arguments.json:
        _print(json.dumps(as_rows(findings)))
    else:
        for line in as_lines(findings):
            _print(line)
    return 0 if all(finding.ok for finding in findings) else FAILED


def _backup(arguments: argparse.Namespace) -> int:
    from hubd.daemon.progress import Progress
    from hubd.storage.maintenance import backup

    source, target = Path(_paths(arguments).database), Path(arguments.file)
    with Progress("backup") as progress:
        written = backup(source, target, force=arguments.force, report=progress.report)
    _message(f"hubd: wrote {arguments.file} ({written.size:,} bytes)")
    if written.missing:
        _message(f"hubd: {written.missing:,} large contents are missing; hubd check names them")
    return 0


def _service(arguments: argparse.Namespace) -> int:
    from hubd.daemon import service

    act = service.install if arguments.action == "install" else service.uninstall
    home = getattr(arguments, "home", None) or os.environ.get(HOME_VARIABLE) or None
    _message(f"hubd: {act(service.describe(home))}")
    return 0


def _settings(arguments: argparse.Namespace) -> Settings:
    level = choice_setting("log level", arguments.log_level, "HUBD_LOG_LEVEL", "info", LEVELS)
    loop = choice_setting("event loop", arguments.event_loop, "HUBD_EVENT_LOOP", "auto", LOOPS)
    name = text_setting(arguments.name, "HUBD_NAME", HUB_NAME)
    if not name.replace("-", "_").isidentifier() or not name.isascii():
        raise InvalidParams(f"hub name {name!r} must be one word", suggestion=SEE_HELP)
    return Settings(
        paths=_paths(arguments),
        port=port_setting(arguments.port, "HUBD_PORT"),
        mcp_port=port_setting(arguments.mcp_port, "HUBD_MCP_PORT"),
        mcp_tools=_mcp_tools(arguments),
        max_message_mib=size_setting(arguments.max_message_mib, "HUBD_MAX_MESSAGE_MIB"),
        name=name,
        log_level=level,
        event_loop=loop,
        plugins=tuple(arguments.plugin),
        allowed_origins=tuple(arguments.allow_origin),
        auth=not arguments.no_auth,
    )


def _mcp_tools(arguments: argparse.Namespace) -> str | None:
    """Return the namespaces that MCP clients see; None for all.

    An empty option selects no namespaces: it may come from an empty shell variable. An empty
    environment variable counts as unset.
    """
    names: str | None = arguments.mcp_tools
    return names if names is not None else os.environ.get("HUBD_MCP_TOOLS") or None


def _paths(arguments: argparse.Namespace) -> Paths:
    return Paths(getattr(arguments, "home", None))


def _home_option(arguments: argparse.Namespace) -> list[str]:
    home = getattr(arguments, "home", None)
    return ["--home", str(Path(home).absolute())] if home else []


def _daemon_options(arguments: argparse.Namespace) -> list[str]:
    """Return the command line of a daemon with these options, without its home."""
    options: list[str] = []
    names = ("port", "mcp_port", "mcp_tools", "max_message_mib", "name", "log_level", "event_loop")
    for name in names:
        value = getattr(arguments, name)
        if value is not None:
            options += [f"--{name.replace('_', '-')}", str(value)]
    for name in ("plugin", "allow_origin"):
        for value in getattr(arguments, name):
            options += [f"--{name.replace('_', '-')}", value]
    return options + (["--no-auth"] if arguments.no_auth else [])


def _parse(words: list[str]) -> argparse.Namespace:
    home, daemon = option_parsers()
    if words[:1] != ["run"]:
        return _parser(home, daemon).parse_args(words)
    # The daemon starts sooner without the parsers of the other commands.
    run = argparse.ArgumentParser(prog="hubd run", description=RUN, parents=[home, daemon])
    _add_run(run)
    return run.parse_args(words[1:])


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    run.set_defaults(command=_run)


def _parser(
    home: argparse.ArgumentParser, daemon: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hubd",
        description="Run and control the local hub for coding agents.",
        parents=[home],
        epilog=f"`hubd --stdio` is short for `hubd mcp`.\n\n{EXIT_STATUS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hubd {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(
        name: str, command: Callable[[argparse.Namespace], int], description: str, *more: object
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=description,
            description=description,
            parents=[home, *more],  # type: ignore[list-item]
        )
        added.set_defaults(command=command)
        return added

    _add_run(add("run", _run, RUN, daemon))
    dev = add("dev", _dev, "Run a hub with a plugin under development, until Ctrl-C", daemon)
    dev.add_argument("target", metavar="MODULE:CLASS", help="the plugin")
    dev.add_argument("--reload", action="store_true", help="restart when the plugin's files change")
    add("start", _start, "Start the daemon and return when it answers", daemon)
    stop = add("stop", _stop, "Stop the daemon")
    stop.add_argument("--force", action="store_true", help="kill the process")
    add(
        "restart",
        _restart,
        "Restart the daemon, by default with the same options",
        daemon,
    )
    mcp = add("mcp", _mcp, "Serve MCP on stdin and stdout; start the daemon if necessary")
    mcp.add_argument("--mcp-tools", metavar="NAMES", help=help_of("--mcp-tools"))
    page = add("open", _open, "Open the page in the browser; start the daemon if necessary")
    page.add_argument("--no-browser", action="store_true", help="only print the address")
    status = add(
        "status",
        _status,
        "Show the daemon's state and addresses (exit status 3: stopped)",
    )
    logs = add("logs", _logs, "Show the daemon's log")
    logs.add_argument("-f", "--follow", action="store_true", help="print new lines as they appear")
    logs.add_argument("-n", "--lines", type=_count, default=50, help="number of lines (50)")
    doctor = add("doctor", _doctor, "Check the installation, the database and the running daemon")
    backup = add("backup", _backup, "Copy the database, even while the daemon runs")
    backup.add_argument("file", metavar="FILE")
    backup.add_argument("--force", action="store_true", help="replace an existing FILE")
    check = add("check", _check, "Check the database and the files of large contents")
    check.add_argument(
        "--rebuild-search", action="store_true", help="also build the search index again"
    )
    service = add("service", _service, "Start the daemon at login (systemd or launchd)")
    service.add_argument("action", choices=("install", "uninstall"))
    for reader in (status, logs, doctor, check):
        reader.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)


def _print(line: str) -> None:
    sys.stdout.write(_safe(line, sys.stdout) + "\n")


def _message(line: str) -> None:
    with suppress(BrokenPipeError):  # The exit status still reports the result.
        sys.stderr.write(_safe(line, sys.stderr) + "\n")


def _safe(line: str, stream: TextIO) -> str:
    """Return a line; for a terminal, without control and invisible characters."""
    if not stream.isatty():
        return line
    from hubd.wire.terminal import clean

    return clean(line)
