"""The daemon through its command line: start, stop, inspect, call. Real processes only."""

import asyncio
import json
import os
import select
import signal
import sqlite3
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from hubd.daemon import run as run_module
from tests.support import HUBD, PATIENCE_SECONDS, Daemon, environment, events_of, few, hubd

STATUS_KEYS = {
    *("running", "pid", "version", "home", "socket", "ws_url", "mcp_url", "token_file"),
    *("plexus_hash", "uptime_seconds", "failed_plugins"),
}
TROUBLE = ("--plugin", "tests.sample_plugins.trouble:Trouble")
# The longest time between SIGTERM and the end.
STOP_SECONDS = 10.0
Finished = subprocess.CompletedProcess[str]
Run = Callable[..., Finished]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that no test changes."""
    with Daemon(tmp_path_factory.mktemp("hub") / "home", *TROUBLE) as running:
        yield running


@pytest.fixture
def run(home: Path) -> Iterator[Run]:
    """The command with a new home. All daemons of that home are killed in the end."""
    yield lambda *arguments, **more: hubd(*arguments, home=home, HUBD_PORT="0", **more)
    while left := daemons(home):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_for_end(pid)


def daemons(home: Path) -> set[int]:
    """Return the processes that run a daemon on this home, or are starting one."""
    pids = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # gone meanwhile
            arguments = path.read_bytes().split(b"\0")
            surroundings = path.with_name("environ").read_bytes().split(b"\0")
            named = str(home).encode() in arguments or f"HUBD_HOME={home}".encode() in surroundings
            if b"run" in arguments and named:
                pids.add(int(path.parent.name))
    return pids


def wait_for_end(pid: int) -> None:
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            assert select.select([descriptor], [], [], PATIENCE_SECONDS)[0], f"{pid} still runs"
        finally:
            os.close(descriptor)


def start_at_once(home: Path, count: int) -> list[str]:
    """Run `hubd start` so many times at once and return the outputs. All must succeed."""
    command = [*HUBD, "--home", str(home), "start", "--port", "0"]
    starts = [
        subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    outputs = [start.communicate(timeout=60)[1] for start in starts]
    assert [start.returncode for start in starts] == [0] * count, outputs
    return outputs


def status(run: Run) -> dict[str, Any]:
    finished = run("status", "--json")
    state: dict[str, Any] = json.loads(finished.stdout)
    assert set(state) == STATUS_KEYS
    assert finished.returncode == (0 if state["running"] else 3)
    return state


def refused(finished: Finished, code: int, *said: str) -> None:
    """It failed with this status and a sentence, not with a stack trace."""
    assert finished.returncode == code, finished.stderr
    assert finished.stderr.startswith("hubd: ")
    assert "Traceback" not in finished.stderr
    for words in said:
        assert words in finished.stderr


def test_start_status_and_stop(run: Run, home: Path) -> None:
    assert status(run)["running"] is False
    assert run("start").returncode == 0
    state = status(run)
    assert (state["running"], state["home"], state["version"]) == (True, str(home), "0.1.0")
    assert state["ws_url"].startswith("ws://127.0.0.1:")
    assert Path(state["socket"]).is_socket()
    assert Path(state["token_file"]).read_text().strip()
    assert (len(state["plexus_hash"]), type(state["pid"])) == (16, int)
    assert state["uptime_seconds"] >= 0
    assert f"{'pid':<15} {state['pid']}\n" in run("status").stdout
    stopped = run("stop")
    assert (stopped.returncode, stopped.stderr) == (0, "hubd: stopped\n")
    wait_for_end(state["pid"])
    assert not Path(state["socket"]).exists()
    after = status(run)
    assert (after["running"], after["pid"], after["plexus_hash"]) == (False, None, None)
    again = run("stop")
    assert (again.returncode, again.stderr) == (0, "hubd: was not running\n")


def test_a_second_start_finds_the_first_and_a_second_run_is_refused(run: Run) -> None:
    run("start")
    pid = status(run)["pid"]
    second = run("start")
    assert second.returncode == 0
    assert f"already running (pid {pid})" in second.stderr
    refused(run("run"), 7, "already running", str(pid))
    assert status(run)["pid"] == pid


def test_of_several_starts_at_once_one_wins_and_all_succeed(run: Run, home: Path) -> None:
    outputs = start_at_once(home, 4)
    pid = status(run)["pid"]
    assert all(f"(pid {pid})" in line for line in outputs)
    assert sorted("already running" in line for line in outputs) == [False, True, True, True]
    assert (home / "hubd.log").read_text().count("ready on") == 1
    # The others have left no daemon that would outlive a stop.
    assert daemons(home) == {pid}
    assert run("stop").returncode == 0
    assert daemons(home) == set()


@pytest.mark.parametrize("home_given", few(["by option", "by variable"], 1))
def test_a_restart_keeps_the_options_it_was_started_with(
    run: Run, home: Path, home_given: str
) -> None:
    run("start", "--name", "hub", *TROUBLE)
    before = status(run)
    if home_given == "by option":
        restarted = run("restart")
    else:
        restarted = subprocess.run(
            [*HUBD, "restart"],
            env=environment(HUBD_HOME=str(home), HUBD_PORT="0"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert restarted.returncode == 0, restarted.stderr
    after = status(run)
    assert after["pid"] != before["pid"]
    wait_for_end(before["pid"])
    assert events_of(home, "_info")[0]["backend"] == "hub"
    assert after["plexus_hash"] == before["plexus_hash"]


def test_a_restart_takes_new_options_and_starts_a_stopped_daemon(run: Run, home: Path) -> None:
    assert run("restart", "--name", "one").returncode == 0
    assert events_of(home, "_info")[0]["backend"] == "one"
    assert run("restart", "--name", "two").returncode == 0
    assert events_of(home, "_info")[0]["backend"] == "two"


async def test_a_stop_ends_hanging_calls_and_clients_that_do_not_read(
    home: Path, tmp_path: Path
) -> None:
    running = Daemon(home, *TROUBLE)
    with running:
        process = running.process
        assert process is not None
        _, deaf = await asyncio.open_unix_connection(running.paths.socket)
        deaf.write(b'{"jsonrpc":"2.0","id":1,"method":"trouble.count","params":{"pad":9999}}\n')
        await deaf.drain()
        async with running.client() as client:
            await client.send("trouble.hang", {"marker": str(tmp_path / "marker")})
            await client.send("trouble.stubborn", {})
            got = [await client.receive() for _ in range(4)]
            process.send_signal(signal.SIGTERM)
            with suppress(ConnectionResetError):
                while True:
                    got.append(await client.receive())
        assert await asyncio.to_thread(process.wait, STOP_SECONDS) == 0
        deaf.transport.abort()
    items = [message["params"] for message in got if "params" in message]
    for subscription in (1, 2):
        own = [item["result"] for item in items if item["subscription"] == subscription]
        assert [item["type"] for item in own] == ["data", "error", "done"]
        assert (own[1]["code"], own[1]["message"]) == ("cancelled", "the daemon is stopping")
    assert (tmp_path / "marker").exists()
    log = Path(running.paths.log).read_text().splitlines()
    assert json.loads(log[-1])["message"] == "stopped"


def test_a_daemon_whose_log_on_stderr_has_no_reader_ends_with_status_0(home: Path) -> None:
    # The reader is gone as soon as the daemon is ready.
    with Daemon(home, "--log-level", "debug") as running:
        events_of(home, "echo.ping")
        assert running.stop() == 0


DEAF = '''
import asyncio, time
from collections.abc import AsyncIterator
from hubd.activation import Activation, Event, method
from hubd.daemon import run

run.STOP_SECONDS = {stop_seconds}

class Said(Event):
    word: str

class Deaf(Activation, namespace="deaf", version="1.0.0"):
    """Does not let go."""

    @method
    async def clutch(self) -> AsyncIterator[Said]:
        """Swallow every cancellation, and block the loop after that."""
        yield Said(word="here")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                time.sleep(3600)
'''


@pytest.mark.parametrize("stop_seconds", few([1.5, run_module.STOP_SECONDS], 1))
async def test_a_plugin_that_blocks_the_event_loop_cannot_keep_the_daemon_alive(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_seconds: float
) -> None:
    (tmp_path / "deaf.py").write_text(DEAF.format(stop_seconds=stop_seconds))
    monkeypatch.chdir(tmp_path)
    with Daemon(home, "--plugin", "deaf:Deaf") as running:
        process = running.process
        assert process is not None
        async with running.client() as client:
            await client.send("deaf.clutch", {})
            await client.receive()
            await client.receive()
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, STOP_SECONDS)


FROZEN = '''
import ctypes
from collections.abc import AsyncIterator
from pathlib import Path
from hubd.activation import Activation, Event, method

class Said(Event):
    word: str

class Frozen(Activation, namespace="frozen", version="1.0.0"):
    """Holds the lock of the interpreter."""

    @method
    async def freeze(self) -> AsyncIterator[Said]:
        """Write to the pipe `frozen`, then let no Python code of the process run any more."""
        Path("frozen").write_text("now")
        mutex = ctypes.create_string_buffer(64)
        # The second call never returns. Signals do not interrupt it.
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)
        yield Said(word="never")
'''


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="the chain of signals is Linux's")
async def test_native_code_that_holds_the_interpreter_cannot_keep_the_daemon_alive(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "frozen.py").write_text(FROZEN)
    os.mkfifo(tmp_path / "frozen")
    monkeypatch.chdir(tmp_path)
    with Daemon(home, "--plugin", "frozen:Frozen") as running:
        process = running.process
        assert process is not None
        async with running.client() as client:
            await client.send("frozen.freeze", {})
            assert await asyncio.to_thread((tmp_path / "frozen").read_text) == "now"
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 2 * STOP_SECONDS) == -signal.SIGALRM
    assert "frozen.py" in Path(running.paths.log).read_text()


def test_acknowledged_writes_are_there_after_a_kill_and_a_start(home: Path) -> None:
    with Daemon(home, *TROUBLE) as running:
        written = events_of(home, "trouble.write", text="kept")
        running.kill()
        assert Path(running.paths.socket).exists()
        stale = hubd("status", "--json", home=home)
        assert (stale.returncode, json.loads(stale.stdout)["running"]) == (3, False)
        assert hubd("stop", home=home).stderr == "hubd: was not running\n"
        running.start()
        assert events_of(home, "trouble.read") == written


BROKEN = {
    "missing_module:Plugin": (None, "No module named 'missing_module'"),
    "no_attribute:Plugin": ("", "has no attribute 'Plugin'"),
    "no_class:Plugin": ("Plugin = 7", "is not a class derived from"),
    "raises:Plugin": ("raise ValueError('not today')", "ValueError: not today"),
    "exits:Plugin": ("raise SystemExit('bye')", "SystemExit: bye"),
    "no_target": (None, "is not module:Class"),
    "collides:Plugin": (
        "from hubd.activation import Activation\n"
        "class Plugin(Activation, namespace='echo', version='1.0.0'):\n    'Another echo.'",
        "the name 'echo' is taken",
    ),
    "no_version:Plugin": (
        "from hubd.activation import Activation\n"
        "class Plugin(Activation, namespace='other'):\n    'No version.'",
        "give a semantic version",
    ),
}


def test_broken_plugins_are_reported_and_left_out(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[str] = []
    for target, (source, _) in BROKEN.items():
        options += ["--plugin", target]
        if source is not None:
            (tmp_path / f"{target.partition(':')[0]}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    with Daemon(home, *options, *TROUBLE):
        entries = events_of(home, "plexus.activations")
        doctor = hubd("doctor", home=home)
        assert len(events_of(home, "echo.ping")) == 1
        assert len(events_of(home, "trouble.with_progress")) == 2
        log = hubd("logs", "--json", "-n", "100", home=home).stdout
    broken = {entry["source"]: entry["reason"] for entry in entries if "source" in entry}
    assert len(broken) == len(BROKEN)
    assert "trouble" in {entry.get("namespace") for entry in entries}
    assert doctor.returncode == 1
    for target, (_, reason) in BROKEN.items():
        named = f"{target} (--plugin)"
        assert reason in broken[named]
        assert f"FAIL plugin: {named}: {broken[named]}\n" in doctor.stdout
        assert f"plugin {named} was left out" in log


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        pytest.param("os._exit(0)", "exited with status 0", marks=pytest.mark.soak),
        # The status of a daemon that finds its home in use.
        ("os._exit(7)", "exited with status 7"),
        ("os.write(2, b'bye\\n'); os.kill(os.getpid(), 9)", "SIGKILL): bye"),
    ],
)
def test_a_plugin_that_ends_the_process_is_named_by_start_at_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, ending: str
) -> None:
    (tmp_path / "ender.py").write_text(f"import os, sys\n{code}")
    monkeypatch.chdir(tmp_path)
    started = run("start", "--plugin", "ender:Plugin")
    refused(started, 5, "the plugin ender:Plugin ended the daemon", ending)
    assert "hubd logs" not in started.stderr


def test_status_has_no_token_file_without_authentication(run: Run, home: Path) -> None:
    assert run("start", "--no-auth").returncode == 0
    assert status(run)["token_file"] is None
    run("stop")
    assert not (home / "token").exists()
    assert status(run)["token_file"] is None


def test_the_log_is_json_lines_shown_readable_or_raw(daemon: Daemon) -> None:
    events_of(daemon.home, "trouble.raises")
    lines = Path(daemon.paths.log).read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert all({"time", "level", "logger", "message"} <= entry.keys() for entry in entries)
    assert entries[0]["message"].startswith("ready on ")
    assert "a plugin's own mistake" in entries[-1]["trace"]
    assert hubd("logs", "--json", home=daemon.home).stdout.splitlines() == lines
    assert hubd("logs", "--json", "-n", "1", home=daemon.home).stdout.splitlines() == lines[-1:]
    output = hubd("logs", home=daemon.home).stdout
    assert f"{entries[0]['time']} info    {entries[0]['message']}" in output
    assert "\nValueError: a plugin's own mistake\n" in output
    assert '{"' not in output


def test_logs_with_zero_lines_prints_nothing_old(daemon: Daemon) -> None:
    assert hubd("logs", "-n", "0", home=daemon.home).stdout == ""


def test_a_log_entry_names_the_method_that_failed(daemon: Daemon) -> None:
    events_of(daemon.home, "trouble.exits")
    last = json.loads(Path(daemon.paths.log).read_text().splitlines()[-1])
    assert "trouble.exits" in last["message"]


def test_logs_follow_prints_new_lines_until_ctrl_c(daemon: Daemon) -> None:
    command = [*HUBD, "--home", str(daemon.home), "logs", "-f", "-n", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as follower:
        try:
            assert follower.stdout is not None
            assert json.loads(follower.stdout.readline())
            events_of(daemon.home, "trouble.exits")
            assert select.select([follower.stdout], [], [], PATIENCE_SECONDS)[0]
            assert b"SystemExit: bye" in follower.stdout.readline()
        finally:
            follower.send_signal(signal.SIGINT)
        assert follower.wait(PATIENCE_SECONDS) == 130


def installed() -> tuple[str, ...]:
    """Run the command like the script that pip installs."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["hubd"].partition(":")
    return (
        sys.executable,
        "-c",
        f"import sys; from {module} import {function}; sys.exit({function}())",
    )


