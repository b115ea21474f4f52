"""`hubd service`: start the daemon at login, with systemd on Linux and launchd on macOS."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from hubd.errors import ExecutionError, InvalidParams, NotFound
from hubd.wire.paths import HOME_VARIABLE

NAME: Final = "hubd"
LABEL: Final = "dev.hubd"
# The longest time for one command of the service manager.
COMMAND_SECONDS: Final = 30.0


class Service(NamedTuple):
    """A service of the user, for one service manager."""

    file: Path
    text: str
    # Commands that start it now and at each login, and that stop it for good.
    install: list[list[str]]
    uninstall: list[list[str]]


def describe(home: str | None) -> Service:
    """Return the service of this system.

    Args:
        home: The directory of `--home`; None for the default hub.

    Raises:
        InvalidParams: The system has neither systemd nor launchd.
    """
    command = [sys.executable, "-P", "-m", "hubd", "run"]
    if home is not None:
        command += ["--home", str(Path(home).absolute())]
    if sys.platform == "darwin":
        return _launchd(command)
    if sys.platform == "linux":
        return _systemd(command)
    raise InvalidParams(
        f"hubd knows no service manager on {sys.platform}",
        suggestion="Start the daemon with: hubd start",
    )


def install(service: Service) -> str:
    """Write the service's file and start it; return a message.

    Raises:
        ExecutionError: The service manager failed. The file stays.
    """
    service.file.parent.mkdir(parents=True, exist_ok=True)
    service.file.write_text(service.text)
    for command in service.install:
        _run(command, f"wrote {service.file}, but it could not be started")
    return f"wrote {service.file}; the daemon starts now and at each login"


def uninstall(service: Service) -> str:
    """Stop the service and remove its file; return a message.

    Raises:
        NotFound: It is not installed.
    """
    if not service.file.exists():
        raise NotFound(f"{service.file} does not exist", suggestion="There is no service to remove")
    problem = ""
    for command in service.uninstall:
        try:
            _run(command, "the service could not be stopped")
        except ExecutionError as error:
            problem = f" ({error.message})"
    service.file.unlink()
    return f"removed {service.file}{problem}"


def _systemd(command: list[str]) -> Service:
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    manager = ["systemctl", "--user"]
    unit = f"{NAME}.service"
    return Service(
        Path(config, "systemd", "user", unit),
        "\n".join(
            (
                "[Unit]",
                "Description=hubd, a local hub for coding agents",
                "",
                "[Service]",
                f"ExecStart={' '.join(map(_quoted, command))}",
                "Restart=on-failure",
                # The daemon ends its agents itself, within ten seconds.
                "TimeoutStopSec=15",
                "KillMode=mixed",
                "",
                "[Install]",
                "WantedBy=default.target",
                "",
            )
        ),
        [[*manager, "daemon-reload"], [*manager, "enable", "--now", unit]],
        [[*manager, "disable", "--now", unit]],
    )


def _launchd(command: list[str]) -> Service:
    file = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    words = "".join(f"<string>{escape(word)}</string>" for word in command)
    domain = f"gui/{os.getuid()}"
    return Service(
        file,
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<plist version="1.0"><dict>\n'
        f"<key>Label</key><string>{LABEL}</string>\n"
        f"<key>ProgramArguments</key><array>{words}</array>\n"
        "<key>RunAtLoad</key><true/>\n"
        "<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n"
        "</dict></plist>\n",
        [["launchctl", "bootstrap", domain, str(file)]],
        [["launchctl", "bootout", f"{domain}/{LABEL}"]],
    )


def _quoted(word: str) -> str:
    """Return a word for a unit file, where `%` and `$` have a meaning of their own."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("%", "%%").replace("$", "$$") + '"'


def _run(command: list[str], problem: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != HOME_VARIABLE}
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExecutionError(f"{problem}: {error}", suggestion=_by_hand(command)) from None
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["it failed"])[-1]
        raise ExecutionError(f"{problem}: {reason}", suggestion=_by_hand(command))


def _by_hand(command: list[str]) -> str:
    return f"Run it in your session: {' '.join(command)}"
