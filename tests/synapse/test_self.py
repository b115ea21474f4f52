"""The commands of `synapse self`: status, doctor, schema, cache, completion, version."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hubd import __version__
from tests.synapse.support import refusal, synapse

DOCTOR_LOOKS_AT = {
    *("daemon", "socket", "versions", "schema cache", "claude program"),
    *("providers", "disk", "terminal"),
}


@pytest.fixture(scope="module")
def home(cli_home: Path) -> Path:
    return cli_home


def ask(home: Path, *words: str, status: int = 0, env: Mapping[str, str] | None = None) -> Any:
    result = synapse("self", *words, "--json", home=home, **(env or {}))
    assert (result.returncode, result.stderr) == (status, "")
    return json.loads(result.stdout)


def test_status_shows_the_hub_and_its_address(home: Path) -> None:
    fields = ask(home, "status")
    assert fields["running"] is True
    assert fields["hub"] == str(home / "hub.sock")
    assert (fields["name"], fields["version"]) == ("plexus", __version__)
    rows = dict(
        line.split(None, 1) for line in synapse("self", "status", home=home).stdout.splitlines()
    )
    assert rows["plexus_hash"] == fields["plexus_hash"]


def test_status_without_a_daemon_is_5_and_starts_none(tmp_path: Path) -> None:
    fields = ask(tmp_path / "none", "status", status=5)
    assert (fields["running"], fields["version"]) == (False, None)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("words", ["-j self status", "self status -o json", "-o json self status"])
def test_json_can_be_requested_by_each_option(home: Path, words: str) -> None:
    assert json.loads(synapse(*words.split(), home=home).stdout)["running"] is True


def test_the_home_may_be_anywhere(home: Path, tmp_path: Path) -> None:
    for words in (
        ("--home", str(home), "self", "status", "--json"),
        ("self", "status", "--json", f"--home={home}"),
    ):
        assert json.loads(synapse(*words, home=tmp_path).stdout)["running"] is True


def test_doctor_reports_every_check(home: Path) -> None:
    secret = "sk-never-shown"
    env = {"ANTHROPIC_API_KEY": secret, "TERM": "vt100", "NO_COLOR": "1"}
    findings = {entry["what"]: entry for entry in ask(home, "doctor", env=env)}
    assert findings.keys() >= DOCTOR_LOOKS_AT
    assert all(entry["ok"] for entry in findings.values())
    assert findings["socket"]["detail"] == str(home / "hub.sock")
    assert "plexus answers" in findings["daemon"]["detail"]
    assert "TERM=vt100, no colour" in findings["terminal"]["detail"]
    assert findings["providers"]["detail"] == "ANTHROPIC_API_KEY set"
    assert secret not in json.dumps(findings)


def test_doctor_finds_the_claude_program(home: Path, tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path, detail in ((str(tmp_path), str(program)), ("/nowhere", "not on the PATH")):
        findings = {entry["what"]: entry for entry in ask(home, "doctor", env={"PATH": path})}
        assert findings["claude program"]["detail"] == detail


def test_doctor_without_a_daemon_reports_the_next_step(tmp_path: Path) -> None:
    result = synapse("self", "doctor", home=tmp_path / "none")
    assert result.returncode == 0
    assert "ok   daemon: not running; hubd start, or a call, starts it\n" in result.stdout
    assert "ok   schema cache: empty; the next call fills it\n" in result.stdout
    assert not (tmp_path / "none").exists()


def test_doctor_fails_on_a_socket_in_an_unsafe_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    result = synapse("self", "doctor", home=tmp_path)
    assert result.returncode == 1
    assert f"FAIL socket: {tmp_path} can be written by others\n" in result.stdout
    assert "FAIL daemon: " in result.stdout


def test_schema_prints_a_namespace_as_the_hub_describes_it_now(home: Path) -> None:
    root = json.loads(synapse("self", "schema", home=home).stdout)
    assert root["namespace"] == "plexus"
    assert "cli" in {child["namespace"] for child in root["children"]}
    earth = json.loads(synapse("self", "schema", "solar.earth", "--json", home=home).stdout)
    assert [entry["name"] for entry in earth["methods"]] == ["info"]
    assert refusal(synapse("self", "schema", "nowhere", home=home), 2)


def test_the_cache_is_shown_cleared_and_read_anew(home: Path) -> None:
    before = ask(home, "cache", "--refresh")
    assert (before["namespaces"] > 3, before["methods"] > 20) == (True, True)
    assert before["hash"] == ask(home, "status")["plexus_hash"]
    cleared = ask(home, "cache", "--clear")
    assert (cleared["hash"], cleared["namespaces"], cleared["age_seconds"]) == (None, 0, None)
    assert not Path(cleared["file"]).exists()
    again = ask(home, "cache", "--clear", "--refresh")
    assert (again["hash"], again["file"]) == (before["hash"], before["file"])
    assert Path(again["file"]).is_relative_to(home)


def test_version_shows_both(home: Path, tmp_path: Path) -> None:
    assert ask(home, "version") == {"synapse": __version__, "hub": __version__}
    assert ask(tmp_path / "none", "version") == {"synapse": __version__, "hub": None}


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", "data/bash-completion/completions/synapse"),
        ("zsh", "data/zsh/site-functions/_synapse"),
        ("fish", "config/fish/completions/synapse.fish"),
    ],
)
def test_completion_is_shown_and_installed(tmp_path: Path, shell: str, place: str) -> None:
    shown = synapse("self", "completion", "show", shell, home=tmp_path)
    assert shown.returncode == 0
    env = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    for words in ((shell,), ()):
        result = synapse(
            *("self", "completion", "install", *words),
            home=tmp_path,
            SHELL=f"/usr/bin/{shell}",
            **env,
        )
        assert (result.returncode, result.stderr) == (0, "")
        assert str(tmp_path / place) in result.stdout
        assert (tmp_path / place).read_text() == shown.stdout
        (tmp_path / place).unlink()


def test_completion_for_an_unknown_shell_is_refused(tmp_path: Path) -> None:
    result = synapse("self", "completion", "install", home=tmp_path, SHELL="/bin/tcsh")
    assert refusal(result, 2) == "no completion for 'tcsh'; there is: bash, zsh, fish"


def test_completion_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in the way")
    data = str(tmp_path / "data")
    result = synapse("self", "completion", "install", "bash", home=tmp_path, XDG_DATA_HOME=data)
    assert "cannot be written" in refusal(result, 1)
