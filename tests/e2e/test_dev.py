"""`hubd dev`: a hub that follows the files of a plugin."""

import json
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubd.daemon.dev import snapshot
from tests import schema_file
from tests.process.support import is_running, linux_only, watching
from tests.support import HUBD, PATIENCE_SECONDS, environment, events_of

PLUGIN = '''
from hubd.activation import Activation, Event, method
from todo.words import WORD

class Said(Event):
    text: str

class Todo(Activation, namespace="todo", version="1.0.0"):
    """Says a word."""

    @method
    async def say(self) -> Said:
        """Say it."""
        return Said(text=WORD)
'''


class Dev:
    """A running `hubd dev` and the lines of its stderr."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self._seen: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the first new line that matches."""
        while True:
            try:
                line = self._lines.get(timeout=2 * PATIENCE_SECONDS)
            except queue.Empty:
                raise AssertionError(f"no line {pattern!r} in {self._seen}") from None
            self._seen.append(line)
            if match := re.search(pattern, line):
                return match

    def close(self) -> None:
        """Wait until both processes have ended."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(PATIENCE_SECONDS)

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            for line in stderr:
                self._lines.put(line)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with the package `todo`."""
    package = tmp_path / "project" / "todo"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "plugin.py").write_text(PLUGIN)
    (package / "words.py").write_text('WORD = "one"\n')
    return package.parent


@contextmanager
def dev(project: Path, *options: str) -> Iterator[Dev]:
    process = subprocess.Popen(
        [*HUBD, "dev", "todo.plugin:Todo", *options],
        cwd=project,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    running = Dev(process)
    try:
        yield running
    finally:
        running.close()


def word_of(home: Path) -> str:
    [event] = events_of(home, "todo.say")
    return str(event["text"])


def test_the_plugin_follows_its_files(project: Path) -> None:
    words = project / "todo" / "words.py"
    with dev(project, "--reload") as running:
        running.wait_for("todo 1.0.0 is ready")
        home = Path(running.wait_for(r"try it: HUBD_HOME=(\S+) synapse todo --help")[1])
        assert word_of(home) == "one"
        words.write_text('WORD = "two"\n')
        running.wait_for(r"words\.py changed")
        running.wait_for("todo 1.0.0 is reloaded")
        assert word_of(home) == "two"
        # A broken edit: the old version stays.
        words.write_text("WORD = undefined\n")
        running.wait_for("NameError: name 'undefined' is not defined")
        running.wait_for("the plugin todo.plugin:Todo cannot be loaded")
        running.wait_for("the old version still runs; waiting for a change")
        assert word_of(home) == "two"
        words.write_text('WORD = "six"\n')
        running.wait_for("is reloaded")
        assert word_of(home) == "six"
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(PATIENCE_SECONDS) == 0
    # The temporary home is removed.
    assert not home.exists()


@pytest.mark.soak
def test_a_plugin_that_is_broken_at_first_is_loaded_after_its_correction(
    project: Path, home: Path
) -> None:
    plugin = project / "todo" / "plugin.py"
    plugin.write_text("class Todo:\n")
    schema_file.bring(home)
    with dev(project, "--reload", "--home", str(home)) as running:
        running.wait_for("expected an indented block")
        running.wait_for("no daemon runs; waiting for a change")
        plugin.write_text(PLUGIN)
        running.wait_for("todo 1.0.0 is ready")
        assert word_of(home) == "one"
    assert (home / "hub.db").exists()


def test_a_plugin_that_the_hub_refuses_is_reported(project: Path, home: Path) -> None:
    plugin = project / "todo" / "plugin.py"
    plugin.write_text(PLUGIN.replace('namespace="todo"', 'namespace="echo"'))
    schema_file.bring(home)
    with dev(project, "--reload", "--home", str(home)) as running:
        running.wait_for(
            "the daemon runs without the plugin todo.plugin:Todo: .*taken.*EchoPlugin has it"
        )
        running.wait_for("hubd: waiting for a change of the plugin's files")
        plugin.write_text(PLUGIN)
        running.wait_for("todo 1.0.0 is reloaded")


def test_without_reload_a_broken_plugin_is_an_error(project: Path) -> None:
    (project / "todo" / "words.py").write_text("1 / 0\n")
    with dev(project) as running:
        running.wait_for("ZeroDivisionError")
        assert running.process.wait(PATIENCE_SECONDS) == 5


@linux_only
def test_a_killed_supervisor_takes_the_daemon_with_it(project: Path, home: Path) -> None:
    schema_file.bring(home)
    with dev(project, "--reload", "--home", str(home)) as running:
        running.wait_for("is ready")
        pid = json.loads((home / "hubd.json").read_text())["pid"]
        assert is_running(pid)
        with watching(pid):
            running.process.kill()


def test_a_snapshot_sees_new_and_changed_files(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    before = snapshot("todo.plugin:Todo")
    assert {path.name for path in before} == {"__init__.py", "plugin.py", "words.py"}
    (project / "todo" / "more.py").touch()
    assert {path.name for path in snapshot("todo.plugin:Todo")} - {
        path.name for path in before
    } == {"more.py"}
    (project / "single.py").touch()
    assert {path.name for path in snapshot("single:Todo")} == {"single.py"}
