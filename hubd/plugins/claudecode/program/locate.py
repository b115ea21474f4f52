"""Find the `claude` program on this machine, without running it."""

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hubd.errors import Unavailable
from hubd.wire.lazy_dataclass import dataclass

NAME: Final = "claude"

# Directories of the installers, below the user's home. The PATH of a daemon that was started at
# login is often shorter than that of the user's shell.
HOME_PLACES: Final = (
    ".local/bin",
    ".claude/local",
    ".npm-global/bin",
    ".bun/bin",
    ".volta/bin",
)
SYSTEM_PLACES: Final = ("/usr/local/bin", "/opt/homebrew/bin", "/usr/bin")

# The Python package that contains a copy of the program.
BUNDLE: Final = "claude_agent_sdk"


@dataclass(frozen=True)
class Located:
    """The path of the program and its source.

    Attributes:
        path: The absolute path. A symbolic link is not resolved, because updates change its target.
        found_in: `setting`, `PATH`, the directory, or `claude_agent_sdk`, for messages.
    """

    path: Path
    found_in: str


def locate(setting: str | None, environ: Mapping[str, str]) -> Located | None:
    """Find `claude` by the setting, on PATH, in the usual directories, or in the Python package.

    Args:
        setting: A path, or a name to look up on PATH. If it is given, nothing else is tried.
        environ: The environment with PATH and HOME.

    Returns:
        None if there is no program.

    Raises:
        Unavailable: The setting does not name a program.
    """
    if setting:
        return _as_set(setting, environ)
    for directory in _path(environ):
        if is_program(directory / NAME):
            return Located(directory / NAME, "PATH")
    for directory in _usual_places(environ):
        if is_program(directory / NAME):
            return Located(directory / NAME, str(directory))
    for directory in _bundle():
        if is_program(directory / NAME):
            return Located(directory / NAME, BUNDLE)
    return None


def is_program(path: Path) -> bool:
    """Return whether a path is a file that this user may run."""
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except OSError:
        # This user may not enter one of its directories.
        return False


def _as_set(setting: str, environ: Mapping[str, str]) -> Located:
    home = _home(environ)
    if "/" not in setting:
        candidates = [directory / setting for directory in _path(environ)]
    elif setting.startswith("~/") and home is not None:
        candidates = [home / setting[2:]]
    else:
        candidates = [Path(setting).absolute()]
    for candidate in candidates:
        if is_program(candidate):
            return Located(candidate, "setting")
    raise Unavailable(
        f"the configured claude program does not exist or is not executable: {setting}",
        suggestion="Correct the setting claudecode.program, or remove it",
    )


def _path(environ: Mapping[str, str]) -> Iterator[Path]:
    for entry in environ.get("PATH", "").split(os.pathsep):
        directory = Path(entry)
        # A relative entry depends on the current directory. A repository there may contain a file
        # of this name.
        if directory.is_absolute():
            yield directory


def _usual_places(environ: Mapping[str, str]) -> Iterator[Path]:
    home = _home(environ)
    prefix = environ.get("NPM_CONFIG_PREFIX") or environ.get("npm_config_prefix")
    if prefix and Path(prefix).is_absolute():
        yield Path(prefix, "bin")
    if home is not None:
        yield from (home / place for place in HOME_PLACES)
        yield from _node_versions(home)
    yield from map(Path, SYSTEM_PLACES)


def _node_versions(home: Path) -> list[Path]:
    """Return the directories of global programs for each Node version of nvm, the newest first."""

    def version(directory: Path) -> list[int]:
        numbers = directory.parent.name.removeprefix("v").split(".")
        return [int(number) if number.isdecimal() else 0 for number in numbers]

    return sorted(home.glob(".nvm/versions/node/*/bin"), key=version, reverse=True)


def _bundle() -> Iterator[Path]:
    # Not imported: that would take half a second.
    spec = find_spec(BUNDLE)
    for directory in (spec and spec.submodule_search_locations) or ():
        yield Path(directory, "_bundled")


def _home(environ: Mapping[str, str]) -> Path | None:
    home = Path(environ.get("HOME", ""))
    return home if home.is_absolute() else None
