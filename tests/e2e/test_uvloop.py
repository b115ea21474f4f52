"""The daemon on uvloop: everything that depends on the event loop works as on asyncio's."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import Daemon, environment


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("hub") / "home"
    options = ("--event-loop", "uvloop", "--plugin", "tests.sample_plugins.wire:Blocking")
    with Daemon(home, *options) as running:
        yield running


async def test_calls_are_answered_over_the_unix_socket_and_the_websocket(daemon: Daemon) -> None:
    import websockets

    async with daemon.client() as client:
        items = await client.call("echo.echo", {"message": "hi", "count": 1000})
        assert [item["type"] for item in items] == ["data"] * 1000 + ["done"]
    header = {"Authorization": f"Bearer {daemon.token}"}
    url = daemon.record["ws_url"]
    async with websockets.connect(url, additional_headers=header) as socket:
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "echo.ping"}))
        messages = [json.loads(await socket.recv()) for _ in range(3)]
        assert messages[0] == {"jsonrpc": "2.0", "id": 1, "result": 1}
        assert [message["params"]["result"]["type"] for message in messages[1:]] == ["data", "done"]


async def test_a_child_process_is_started_read_and_ended_on_cancellation(daemon: Daemon) -> None:
    async with daemon.client() as client:
        items = await client.call("bash.execute", {"command": "echo out; echo err >&2; exit 3"})
        lines = [item["content"] for item in items if item["type"] == "data"]
        assert [line["type"] for line in lines] == ["stdout", "stderr", "exit"]
        assert lines[-1]["code"] == 3
        params = {"command": "sleep 1000", "timeout_secs": 1}
        items = await client.call("bash.execute", params)
        assert [item.get("code") for item in items if item["type"] == "error"] == ["timeout"]


async def test_a_chat_runs_its_program_and_is_stored(daemon: Daemon, tmp_path: Path) -> None:
    async with daemon.client() as client:
        params = {
            "name": "s",
            "model": "offline",
            "working_dir": str(tmp_path),
            "prompt": "run: echo hello",
            "allowed_tools": ["Bash"],
        }
        events = [
            item["content"]
            for item in await client.call("claudecode.chat", params)
            if item["type"] == "data"
        ]
        assert events[-1]["type"] == "complete"
        assert "hello" in [event["text"] for event in events if event["type"] == "content"][-1]


async def test_the_log_names_the_method_that_blocked_the_loop(daemon: Daemon) -> None:
    async with daemon.client() as client:
        await client.call("blocking.sleep")
        await client.call("echo.ping")
    reports = [
        json.loads(line)["message"]
        for line in Path(daemon.paths.log).read_text().splitlines()
        if "blocked the event loop" in line
    ]
    assert [report.partition(" ")[0] for report in reports] == ["blocking.sleep"]


def test_the_daemon_stops_on_sigterm(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home", "--event-loop", "uvloop") as daemon:
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(20) == 0


def test_asking_for_uvloop_without_it_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "uvloop.py").write_text("raise ImportError")
    command = [sys.executable, "-m", "hubd", "run", "--home", str(tmp_path / "home")]
    variables = environment()
    variables["PYTHONPATH"] = f"{tmp_path}:{variables['PYTHONPATH']}"
    done = subprocess.run(
        [*command, "--event-loop", "uvloop"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "uvloop is not installed" in done.stderr
    assert "pip install 'hubd[fast]'" in done.stderr
