"""Any sequence of steps leaves the trees that a plain Python model says it leaves."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.plugins.arbor.plugin import Arbor
from hubd.storage.database import Database
from tests.plugins.arbor.by_storage import Storage
from tests.plugins.arbor.comparing import compare
from tests.plugins.arbor.forest import Forest
from tests.plugins.arbor.grower import Grower
from tests.plugins.arbor.over_wire import Wire, by_socket, in_process
from tests.plugins.arbor.steps import (
    CHANGING,
    CLEANING,
    GROWING,
    HOLDING,
    REST,
    Step,
    Walker,
    steps,
)
from tests.plugins.arbor.system import System
from tests.support import Daemon, examples, hub_with

EVERYTHING = st.lists(
    steps(REST, *GROWING, *CHANGING, *HOLDING, *CLEANING), min_size=15, max_size=45
)
# The clock of a daemon can't be moved.
WITHOUT_CLOCK = st.lists(steps(REST, *GROWING, *CHANGING, *HOLDING), min_size=15, max_size=30)


async def walk(system: System, taken: list[Step]) -> None:
    forest = Forest()
    walker = Walker(forest, system)
    for step in taken:
        if step.name == REST:
            continue
        await walker.take(step)
        await compare(forest, system, step)


@given(EVERYTHING)
@examples(6)
def test_storage_functions_match_the_model(taken: list[Step]) -> None:
    async def example(directory: Path) -> None:
        async with Database(directory / "hub.db") as database:
            await walk(Storage(database), taken)

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(example(Path(directory)))


@given(EVERYTHING)
@examples(3)
def test_methods_match_the_model_in_process(taken: list[Step]) -> None:
    async def example(directory: Path) -> None:
        async with hub_with(directory, Arbor(), Grower()) as hub:
            # The plugin's own cleanup would take steps before the model takes them.
            [cleanup] = [task for task in asyncio.all_tasks() if task.get_name() == "arbor cleanup"]
            cleanup.cancel()
            await walk(Wire(in_process(hub), hub), taken)

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(example(Path(directory)))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    plugin = ("--plugin", "tests.plugins.arbor.grower:Grower")
    with Daemon(tmp_path_factory.mktemp("hub") / "home", *plugin) as running:
        yield running


@given(WITHOUT_CLOCK)
@examples(2)
def test_methods_match_the_model_over_the_socket_of_a_daemon(
    daemon: Daemon, taken: list[Step]
) -> None:
    async def example() -> None:
        async with daemon.client() as client:
            system = Wire(by_socket(client))
            for left in await system.trees():  # by the example before
                await system.delete(left["tree_id"], "nobody", True)
            await walk(system, taken)

    asyncio.run(example())
