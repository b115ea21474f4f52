"""A client of the SDK's first major version, in a virtual environment in the tests' cache."""

import fcntl
import json
import subprocess
import sys
from typing import Any, Final

import pytest

from tests.clean_environment import installation_variables
from tests.mcp.seed import RENDER
from tests.mcp.support import TRANSPORTS, Transport, connected
from tests.schema_file import CACHE
from tests.support import HUBD, PATIENCE_SECONDS, Daemon, environment, few

WANTED: Final = "1.30"
# Seconds to install all dependencies from a slow index.
INSTALL_SECONDS: Final = 300

# Errors of pip without a usable package index.
UNREACHABLE: Final = ("No matching distribution found", "ConnectionError", "Max retries exceeded")


@pytest.fixture(scope="session")
def old_python() -> str:
    """Return the interpreter of an environment with the old SDK, which later runs reuse.

    One worker creates it while the others wait.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    number = ".".join(map(str, sys.version_info[:3]))
    place = CACHE / f"mcp-{WANTED}-python-{number}"
    python, complete = place / "bin" / "python", place / "complete"
    with (CACHE / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            # Our own pip installs into it, because a second pip takes seconds to unpack.
            _run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(place))
            pip = (
                sys.executable,
                "-m",
                "pip",
                "--python",
                str(python),
                "install",
                "--retries",
                "1",
            )
            _run(*pip, "--no-compile", f"mcp=={WANTED}.*")
            complete.touch()
    return str(python)


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        env=installation_variables(),
        check=False,
    )
    if done.returncode and any(sign in done.stderr for sign in UNREACHABLE):
        pytest.skip(f"NOT TESTED with mcp {WANTED}: no package index has it.\n{done.stderr}")
    assert done.returncode == 0, done.stderr


def by_old_client(python: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-m", "tests.fakes.old_mcp_client", *arguments],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.parametrize("transport", few(TRANSPORTS[::-1], 1))
async def test_an_old_client_sees_the_same_tools_results_and_resources(
    shared_daemon: Daemon, old_python: str, transport: Transport
) -> None:
    if transport == "http":
        seen = by_old_client(
            old_python, "http", shared_daemon.record["mcp_url"], shared_daemon.token
        )
    else:
        seen = by_old_client(
            old_python, "stdio", *HUBD, "--home", str(shared_daemon.home), "--stdio"
        )
    assert seen["sdk"].startswith(f"{WANTED}.")
    assert seen["protocol"] == "2025-11-25"
    assert seen["content"] == [{"type": "text", "text": RENDER}]
    assert seen["is_error"] is False
    assert seen["resource"] == RENDER
    async with connected(shared_daemon, transport, "2026-07-28") as client:
        assert seen["tools"] == [tool.name for tool in (await client.list_tools()).tools]
