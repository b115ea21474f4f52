"""The `hubd` command. Reads the command line and prints; the work is done elsewhere.

Standard library only until a command needs more: `hubd run` is on the way of every start.
Data goes to stdout, everything else to stderr.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO

from hubd import __version__
from hubd.config import (
    LEVELS,
    SEE_HELP,
    SETTINGS,
    Settings,
    port_setting,
    size_setting,
    text_setting,
)
from hubd.errors import HubError, InvalidParams
from hubd.wire.paths import HUB_NAME, Paths

NOT_RUNNING: Final = 3
FAILED: Final = 1
# How often `logs -f` looks for new lines.
FOLLOW_SECONDS: Final = 0.2

EXIT_STATUS: Final = """exit status:
  0 done   1 failed   2 usage   3 not running or not found   4 not allowed
  5 no daemon or unavailable   6 timeout   7 already running or in the way   9 newer database
  130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = _parser().parse_args(_with_command(sys.argv[1:] if argv is None else argv))
    try:
        status: int = arguments.command(arguments)
        sys.stdout.flush()
    except HubError as error:
        _say(f"hubd: {error.message}")
        if error.suggestion:
            _say(f"      {error.suggestion}")
        status = error.exit_code
    except BrokenPipeError:
        # The reader of our output has closed it.
        status = 0
    except OSError as error:
        _discard_unwritable()
        _say(f"hubd: the output cannot be written: {error.strerror or error}")
        status = FAILED
    _discard_unwritable()
    return status


