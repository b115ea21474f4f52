"""`hubd service` writes a unit that starts this daemon, and calls the service manager."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hubd.daemon import service
from tests.support import HUBD, environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd is on Linux only")


def run(action: str, tmp_path: Path, *, path: str) -> subprocess.CompletedProcess[str]:
    variables = environment(HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path / "config"), PATH=path)
    home = ("--home", str(tmp_path / "a % home"))
    return subprocess.run(
        [*HUBD, "service", action, *home],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_service_is_installed_and_removed(tmp_path: Path) -> None:
    # The real manager needs a session of its own, so this one notes its arguments.
    programs = tmp_path / "bin"
    programs.mkdir()
    manager = programs / "systemctl"
    manager.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
    manager.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = run("install", tmp_path, path=path)
    assert done.returncode == 0, done.stderr
    unit = tmp_path / "config" / "systemd" / "user" / "hubd.service"
    text = unit.read_text()
    assert f'ExecStart="{sys.executable}" "-P" "-m" "hubd" "run" "--home"' in text
    assert "a %% home" in text
    removed = run("uninstall", tmp_path, path=path)
    assert removed.returncode == 0, removed.stderr
    assert not unit.exists()
    assert (tmp_path / "calls").read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable --now hubd.service",
        "--user disable --now hubd.service",
    ]
    assert run("uninstall", tmp_path, path=path).returncode == 3


@pytest.mark.parametrize("home", [None, "", "other"])
def test_the_service_has_the_home_of_the_command(tmp_path: Path, home: str | None) -> None:
    variables = environment(HOME=str(tmp_path), PATH="")
    if home is not None:
        variables["HUBD_HOME"] = home and str(tmp_path / home)
    command = [*HUBD, "service", "install"]
    result = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert "it could not be started" in result.stderr
    unit = (tmp_path / ".config" / "systemd" / "user" / "hubd.service").read_text()
    end = f' "--home" "{tmp_path / home}"' if home else ""
    assert f'"-P" "-m" "hubd" "run"{end}\n' in unit


def test_without_a_service_manager_the_message_names_the_command(tmp_path: Path) -> None:
    done = run("install", tmp_path, path=str(tmp_path))
    assert done.returncode == 1
    assert "Run it in your session: systemctl --user daemon-reload" in done.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_the_unit_is_valid(tmp_path: Path) -> None:
    unit = tmp_path / "hubd.service"
    unit.write_text(service.describe(str(tmp_path)).text)
    variables = environment(XDG_RUNTIME_DIR=str(tmp_path))
    command = ["systemd-analyze", "verify", "--user", str(unit)]
    subprocess.run(command, env=variables, check=True)


def test_launchd_gets_a_property_list(monkeypatch: pytest.MonkeyPatch) -> None:
    import plistlib

    monkeypatch.setattr(sys, "platform", "darwin")
    described = service.describe("/a & b")
    assert plistlib.loads(described.text.encode())["ProgramArguments"][-2:] == ["--home", "/a & b"]
