"""Aliases, default parameters of a directory, manual pages, and the notice of another version."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd import __version__
from hubd.wire.paths import Paths
from synapse import preferences
from synapse.hub.version_notice import version_notice
from synapse.params.defaults import add_defaults
from tests.support import Daemon
from tests.synapse.support import synapse

SCHEMA = {
    "name": "chat",
    "params": {
        "properties": {"name": {}, "session_id": {}, "model": {}, "loopback": {"type": "boolean"}},
        "oneOf": [{"required": ["name"]}, {"required": ["session_id"]}],
    },
    "annotations": {"aliases": {"model": ["engine"]}},
}


@given(st.dictionaries(st.text(min_size=1), st.lists(st.text(), min_size=1), min_size=1))
def test_stored_words_are_read_as_they_were_written(entries: dict[str, list[str]]) -> None:
    written = {
        key: [preferences._unescape(preferences._escape(word)) for word in words]
        for key, words in entries.items()
    }
    assert written == entries
    assert all("\n" not in preferences._escape(key) for key in entries)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([], ["--name=fix", "--model=offline", "--no-loopback"]),
        (["--name", "x"], ["--model=offline", "--no-loopback", "--name", "x"]),
        (["--session-id=1"], ["--model=offline", "--no-loopback", "--session-id=1"]),
        (["--engine", "m"], ["--name=fix", "--no-loopback", "--engine", "m"]),
        (["--loopback"], ["--name=fix", "--model=offline", "--loopback"]),
    ],
)
def test_a_default_applies_unless_the_line_decides(tokens: list[str], expected: list[str]) -> None:
    defaults = ["--name=fix", "--model=offline", "--no-loopback", "--unknown=1"]
    assert add_defaults(tokens, defaults, SCHEMA) == expected  # type: ignore[arg-type]


def test_an_alias_runs_its_command_with_further_words(daemon: Daemon) -> None:
    home = daemon.home
    stored = synapse("self", "alias", "hi", "echo", "once", "--message", "a\tb", home=home)
    assert stored.returncode == 0, stored.stderr
    for _ in range(2):  # without and with a cached schema
        printed = synapse("hi", home=home)
        assert json.loads(printed.stdout)["message"] == "a\tb", printed.stderr
    assert synapse("hi", "--raw", "--fields", "count", home=home).stdout == "1\n"
    assert "hi" in synapse("self", "alias", home=home).stdout
    completed = synapse("h", home=home, _SYNAPSE_COMPLETE="zsh").stdout
    assert "hi\techo once" in completed
    synapse("self", "alias", "say", "echo", "once", home=home)
    assert "--message" in synapse("say", "--m", home=home, _SYNAPSE_COMPLETE="zsh").stdout
    assert synapse("self", "alias", "--remove", "hi", home=home).returncode == 0
    assert synapse("self", "alias", "--remove", "hi", home=home).returncode == 3
    assert synapse("hi", home=home).returncode == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("echo", "arbor", "tree_list"), "'echo' is a namespace already"),
        (("self", "x"), "'self' is a namespace already"),
        (("-x", "y"), "can't be an alias"),
        (("a", "a", "b"), "can't begin with itself"),
        (("a",), "needs words"),
    ],
)
def test_an_alias_that_could_not_be_used_is_refused(
    daemon: Daemon, words: tuple[str, ...], problem: str
) -> None:
    synapse("echo", "once", "--message", "x", home=daemon.home)
    result = synapse("self", "alias", *words, home=daemon.home)
    assert result.returncode == 2
    assert problem in result.stderr


def test_defaults_hold_in_their_directory_and_below(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = daemon.home, tmp_path / "project"
    (project / "src").mkdir(parents=True)
    monkeypatch.chdir(project)
    synapse("echo", "once", "--message", "x", home=home)
    assert synapse("self", "use", "echo", "--message", "hello", home=home).returncode == 0
    monkeypatch.chdir(project / "src")
    assert json.loads(synapse("echo", "once", home=home).stdout)["message"] == "hello"
    given_word = synapse("echo", "once", "--message", "given", home=home)
    assert json.loads(given_word.stdout)["message"] == "given"
    replaced = synapse("echo", "once", "--params", '{"message":"whole"}', home=home)
    assert json.loads(replaced.stdout)["message"] == "whole"
    monkeypatch.chdir(tmp_path)
    assert synapse("echo", "once", home=home).returncode == 2
    assert str(project) in synapse("self", "use", home=home).stdout
    cleared = synapse("self", "use", "--clear", "--directory", str(project), home=home)
    assert cleared.stdout == "removed 1 entry\n"
    monkeypatch.chdir(project)
    assert synapse("echo", "once", home=home).returncode == 2


def test_defaults_that_no_method_takes_are_refused(daemon: Daemon) -> None:
    synapse("echo", "once", "--message", "x", home=daemon.home)
    for words, problem in (
        (("ehco", "--message", "x"), "unknown namespace"),
        (("echo", "--massage", "x"), "no method of echo has the parameter --massage"),
        (("echo", "x"), "is not a parameter"),
        (("echo",), "no parameter is given"),
    ):
        result = synapse("self", "use", *words, home=daemon.home)
        assert (result.returncode, problem in result.stderr) == (2, True), result.stderr


def test_manual_pages_are_written_from_the_schema(daemon: Daemon, tmp_path: Path) -> None:
    page = synapse("self", "man", "echo", home=daemon.home).stdout
    assert page.startswith('.TH "SYNAPSE\\-ECHO" 1')
    assert "\\-\\-message" in page
    if shutil.which("man"):
        shown = subprocess.run(
            ["man", "-l", "-"], input=page.encode(), capture_output=True, check=True
        )
        assert b"ONCE" in shown.stdout
        assert not shown.stderr
    done = synapse("self", "man", "--install", home=daemon.home, XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "man" / "man1" / "synapse-arbor.1").exists()
    assert synapse("self", "man", "nothing", home=daemon.home).returncode == 2


def test_the_notice_of_another_version_appears_once(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    Path(paths.cache).mkdir()
    assert version_notice(paths) is None
    record = Path(paths.record)
    record.write_text(json.dumps({"version": __version__}))
    assert version_notice(paths) is None
    record.write_text(json.dumps({"version": "0.0.1"}))
    notice = version_notice(paths)
    assert notice is not None
    assert "0.0.1" in notice
    assert version_notice(paths) is None
