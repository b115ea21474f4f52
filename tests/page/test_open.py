"""`hubd open` and `synapse self open`: who gets an address, and how it is shown."""

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubd.activation import Actor, Client
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.wire.page_link import SCREEN_VARIABLES
from tests.page.support import page, port_of
from tests.process.support import linux_only
from tests.support import (
    HUBD,
    PATIENCE_SECONDS,
    Collector,
    Daemon,
    call_error,
    environment,
    events_of,
    hubd,
)

SYNAPSE = (sys.executable, "-m", "synapse")
HINT = "Open this address within a minute"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("opened") / "home"
    with Daemon(home, "--plugin", "tests.process.test_agents:Agents") as running:
        yield running


def commands(home: Path) -> list[list[str]]:
    return [
        [*HUBD, "--home", str(home), "open"],
        [*SYNAPSE, "--home", str(home), "self", "open"],
    ]


def run(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    variables = {name: text for name, text in environment().items() if name not in SCREEN_VARIABLES}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**variables, **more},
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def code_in(daemon: Daemon, output: str) -> str:
    match = re.fullmatch(rf"http://127\.0\.0\.1:{port_of(daemon)}/#code=([\w-]{{43}})\n", output)
    assert match, output
    return match[1]


@pytest.mark.parametrize("number", [0, 1], ids=["hubd", "synapse"])
@pytest.mark.parametrize("options", [[], ["--no-browser"]])
def test_without_a_browser_the_address_is_printed_with_a_hint(
    daemon: Daemon, number: int, options: list[str]
) -> None:
    result = run([*commands(daemon.home)[number], *options])
    assert (result.returncode, result.stderr.removeprefix("hubd: ")) == (0, f"{HINT}\n")
    with page(daemon) as opened:
        assert opened.log_in(code=code_in(daemon, result.stdout))["result"]["success"] is True


@pytest.mark.parametrize("number", [0, 1], ids=["hubd", "synapse"])
def test_the_browser_opens_the_printed_address(daemon: Daemon, tmp_path: Path, number: int) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    # It prints too, as browsers do.
    browser.write_text(f'#!/bin/sh\necho noise\necho noise >&2\necho "$1" > {opened}\n')
    browser.chmod(stat.S_IRWXU)
    result = run(commands(daemon.home)[number], BROWSER=f"{browser} %s")
    assert (result.returncode, result.stderr) == (0, "")
    code_in(daemon, result.stdout)
    assert opened.read_text() == result.stdout


def test_a_daemon_is_started_if_none_runs(home: Path) -> None:
    result = hubd("open", "--no-browser", home=home)
    try:
        assert result.returncode == 0, result.stderr
        record = json.loads((home / "hubd.json").read_text())
        assert result.stdout.startswith(record["mcp_url"].removesuffix("mcp") + "#code=")
    finally:
        hubd("stop", home=home)


def test_synapse_starts_no_daemon_if_it_must_not(home: Path) -> None:
    result = run([*SYNAPSE, "--home", str(home), "--no-autostart", "self", "open"])
    assert (result.returncode, result.stdout) == (5, "")


@linux_only
def test_an_agent_gets_no_address(daemon: Daemon) -> None:
    for grants in ([], ["*"]):
        for command in commands(daemon.home):
            script = f"{' '.join(command)} --no-browser 2>&1; echo $?"
            events = events_of(
                daemon.home,
                "agents.run",
                command=["env", f"PYTHONPATH={Path.cwd()}", "sh", "-c", script],
                grants=grants,
            )
            output = "\n".join(event["text"] for event in events)
            assert "only a person may open the page" in output
            assert "Run hubd open outside of an agent" in output
            assert output.endswith("\n4")
            assert "code=" not in output


@pytest.mark.parametrize(
    ("kind", "is_allowed"),
    [("hub", True), ("person", True), ("client", False), ("session", False), ("unknown", False)],
)
async def test_only_people_and_the_hub_get_an_address(
    hub: Hub, kind: str, is_allowed: bool
) -> None:
    hub.page_link = lambda: {"type": "page", "url": "http://127.0.0.1:1/#code=x", "expires_at": 1}
    actor = Actor(kind, "one", grants=("*",))  # type: ignore[arg-type]
    for method, params in (("_page", {}), ("plexus.call", {"method": "_page"})):
        caller = Collector(client=Client("test", actor=actor))
        await Call(hub, method, params, caller).run()
        types = [item["type"] for item in caller.items]
        if is_allowed:
            assert types == ["data", "done"]
            assert caller.items[0]["content"] == hub.page_link()
        else:
            assert types == ["guidance", "error", "done"]
            assert caller.items[1]["code"] == "permission_denied"


async def test_a_hub_without_a_port_has_no_page(hub: Hub) -> None:
    assert (await call_error(hub, "_page"))["code"] == "unavailable"
