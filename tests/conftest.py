"""Fixtures for all tests. Nothing a test starts survives it."""

from tests.clean_environment import RUN, clean

clean()  # before anything else is imported: modules read variables when they are imported

# ruff: noqa: E402
import gc
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from hubd.plexus.hub import Hub
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.health import HealthPlugin
from hubd.plugins.solar import Solar
from tests.support import Daemon, hub_with

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would all that
# they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Times are never asserted, and machines are noisy.
settings.register_profile("hubd", deadline=None)
settings.load_profile("hubd")


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay to the end; no garbage is among them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_process_survives() -> Iterator[None]:
    """Kill what the tests leave running, also if this process is interrupted or killed."""
    reaper = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("reaper.py")), RUN],
        # It reads to the end of this pipe, which the system closes when this process ends.
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    yield
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
    """A hub in this process, with the built-in plugins and a real database."""
    async with hub_with(tmp_path, EchoPlugin(), HealthPlugin(), Solar()) as built:
        yield built
