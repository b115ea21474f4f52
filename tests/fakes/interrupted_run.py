"""A test that never ends, for a test run that is ended early."""

import os
import signal
from pathlib import Path

from tests.support import Daemon


def test_a_daemon_runs_until_the_test_run_is_ended(daemon: Daemon) -> None:
    Path(os.environ["PYTEST_PID_PIPE"]).write_text(str(daemon.record["pid"]))
    signal.pause()
