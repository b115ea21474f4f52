"""Daemons that tests of MCP share: with the SDK one starts slowly.

Whoever uses one minds what others have left there, and leaves it alive.
"""

from collections.abc import Iterator

import pytest

from tests.mcp.bridge_support import PLUGINS
from tests.support import Daemon


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One with the built-in plugins."""
    with Daemon(tmp_path_factory.mktemp("shared") / "home") as running:
        yield running


@pytest.fixture(scope="session")
def witnessed_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One that knows what was called, and logs all it can."""
    plugin = ("--plugin", "tests.mcp.hostile:Witness")
    home = tmp_path_factory.mktemp("witnessed") / "home"
    with Daemon(home, *plugin, "--log-level", "debug") as running:
        yield running


@pytest.fixture(scope="session")
def bridged_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One with what the bridge is tried on."""
    with Daemon(tmp_path_factory.mktemp("bridged") / "home", *PLUGINS) as running:
        yield running
