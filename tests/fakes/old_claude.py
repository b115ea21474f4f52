"""An older version of `claude`, installed from npm into the user's cache once."""

import fcntl
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.clean_environment import installation_variables
from tests.schema_file import CACHE

VERSION: Final = "2.1.197"
PACKAGE: Final = "@anthropic-ai/claude-code-linux-x64"

# Seconds for a download of 80 MB.
PATIENCE: Final = 120


def old_claude() -> str:
    """Return the path of the program. Skip the test if it cannot be downloaded."""
    CACHE.mkdir(parents=True, exist_ok=True)
    installed = CACHE / f"claude-{VERSION}"
    with (CACHE / f"{installed.name}.lock").open("w") as lock:
        # One of several processes downloads it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed.exists():
            with TemporaryDirectory(dir=CACHE) as directory:
                fresh = Path(directory, "package")
                fresh.mkdir()
                _download(fresh)
                fresh.rename(installed)
    return str(installed / "node_modules" / PACKAGE / "claude")


def _download(directory: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"claude {VERSION} needs npm to be installed, and there is no npm")
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    retries = ["--fetch-retries", "1", "--fetch-retry-mintimeout", "1000"]
    package = f"{PACKAGE}@{VERSION}"
    command = [npm, "install", "--prefix", str(directory), *options, *retries, package]
    try:
        finished = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            env=installation_variables(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not download claude {VERSION} within {PATIENCE} s")
    if finished.returncode != 0:
        reason = finished.stderr.strip().splitlines()[-1:] or [f"status {finished.returncode}"]
        pytest.skip(f"npm could not download {package}: {reason[0]}")
