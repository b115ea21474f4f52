"""One daemon for all tests of synapse that only read from it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import Daemon
from tests.synapse.support import PLUGIN, synapse


@pytest.fixture(scope="session")
def cli_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with the plugin of these tests, and a filled cache."""
    with Daemon(tmp_path_factory.mktemp("hub") / "home", *PLUGIN) as daemon:
        synapse("echo", "ping", home=daemon.home)
        yield daemon


@pytest.fixture(scope="session")
def cli_home(cli_daemon: Daemon) -> Path:
    """The home of that daemon."""
    return cli_daemon.home