@pytest.mark.parametrize("command", [HUBD, installed()], ids=["module", "script"])
@pytest.mark.parametrize(
    ("module", "arguments"),
    [("argparse", ("status",)), ("subprocess", ("start",)), ("asyncio", ("run",))],
)
def test_ctrl_c_during_the_imports_of_a_command_ends_it_quietly(
    home: Path, tmp_path: Path, command: tuple[str, ...], module: str, arguments: tuple[str, ...]
) -> None:
    # Replaces a module that the command imports. Ctrl-C comes during the import.
    (tmp_path / f"{module}.py").write_text("import signal; signal.raise_signal(signal.SIGINT)")
    path = os.pathsep.join((str(tmp_path), environment()["PYTHONPATH"]))
    result = subprocess.run(
        [*command, *arguments, "--home", str(home)],
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        stdin=subprocess.DEVNULL,
        env=environment(PYTHONPATH=path),
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, b"", b"")


def test_a_backup_is_a_complete_private_database_and_replaces_no_file(
    daemon: Daemon, tmp_path: Path
) -> None:
    events_of(daemon.home, "trouble.write", text="kept")
    copy = tmp_path / "copy.db"
    assert hubd("backup", str(copy), home=daemon.home).returncode == 0
    with closing(sqlite3.connect(copy)) as database:
        assert database.execute("SELECT text FROM trouble_log LIMIT 1").fetchone() == ("kept",)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    refused(hubd("backup", str(copy), home=daemon.home), 7, "exists")
    assert hubd("backup", str(copy), "--force", home=daemon.home).returncode == 0


