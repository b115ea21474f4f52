"""The search for `claude`: places, order and settings."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hubd.errors import Unavailable
from hubd.plugins.claudecode.program import locate as module
from hubd.plugins.claudecode.program.locate import Located, locate
from tests.support import environment


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without `claude`, independent of this one's programs."""
    monkeypatch.setattr(module, "SYSTEM_PLACES", (str(tmp_path / "usr/local/bin"),))
    monkeypatch.setattr(module, "BUNDLE", "no_such_package")
    return tmp_path / "home"


def test_without_claude_the_result_is_none(home: Path) -> None:
    assert locate(None, {"HOME": str(home), "PATH": "/nowhere"}) is None
    assert locate(None, {}) is None
    assert locate("", {}) is None


def test_the_setting_comes_first(home: Path) -> None:
    program(home / "bin/claude")
    chosen = program(home / "special/claude-2")
    environ = {"HOME": str(home), "PATH": str(home / "bin")}
    assert locate(str(chosen), environ) == Located(chosen, "setting")
    assert locate("~/special/claude-2", environ) == Located(chosen, "setting")


def test_a_setting_without_a_slash_is_looked_for_on_the_path(home: Path) -> None:
    chosen = program(home / "bin/claude-next")
    environ = {"PATH": f"/nowhere:{home / 'bin'}"}
    assert locate("claude-next", environ) == Located(chosen, "setting")


@pytest.mark.parametrize("setting", ["{home}/missing", "{home}/plain", "{home}", "claude-none"])
def test_a_setting_that_is_not_a_program_is_an_error_with_its_path(
    home: Path, setting: str
) -> None:
    program(home / "plain", mode=0o644)
    program(home / "bin/claude")
    named = setting.format(home=home)
    with pytest.raises(Unavailable, match=named):
        locate(named, {"HOME": str(home), "PATH": str(home / "bin")})


def test_the_path_is_searched_in_its_order_and_before_the_usual_places(home: Path) -> None:
    first, second = program(home / "one/claude"), program(home / "two/claude")
    program(home / ".local/bin/claude")
    environ = {"HOME": str(home)}
    path = f"{first.parent}:{second.parent}"
    assert locate(None, environ | {"PATH": path}) == Located(first, "PATH")
    path = f"{second.parent}:{first.parent}"
    assert locate(None, environ | {"PATH": path}) == Located(second, "PATH")


def test_the_current_directory_is_never_searched(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(home / "claude")
    program(home / "bin/claude")
    monkeypatch.chdir(home)
    assert locate(None, {"PATH": ":.:bin", "HOME": "", "NPM_CONFIG_PREFIX": "."}) is None


@pytest.mark.parametrize(
    "place",
    [
        "home/.local/bin",
        "home/.claude/local",
        "home/.npm-global/bin",
        "home/.nvm/versions/node/v22.1.0/bin",
        "npm/bin",
        "usr/local/bin",
    ],
)
def test_the_usual_places_are_searched(home: Path, tmp_path: Path, place: str) -> None:
    expected = program(tmp_path / place / "claude")
    environ = {"HOME": str(home), "NPM_CONFIG_PREFIX": str(tmp_path / "npm")}
    assert locate(None, environ) == Located(expected, str(expected.parent))


def test_of_several_node_versions_the_newest_is_taken(home: Path) -> None:
    for version in ("v9.11.2", "v22.3.0", "v22.10.1", "system"):
        program(home / f".nvm/versions/node/{version}/bin/claude")
    located = locate(None, {"HOME": str(home)})
    assert located is not None
    assert "v22.10.1" in located.found_in


def test_files_that_are_not_executable_are_skipped(home: Path) -> None:
    program(home / "one/claude", mode=0o644)
    (home / "two/claude").mkdir(parents=True)
    (home / "three").mkdir()
    (home / "three/claude").symlink_to(home / "gone")
    (home / "four").mkdir()
    (home / "four/claude").symlink_to("claude")
    path = ":".join(str(home / name) for name in ("one", "two", "three", "four"))
    assert locate(None, {"HOME": str(home), "PATH": path}) is None
    real = program(home / "five/claude")
    located = locate(None, {"PATH": f"{path}:{real.parent}"})
    assert located == Located(real, "PATH")


def test_a_symbolic_link_is_kept_because_updates_move_its_target(home: Path) -> None:
    target = program(home / "versions/1/claude")
    link = home / ".local/bin/claude"
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    assert locate(None, {"HOME": str(home)}) == Located(link, str(link.parent))


def test_the_copy_in_a_python_package_is_the_last_resort(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site/some_sdk"
    bundled = program(package / "_bundled/claude")
    (package / "__init__.py").write_text("raise RuntimeError('it must not be imported')\n")
    monkeypatch.syspath_prepend(str(package.parent))
    importlib.invalidate_caches()
    monkeypatch.setattr(module, "BUNDLE", "some_sdk")
    assert locate(None, {"HOME": str(home)}) == Located(bundled, "some_sdk")
    earlier = program(home / ".local/bin/claude")
    assert locate(None, {"HOME": str(home)}) == Located(earlier, str(earlier.parent))


def test_the_installed_sdk_is_found_without_being_imported() -> None:
    code = (
        "import sys\n"
        "from hubd.plugins.claudecode.program import locate\n"
        "locate.SYSTEM_PLACES = ()\n"
        "found = locate.locate(None, {})\n"
        "assert 'claude_agent_sdk' not in sys.modules\n"
        "print(found.found_in, found.path)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment()
    )
    found_in, path = result.stdout.split()
    assert found_in == "claude_agent_sdk"
    assert os.access(path, os.X_OK)
