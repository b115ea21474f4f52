"""A plugin that blocks the event loop is named in the log."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubd.daemon.event_loop import PULSE_SECONDS
from tests.support import Daemon

ON_UVLOOP = os.environ.get("TEST_EVENT_LOOP") == "uvloop"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("hub") / "home"
    with Daemon(home, "--plugin", "tests.sample_plugins.wire:Blocking") as running:
        yield running


def reports(daemon: Daemon) -> list[str]:
    """Return the log entries about a blocked event loop."""
    lines = Path(daemon.paths.log).read_text().splitlines()
    messages = [str(json.loads(line)["message"]) for line in lines]
    return [message for message in messages if "blocked the event loop" in message]


@pytest.mark.parametrize(
    ("method", "name", "function"),
    [
        ("blocking.sleep", "blocking.sleep", "Blocking.sleep"),
        ("blocking.nested", "blocking.sleep", "Blocking.sleep"),
        (
            "blocking.call_back",
            "the callback Blocking.call_back.<locals>.block",
            "Blocking.call_back.<locals>.block",
        ),
        ("blocking.wake", "blocking background", "Blocking._background"),
    ],
)
async def test_the_log_names_what_blocked_the_event_loop_and_for_how_long(
    daemon: Daemon, method: str, name: str, function: str
) -> None:
    before = len(reports(daemon))
    async with daemon.client() as client:
        items = await client.call(method)
        assert [item["type"] for item in items] == ["data", "done"]
        await client.call("echo.ping")
    [report] = reports(daemon)[before:]
    match = re.fullmatch(
        r"(.+) blocked the event loop for ([0-9.]+) s \((.+):[0-9]+ in (.+)\)", report
    )
    assert match is not None, report
    if ON_UVLOOP and name.startswith("the callback"):
        name = "a callback"  # Its handles have no public callback.
    assert (match[1], match[4]) == (name, function)
    assert match[3].endswith("tests/sample_plugins/wire.py")
    # On uvloop, the time counts from the next beat of a timer on.
    assert float(match[2]) >= (0.3 - PULSE_SECONDS if ON_UVLOOP else 0.3)


async def test_methods_that_wait_are_not_reported(daemon: Daemon) -> None:
    before = reports(daemon)
    async with daemon.client() as client:
        await client.call("echo.echo", {"message": "hi", "count": 100})
    assert reports(daemon) == before
