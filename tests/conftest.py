"""Fixtures for all tests. Nothing a test starts survives it."""

import gc
import os
import signal
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

# Tests start hundreds of interpreters; each would compile everything anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Times are never asserted, and machines are noisy.
settings.register_profile("hubd", deadline=None)
settings.load_profile("hubd")


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay to the end; no garbage is among them."""
    gc.collect()
    gc.freeze()


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
