"""Mistakes of a plugin's author are reported, also by a daemon without a terminal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubd.wire import client as wire_client
from hubd.wire.paths import Paths
from tests.support import PATIENCE_SECONDS, hubd
from tests.synapse.support import synapse_process as synapse

HERE = "tests.sample_plugins.mistaken"
# Those that do not work, and the reason.
FAILED = {
    f"{HERE}:FailsToStart": "OSError: no such device",
    "tests.no_such_module:Lost": "ModuleNotFoundError: No module named 'tests.no_such_module'",
    f"{HERE}:DiesLater": "its background work ended: ValueError: background work broke",
}
PLUGINS = (f"{HERE}:Forgetful", *FAILED)
STARTED = "started"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a detached daemon with all of the plugins."""
    home = tmp_path_factory.mktemp("mistakes") / "home"
    options = [word for plugin in PLUGINS for word in ("--plugin", plugin)]
    try:
        started = hubd("start", "--port", "0", *options, home=home)
        assert started.returncode == 0, started.stderr
        (home / STARTED).write_text(started.stderr)
        yield home
    finally:
        hubd("stop", "--force", home=home)


def call(home: Path, method: str, **params: Any) -> list[dict[str, Any]]:
    socket = Paths(str(home)).socket
    return list(wire_client.call(socket, method, params, timeout_seconds=PATIENCE_SECONDS))


def failure(home: Path, method: str, **params: Any) -> str:
    """Return the message of the error that ends a call."""
    [message] = [
        item["message"] for item in call(home, method, **params) if item["type"] == "error"
    ]
    return str(message)


def guidance(home: Path, method: str, **params: Any) -> str:
    """Return the suggestion of a call that fails."""
    [item] = [item for item in call(home, method, **params) if item["type"] == "guidance"]
    return str(item["suggestion"])


def log_of(home: Path) -> str:
    return (home / "hubd.log").read_text()


def test_a_question_that_is_not_awaited_fails_the_call(home: Path) -> None:
    assert failure(home, "forgetful.confirm") == (
        "TypeError: confirm(…) was used without `await`; write `await` before it"
    )


def test_a_write_that_is_not_awaited_fails_the_call_and_is_in_the_log(home: Path) -> None:
    problem = "Database.execute(…) was never awaited, so it did not run"
    for _ in range(2):
        assert failure(home, "forgetful.write").startswith(f"forgetful.write: {problem}")
        # Nothing is acknowledged that did not happen.
        assert [item["type"] for item in call(home, "forgetful.write")] == [
            "guidance",
            "error",
            "done",
        ]
    reported = [line for line in log_of(home).splitlines() if "during forgetful.write;" in line]
    assert len(reported) == 4
    for line in reported:
        assert '"level": "error"' in line
        assert "mistaken.py" in line
        assert "during forgetful.write" in line


def test_a_row_that_is_not_awaited_is_named(home: Path) -> None:
    assert "fetch_one(…) was used without `await`" in failure(home, "forgetful.read")


@pytest.mark.parametrize("how", ["async", "generator", "lambda"])
def test_a_transaction_must_be_a_plain_function(home: Path, how: str) -> None:
    message = failure(home, "forgetful.transact", how=how)
    assert "a transaction is a plain function f(tx)" in message
    assert "'insert_" in message
    [row, _] = call(home, "forgetful.rows")
    assert row["content"]["text"] == "0"


def test_output_of_a_detached_daemon_is_in_the_log(home: Path) -> None:
    assert call(home, "forgetful.output")[-1]["type"] == "done"
    log = log_of(home)
    for text in ("printed during the import", "to stdout", "to stderr", "bytes"):
        assert f'"message": "{text}"' in log
    assert "UserWarning: careful" in log
    assert '"during": "forgetful.output"' in log
    assert "\nto descriptor 1\nto descriptor 2\n" in log
    assert "to descriptor 2" in hubd("logs", home=home).stdout


def test_start_names_the_plugins_that_failed(home: Path) -> None:
    lines = (home / STARTED).read_text().splitlines()
    for plugin, reason in FAILED.items():
        assert f"hubd: the plugin {plugin} failed: {reason}" in lines


def test_status_doctor_and_health_name_the_plugins_that_failed(home: Path) -> None:
    expected = [{"plugin": plugin, "reason": reason} for plugin, reason in FAILED.items()]
    status = json.loads(hubd("status", "--json", home=home).stdout)
    assert list(status)[-1] == "failed_plugins"
    assert status["failed_plugins"] == expected
    output = hubd("status", home=home).stdout
    doctor = hubd("doctor", home=home)
    assert doctor.returncode == 1
    for plugin, reason in FAILED.items():
        assert f"failed_plugin   {plugin}: {reason}\n" in output
        assert f"FAIL plugin: {plugin} (--plugin): {reason}\n" in doctor.stdout
    [health, _] = call(home, "health.check")
    assert health["content"]["status"] == "degraded"
    assert health["content"]["failed_plugins"] == expected
    [info, _] = call(home, "_info")
    assert [failed["plugin"] for failed in info["content"]["failed_plugins"]] == list(FAILED)


def test_a_missing_namespace_is_explained_by_the_plugin_that_failed(home: Path) -> None:
    reason = f"The plugin {HERE}:FailsToStart failed: OSError: no such device."
    lost = "The plugin tests.no_such_module:Lost failed: ModuleNotFoundError: No module named"
    assert guidance(home, "unstarted.list") == reason
    assert guidance(home, "lost.list").startswith(lost)
    assert guidance(home, "plexus.resolve_handle", handle="unstarted@1.0.0::x:1") == reason
    # A plugin keeps its namespace when its background work has ended.
    assert [item["type"] for item in call(home, "dies.hash")] == ["data", "done"]


def test_the_command_line_explains_an_unknown_namespace(home: Path) -> None:
    result = synapse("unstarted", "list", home=home)
    assert result.returncode == 2
    assert "unknown namespace 'unstarted'" in result.stderr
    assert "no_such_module" not in result.stderr
    assert f"The plugin {HERE}:FailsToStart failed: OSError: no such device" in result.stderr
    assert "no_such_module" in synapse("anything", "list", home=home).stderr
    assert "failed" not in synapse("echo", "onec", home=home).stderr
