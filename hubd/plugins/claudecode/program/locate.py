"""Where the `claude` program is on this machine. Looks, and runs nothing."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hubd.errors import Unavailable

NAME: Final = "claude"

# Where the installers put it, below the user's home. A daemon that was started at login often
# has a shorter PATH than the user's shell.
HOME_PLACES: Final = (
    ".local/bin",
    ".claude/local",
    ".npm-global/bin",
    ".bun/bin",
    ".volta/bin",
)
SYSTEM_PLACES: Final = ("/usr/local/bin", "/opt/homebrew/bin", "/usr/bin")

# The Python package that brings a copy of the program along.
BUNDLE: Final = "claude_agent_sdk"


@dataclass(frozen=True, slots=True)
class Located:
    """The program that was found.

    Attributes:
        path: Absolute; a symbolic link stays one, because updates move what it points at.
        found_in: For people: `setting`, `PATH`, the directory, or `claude_agent_sdk`.
    """

    path: Path
    found_in: str


def locate(setting: str | None, environ: Mapping[str, str]) -> Located | None:
    """Find `claude`: as set, on PATH, in the usual places, in the Python package.

    Args:
        setting: What the configuration says: a path, or a name to look for on PATH.
        environ: The environment whose PATH and HOME count.

    Returns:
        None if it is nowhere.

    Raises:
        Unavailable: The setting names something that is no program; nothing else is tried then.
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
    """Whether it is a file that this user may run."""
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except OSError:
        # Behind a directory that this user may not enter.
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
        f"the configured claude program is not there or not executable: {setting}",
        suggestion="Correct the setting, or remove it to let hubd look for claude",
    )


def _path(environ: Mapping[str, str]) -> Iterator[Path]:
    for entry in environ.get("PATH", "").split(os.pathsep):
        directory = Path(entry)
        # An empty or relative entry means the current directory, where anybody's repository may
        # hold a file of this name.
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
    """The global directories of the Node versions that nvm keeps, the newest first."""

    def version(directory: Path) -> list[int]:
        numbers = directory.parent.name.removeprefix("v").split(".")
        return [int(number) if number.isdecimal() else 0 for number in numbers]

    return sorted(home.glob(".nvm/versions/node/*/bin"), key=version, reverse=True)


def _bundle() -> Iterator[Path]:
    # Only finds the package: importing it would load half a second of modules.
    spec = find_spec(BUNDLE)
    for directory in (spec and spec.submodule_search_locations) or ():
        yield Path(directory, "_bundled")


def _home(environ: Mapping[str, str]) -> Path | None:
    home = Path(environ.get("HOME", ""))
    return home if home.is_absolute() else None
