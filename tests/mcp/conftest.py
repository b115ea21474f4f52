"""Daemons that tests of MCP share, because a daemon with the SDK starts slowly.

A test that uses a shared daemon expects data of other tests there, and leaves it running.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.bridge_support import PLUGINS
from tests.support import Daemon, McpDaemon


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most of each product of parameters as soak.

    A test with several parameters (case, transport, era) runs by default on a diagonal of the
    product, so that each value of each parameter occurs. The longer runs have the whole product.
    """
    families: dict[object, list[pytest.Function]] = defaultdict(list)
    for item in items:
        is_ours = item.path.is_relative_to(Path(__file__).parent)
        if is_ours and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            families[item.path, item.originalname].append(item)
    for family in families.values():
        dimensions = [_indices(family, mark) for mark in family[0].iter_markers("parametrize")]
        longest = max(dimensions, key=lambda indices: max(indices), default=[])
        for indices in dimensions:
            count = 1 + max(indices)
            for item, index, diagonal in zip(family, indices, longest, strict=True):
                if index != diagonal % count:
                    item.add_marker(pytest.mark.soak)


def _indices(family: list[pytest.Function], mark: pytest.Mark) -> list[int]:
    """Return the index of each test's case in one `parametrize` mark."""
    names = mark.args[0]
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    cases = [tuple(id(item.callspec.params[name]) for name in names) for item in family]
    order = {case: index for index, case in enumerate(dict.fromkeys(cases))}
    return [order[case] for case in cases]


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with the built-in plugins."""
    with McpDaemon(tmp_path_factory.mktemp("shared") / "home") as running:
        yield running


@pytest.fixture(scope="session")
def witnessed_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that records calls and logs everything."""
    plugin = ("--plugin", "tests.mcp.hostile:Witness")
    home = tmp_path_factory.mktemp("witnessed") / "home"
    with McpDaemon(home, *plugin, "--log-level", "debug") as running:
        yield running


@pytest.fixture(scope="session")
def bridged_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with the plugins for tests of the bridge."""
    with McpDaemon(tmp_path_factory.mktemp("bridged") / "home", *PLUGINS) as running:
        yield running
