"""The tests themselves: children get a clean environment and end with the test run."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clean_environment import BASIC, INSTALLATION, RUN_VARIABLE, installation_variables
from tests.support import PATIENCE_SECONDS, environment

ROOT = Path(__file__).parent.parent
# Set by the tests for their children, not inherited.
OWN = {RUN_VARIABLE, "PYTHONPATH", "HUBD_MCP_PORT", "HUBD_EVENT_LOOP"}
# One of each kind that programs under test read, and one that none of them reads.
FOREIGN = (
    *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "HUBD_HOME", "HUBD_PORT"),
    *("SYNAPSE_HUB", "_SYNAPSE_COMPLETE", "CLAUDECODE", "CLAUDE_CONFIG_DIR", "ANTHROPIC_API_KEY"),
    *("OPENAI_BASE_URL", "MCP_TIMEOUT", "NO_COLOR", "COLUMNS", "XDG_DATA_HOME", "AWS_REGION"),
    *("BASH_DEFAULT_TIMEOUT_MS", "BUILD_NUMBER"),
)
INTERRUPTED_RUN = "tests/fakes/interrupted_run.py"


def seen_by_a_child(env: dict[str, str]) -> set[str]:
    code = "import json, os; print(json.dumps(list(os.environ)))"
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, env=env, check=True, capture_output=True).stdout
    # The interpreter sets this one itself where the machine names no locale.
    return set(json.loads(printed)) - {"LC_CTYPE"}


def pytest_run(*arguments: str, **more: str) -> subprocess.Popen[str]:
    """Start another pytest, with an environment of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**environment(), **installation_variables(), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_child_sees_only_basic_variables_and_those_its_test_gives_it() -> None:
    for name in seen_by_a_child(environment(GIVEN="x")) - OWN - {"GIVEN"}:
        assert BASIC.fullmatch(name), name
    for name in seen_by_a_child(dict(os.environ)) - OWN:
        assert BASIC.fullmatch(name) or INSTALLATION.fullmatch(name), name


def test_no_variable_of_the_shell_reaches_a_child_of_the_tests() -> None:
    test = test_a_child_sees_only_basic_variables_and_those_its_test_gives_it.__name__
    with pytest_run(f"{__file__}::{test}", **dict.fromkeys(FOREIGN, "1")) as run:
        printed = run.communicate(timeout=60)[0]
    assert run.returncode == 0, printed


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process by its descriptor")
@pytest.mark.parametrize(
    ("number", "options"),
    [
        pytest.param(signal.SIGTERM, (), id="terminated"),
        # A worker notices only after some seconds that the process that started it is gone.
        pytest.param(signal.SIGINT, ("-n", "1"), id="interrupted", marks=pytest.mark.soak),
        pytest.param(signal.SIGKILL, ("-n", "1"), id="killed", marks=pytest.mark.soak),
    ],
)
def test_a_test_run_that_is_ended_early_leaves_no_daemon_running(
    tmp_path: Path, number: signal.Signals, options: tuple[str, ...]
) -> None:
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    with pytest_run(INTERRUPTED_RUN, *options, PYTEST_PID_PIPE=str(pipe)) as run:
        try:
            daemon = os.pidfd_open(int(pipe.read_text()))
        finally:
            run.send_signal(number)
        try:
            assert select.select([daemon], [], [], PATIENCE_SECONDS)[0], "the daemon still runs"
        finally:
            os.close(daemon)
            run.communicate(timeout=60)