def test_doctor_and_check_find_no_problem_in_a_healthy_hub(daemon: Daemon) -> None:
    for command, thorough in (("doctor", "write-ahead log"), ("check", "integrity")):
        assert hubd(command, home=daemon.home).returncode == 0
        findings = json.loads(hubd(command, "--json", home=daemon.home).stdout)
        assert {finding["what"] for finding in findings} >= {thorough, "migrations of trouble"}
        assert [each for each in findings if not (each["ok"] and each["detail"])] == []


def test_commands_on_an_empty_home_report_it_and_create_nothing(run: Run, home: Path) -> None:
    refused(run("check"), 3, "no database")
    refused(run("backup", "copy.db"), 3, "no database")
    refused(run("logs"), 3, "no log")
    doctor = run("doctor")
    assert (doctor.returncode, "not running" in doctor.stdout) == (0, True)
    assert not home.exists()


def test_doctor_check_and_start_report_an_unusable_home(run: Run, home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "hub.db").write_bytes(b"this is no database" * 1000)
    (home / "token").write_text("a-token-others-can-read")
    (home / "token").chmod(0o644)
    assert run("check").returncode == 1
    doctor = run("doctor")
    assert doctor.returncode == 1
    assert "FAIL token: others can read" in doctor.stdout
    refused(run("start"), 5, str(home / "hub.db"))
    assert status(run)["running"] is False


@pytest.mark.parametrize("command", ["start", "run"])
@pytest.mark.parametrize(
    ("option", "value", "code", "said"),
    [
        ("--port", "70000", 2, "--port is '70000', not a port (0 to 65535)"),
        ("--port", "TAKEN", 5, "cannot be used"),
        ("--name", "not a word", 2, "not a word"),
    ],
)
def test_an_invalid_option_is_refused_in_one_sentence(
    run: Run, daemon: Daemon, command: str, option: str, value: str, code: int, said: str
) -> None:
    taken = daemon.record["ws_url"].rpartition(":")[2]
    refused(run(command, option, value.replace("TAKEN", taken)), code, said)
    assert status(run)["running"] is False


def test_a_restart_of_a_stopped_daemon_uses_its_home(run: Run, home: Path) -> None:
    user = home.parent / "user"
    restarted = run("restart", HOME=str(user), XDG_DATA_HOME="", XDG_STATE_HOME="")
    assert restarted.returncode == 0, restarted.stderr
    assert daemons(home) == {status(run)["pid"]}
    assert not user.exists()
