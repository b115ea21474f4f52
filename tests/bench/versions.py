"""The versions of hubd that a run compares: this work tree, and a commit beside it."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clean_environment import basic_variables, installation_variables

ROOT: Final = Path(__file__).parent.parent.parent
# The commit of version 0.1.0, from before any work on the speed of a call.
VERSION_0_1_0: Final = "c9f34bb"
# Plugins of benchmarks that use only the stable part of the plugin API. An old commit that lacks
# one gets ours. It has its own pusher, because that one uses the storage.
PLUGINS: Final = ("sink.py", "sampler.py")


class UnknownCommit(Exception):
    """The repository does not have the commit."""


@dataclass
class Version:
    """The source of one version.

    Attributes:
        name: "now", or the commit.
        root: The directory that has `hubd` and `synapse`.
        scratch: A directory for its installation.
    """

    name: str
    root: Path
    scratch: Path
    _programs: Path | None = None

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a process that runs this source with our libraries."""
        path = str(self.root)
        return {**basic_variables(), "PYTHONPATH": path, "HUBD_MCP_PORT": "0", **more}

    def programs(self) -> Path:
        """Install the version without anything else; return the directory of its programs."""
        if self._programs is None:
            venv = self.scratch / f"venv-{self.name}"
            # Without pip, and without compiling modules that no row imports.
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
            pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python")]
            pip += ["install", "--quiet", "--disable-pip-version-check", "--no-compile"]
            variables = installation_variables()
            # pip's warnings about its package index do not belong into the report.
            subprocess.run(
                [*pip, str(self.root)], env=variables, check=True, stderr=subprocess.DEVNULL
            )
            self._programs = venv / "bin"
        return self._programs

    def has(self, path: str, text: str) -> bool:
        """Return whether a file of this version contains a text."""
        file = self.root / path
        return file.exists() and text in file.read_text()


def current(scratch: Path) -> Version:
    """Return this work tree."""
    return Version("now", ROOT, scratch)


def at_commit(commit: str, scratch: Path) -> Version:
    """Copy the files of a commit to a directory.

    Raises:
        UnknownCommit: The repository does not have it.
    """
    root = scratch / commit.replace("/", "-")
    root.mkdir()
    made = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, f"--output={root}.tar"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        root.rmdir()
        raise UnknownCommit(f"this repository has no commit {commit}: {made.stderr.strip()}")
    shutil.unpack_archive(f"{root}.tar", root, filter="data")
    for name in PLUGINS:
        file = root / "tests" / "bench" / name
        if not file.exists():
            shutil.copy(Path(__file__).parent / name, file)
    return Version(commit, root, scratch)
