"""One daemon for the tests of the clients, and the ways to connect to it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import Daemon

Address = dict[str, Any]


@pytest.fixture(scope="module")
def hub_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A running daemon, named otherwise than by default."""
    home = tmp_path_factory.mktemp("client") / "home"
    with Daemon(
        home, "--plugin", "tests.sample_plugins.trouble:Trouble", "--name", "lab"
    ) as daemon:
        yield daemon


@pytest.fixture(params=["unix", "websocket"])
def address(request: pytest.FixtureRequest, hub_process: Daemon) -> Address:
    """The arguments of `connect`."""
    if request.param == "unix":
        return {"home": hub_process.home}
    return {"url": hub_process.record["ws_url"], "token_file": hub_process.paths.token}
