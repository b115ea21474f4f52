"""Fixtures for all tests. Nothing a test starts survives it."""

from tests.clean_environment import RUN, clean

clean()  # before anything else is imported: modules read variables when they are imported

# ruff: noqa: E402
from tests import schema_file

schema_file.open_cache()  # before a plugin is imported

import gc
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from hubd.plexus.hub import Hub
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.health import HealthPlugin
from hubd.plugins.solar import Solar
from tests.fakes.agent_process import note_marks
from tests.support import EXAMPLES, Daemon, close_fork_servers, hub_with

# Collection imports hundreds of modules, which are no garbage.
gc.disable()

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would all that
# they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines, because machines are noisy. Explaining a failure runs the test hundreds of times.
PHASES = tuple(phase for phase in Phase if phase is not Phase.explain)
settings.register_profile("hubd", deadline=None, phases=PHASES, max_examples=EXAMPLES)
settings.register_profile("soak", settings.get_profile("hubd"), max_examples=10 * EXAMPLES)
settings.load_profile("hubd")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker the tests of whole modules, so that few share a fixture of a module."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling  # type: ignore[import-untyped]

    return WorkStealingScheduling(config, log)


def pytest_collection_finish() -> None:
    """Exclude the tests and their imports from garbage collection: they stay until the end.

    To collect before that would take half a second, and there is little garbage.
    """
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let helpers of a test know whether it may run the real `claude`."""
    note_marks(mark.name for mark in item.iter_markers())


@pytest.fixture(scope="session", autouse=True)
def no_process_survives() -> Iterator[None]:
    """Kill the processes that tests leave running, also if this process is killed."""
    reaper = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("reaper.py")), RUN],
        # It reads to the end of this pipe, which the system closes when this process ends.
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    yield
    close_fork_servers()
    reaper.communicate()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home for a hub."""
    return tmp_path / "home"


@pytest.fixture
def daemon(home: Path) -> Iterator[Daemon]:
    """A running daemon with the built-in plugins."""
    with Daemon(home) as running:
        yield running


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub in this process with a few built-in plugins and a real database."""
    async with hub_with(tmp_path, EchoPlugin(), HealthPlugin(), Solar()) as built:
        yield built
