"""One daemon for all tests of MCP that need nothing but a daemon; with its SDK it starts slowly."""

from collections.abc import Iterator

import pytest

from tests.support import Daemon


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with the built-in plugins. Whoever uses it minds what others have left there."""
    with Daemon(tmp_path_factory.mktemp("shared") / "home") as running:
        yield running