def _discard_unwritable() -> None:
    """Discard output that has no reader; else the interpreter ends with status 120."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _with_command(given: Sequence[str]) -> list[str]:
    """The words with `mcp` for `--stdio` in place of a command.

    That is how servers that speak MCP on stdio are customarily started.
    """
    words = list(given)
    place = 2 if words[:1] == ["--home"] else int(bool(words) and words[0].startswith("--home="))
    if words[place : place + 1] == ["--stdio"]:
        words[place] = "mcp"
    return words


def _run(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    # Next to nothing of what is imported is garbage; the daemon looks for it once it is ready.
    gc.disable()
    # Before anything that describes itself is imported.
    from hubd.activation.schema_cache import DESCRIBED

    DESCRIBED.open(Path(settings.paths.data) / "schemas.json")
    from hubd.daemon import run as app

    if settings.plugins:
        # As with `python -m`: plugins may lie in the directory the command was given in.
        sys.path.insert(0, str(Path.cwd()))
    app.run(settings, options=_daemon_options(arguments), detached=arguments.detached)
    return 0


def _mcp(arguments: argparse.Namespace) -> int:
    from hubd.daemon import control as launch
    from hubd.mcp.transports import bridge

    paths = _paths(arguments)
    tools = _mcp_tools(arguments)
    session_token = os.environ.pop(bridge.SESSION_VARIABLE, None)
    # Both are about this client only; a daemon that is started here serves others too.
    os.environ.pop("HUBD_MCP_TOOLS", None)
    launch.start(paths, _home_option(arguments))
    return bridge.run(paths, tools, session_token)


def _start(arguments: argparse.Namespace) -> int:
    from hubd.daemon import control as launch

    _settings(arguments)  # a mistake is found here rather than in the child
    paths = _paths(arguments)
    fresh = launch.start(paths, [*_home_option(arguments), *_daemon_options(arguments)])
    state = launch.status(paths)
    verb = "started" if fresh else "already running"
    _say(f"hubd: {verb} (pid {state['pid']}), {state['ws_url']} and {state['mcp_url']}")
    if arguments.no_auth and fresh:
        _say("hubd: --no-auth: everybody on this machine can use this hub over TCP")
    _say_failures(state)
    return 0


def _stop(arguments: argparse.Namespace) -> int:
    from hubd.daemon import control as launch

    stopped = launch.stop(_paths(arguments), force=arguments.force)
    _say("hubd: stopped" if stopped else "hubd: was not running")
    return 0


def _restart(arguments: argparse.Namespace) -> int:
    from hubd.daemon import control as launch

    paths = _paths(arguments)
    launch.restart(paths, _home_option(arguments), _daemon_options(arguments))
    state = launch.status(paths)
    _say(f"hubd: restarted (pid {state['pid']})")
    _say_failures(state)
    return 0


def _say_failures(state: dict[str, Any]) -> None:
    """Name the plugins that do not work."""
    for failed in state["failed_plugins"]:
        _say(f"hubd: the plugin {failed['plugin']} failed: {failed['reason']}")
    if state["failed_plugins"]:
        _say("      See: hubd logs")


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
    from hubd.daemon.log import readable

    path = Path(_paths(arguments).log)
    show: Callable[[str], str] = str if arguments.json else readable
    if not path.exists():
        _say(f"hubd: there is no log at {path} yet")
        return NOT_RUNNING
    log: TextIO = path.open(encoding="utf-8", errors="replace")
    try:
        for line in deque(log, arguments.lines):
            _print(show(line.rstrip("\n")))
        while arguments.follow:
            log = _follow(log, path, show)
    finally:
        log.close()
    return 0


def _follow(log: TextIO, path: Path, show: Callable[[str], str]) -> TextIO:
    """Print what came since, and go on with the new file when the old one was rotated away."""
    for line in log:
        _print(show(line.rstrip("\n")))
    sys.stdout.flush()
    time.sleep(FOLLOW_SECONDS)
    if path.exists() and path.stat().st_ino != os.fstat(log.fileno()).st_ino:
        for line in log:  # what came between the last look and the rotation
            _print(show(line.rstrip("\n")))
        log.close()
        return path.open(encoding="utf-8", errors="replace")
    return log


def _doctor(arguments: argparse.Namespace) -> int:
    from hubd.daemon.doctor import examine

    return _report(examine(_paths(arguments)), arguments)


def _check(arguments: argparse.Namespace) -> int:
    from hubd.daemon.progress import Progress
    from hubd.storage.maintenance import check

    with Progress("check") as progress:
        findings = check(Path(_paths(arguments).database), report=progress.report)
    return _report(findings, arguments)


def _report(findings: Sequence[object], arguments: argparse.Namespace) -> int:
    rows = [vars(finding) for finding in findings]
    if arguments.json:
        _print(json.dumps(rows))
    else:
        for row in rows:
            _print(f"{'ok  ' if row['ok'] else 'FAIL'} {row['what']}: {row['detail']}")
    return 0 if all(row["ok"] for row in rows) else FAILED


def _backup(arguments: argparse.Namespace) -> int:
    from hubd.daemon.progress import Progress
    from hubd.storage.maintenance import backup

    source, target = Path(_paths(arguments).database), Path(arguments.file)
    with Progress("backup") as progress:
        size = backup(source, target, force=arguments.force, report=progress.report)
    _say(f"hubd: wrote {arguments.file} ({size:,} bytes)")
    return 0


def _settings(arguments: argparse.Namespace) -> Settings:
    level = text_setting(arguments.log_level, "HUBD_LOG_LEVEL", "info").lower()
    if level not in LEVELS:
        raise InvalidParams(
            f"the log level {level!r} is not one of {', '.join(LEVELS)}", suggestion=SEE_HELP
        )
    name = text_setting(arguments.name, "HUBD_NAME", HUB_NAME)
    if not name.replace("-", "_").isidentifier() or not name.isascii():
        raise InvalidParams(f"the name {name!r} must be one word", suggestion=SEE_HELP)
    return Settings(
        paths=_paths(arguments),
        port=port_setting(arguments.port, "HUBD_PORT"),
        mcp_port=port_setting(arguments.mcp_port, "HUBD_MCP_PORT"),
        mcp_tools=_mcp_tools(arguments),
        max_message_mib=size_setting(arguments.max_message_mib, "HUBD_MAX_MESSAGE_MIB"),
        name=name,
        log_level=level,
        plugins=tuple(arguments.plugin),
        allowed_origins=tuple(arguments.allow_origin),
        auth=not arguments.no_auth,
    )


def _mcp_tools(arguments: argparse.Namespace) -> str | None:
    """The namespaces MCP clients see; None for all.

    An option that names none is a choice, since what it is made of may be empty by mistake; an
    empty variable is none.
    """
    given: str | None = arguments.mcp_tools
    return given if given is not None else os.environ.get("HUBD_MCP_TOOLS") or None


def _paths(arguments: argparse.Namespace) -> Paths:
    return Paths(getattr(arguments, "home", None))


def _home_option(arguments: argparse.Namespace) -> list[str]:
    home = getattr(arguments, "home", None)
    return ["--home", str(Path(home).absolute())] if home else []


def _daemon_options(arguments: argparse.Namespace) -> list[str]:
    """The options, besides its home, of a daemon that runs as this one was asked to."""
    options: list[str] = []
    for name in ("port", "mcp_port", "mcp_tools", "max_message_mib", "name", "log_level"):
        value = getattr(arguments, name)
        if value is not None:
            options += [f"--{name.replace('_', '-')}", str(value)]
    for name in ("plugin", "allow_origin"):
        for value in getattr(arguments, name):
            options += [f"--{name.replace('_', '-')}", value]
    return options + (["--no-auth"] if arguments.no_auth else [])


def _parser() -> argparse.ArgumentParser:
    anywhere = argparse.ArgumentParser(add_help=False)
    anywhere.add_argument(
        "--home",
        metavar="DIR",
        default=argparse.SUPPRESS,  # so that the option before the command is not forgotten
        help="where everything lives (default: $HUBD_HOME, else the XDG directories)",
    )
    daemon = argparse.ArgumentParser(add_help=False)
    meanings = {option.split()[0]: meaning for option, _, _, meaning in SETTINGS}
    daemon.add_argument("--port", type=int, metavar="N", help=meanings["--port"])
    daemon.add_argument("--mcp-port", type=int, metavar="N", help=meanings["--mcp-port"])
    daemon.add_argument("--mcp-tools", metavar="NAMES", help=meanings["--mcp-tools"])
    daemon.add_argument(
        "--max-message-mib", type=int, metavar="N", help=meanings["--max-message-mib"]
    )
    daemon.add_argument("--name", metavar="NAME", help=meanings["--name"])
    daemon.add_argument("--log-level", choices=LEVELS, help=meanings["--log-level"])
    daemon.add_argument(
        "--plugin", action="append", default=[], metavar="MODULE:CLASS", help=meanings["--plugin"]
    )
    daemon.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help=meanings["--allow-origin"],
    )
    daemon.add_argument("--no-auth", action="store_true", help=meanings["--no-auth"])

    parser = argparse.ArgumentParser(
        prog="hubd",
        description="The local hub for coding agents.",
        parents=[anywhere],
        epilog=f"`hubd --stdio` is `hubd mcp`.\n\n{EXIT_STATUS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hubd {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(
        name: str, command: Callable[[argparse.Namespace], int], meaning: str, *more: object
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=meaning,
            description=meaning,
            parents=[anywhere, *more],  # type: ignore[list-item]
        )
        added.set_defaults(command=command)
        return added

    run = add("run", _run, "Run the daemon in the foreground", daemon)
    run.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    add("start", _start, "Start the daemon and return when it answers", daemon)
    stop = add("stop", _stop, "Stop the daemon")
    stop.add_argument("--force", action="store_true", help="kill it")
    add("restart", _restart, "Stop it and start it again, with the same options if none", daemon)
    mcp = add("mcp", _mcp, "Speak MCP on stdin and stdout; starts the daemon if none runs")
    mcp.add_argument("--mcp-tools", metavar="NAMES", help=meanings["--mcp-tools"])
    status = add("status", _status, "Show whether and where it runs (status 3: it does not)")
    logs = add("logs", _logs, "Show the daemon's log")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it grows")
    logs.add_argument("-n", "--lines", type=_count, default=50, help="how many old lines (50)")
    doctor = add("doctor", _doctor, "Look whether everything is there that the daemon needs")
    backup = add("backup", _backup, "Copy the database, also while the daemon runs")
    backup.add_argument("file", metavar="FILE")
    backup.add_argument("--force", action="store_true", help="replace FILE")
    check = add("check", _check, "Check the database: integrity, foreign keys, migrations")
    for reader in (status, logs, doctor, check):
        reader.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)


def _print(line: str) -> None:
    sys.stdout.write(_safe(line, sys.stdout) + "\n")


def _say(line: str) -> None:
    with suppress(BrokenPipeError):  # the exit status still tells the result
        sys.stderr.write(_safe(line, sys.stderr) + "\n")


def _safe(line: str, stream: TextIO) -> str:
    """Return a line without characters that a terminal obeys or hides, if it goes to one."""
    if not stream.isatty():
        return line
    from hubd.wire.terminal import clean

    return clean(line)
